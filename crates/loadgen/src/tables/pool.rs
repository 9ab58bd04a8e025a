//! A job for every table, some tables at a time.

use std::borrow::Borrow;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use thiserror::Error;

use protocol::ClientError;
use protocol::mysql::{Connection, Deadline};
use workload::tables::Table;

/// A request to stop is handed on at least this often.
const TICK: Duration = Duration::from_millis(50);

/// The way to open connections, and the limits of the work on them.
pub struct Sessions<'a> {
    /// Opens a connection, ready for statements.
    pub open: &'a (dyn Fn(&Deadline) -> Result<Connection, ClientError> + Sync),
    pub stop: &'a Arc<AtomicBool>,
    /// All tables together may take so long; None as long as it takes.
    pub limit: Option<Duration>,
}

/// Why the work on a table ended.
#[derive(Debug, Error)]
#[error("table {table}: {cause}")]
pub struct TableError {
    pub table: String,
    pub cause: JobError,
}

/// Why a job ended, of whichever table.
#[derive(Debug, Error)]
pub enum JobError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("{0}: the server changed a value that was sent, or it was changed since")]
    Mismatch(String),
}

/// The results of a job for every table, in their order, and its connections.
pub struct Done<T> {
    pub results: Vec<T>,
    pub connections: Vec<Connection>,
}

/// Do `job` for every table, or part of one, on `threads` connections (0: as many as there are processors).
///
/// The first error ends the jobs that go on.
pub fn each<I: Borrow<Table> + Sync, T: Send>(
    sessions: &Sessions<'_>,
    items: &[I],
    threads: usize,
    job: impl Fn(&mut Connection, &I, &Deadline) -> Result<T, JobError> + Sync,
) -> Result<Done<T>, TableError> {
    let halt = Arc::new(AtomicBool::new(false));
    let deadline = Deadline::start(&halt, sessions.limit);
    let next = AtomicUsize::new(0);
    let used = Mutex::new(Vec::new());
    let (done, results) = channel();
    let results = thread::scope(|scope| {
        for _ in 0..connections(threads).min(items.len()) {
            let done = done.clone();
            let (next, deadline, job, used) = (&next, &deadline, &job, &used);
            scope.spawn(move || {
                let mut connection = None;
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else {
                        break;
                    };
                    let result = connected(&mut connection, sessions, deadline)
                        .and_then(|connection| job(connection, item, deadline))
                        .map_err(|cause| TableError { table: item.borrow().name.clone(), cause });
                    let failed = result.is_err();
                    if done.send((index, result)).is_err() || failed {
                        return;
                    }
                }
                let mut used = used.lock().expect("nobody panics while it holds it");
                used.extend(connection);
            });
        }
        drop(done);
        collect(&results, items.len(), sessions.stop, &halt)
    })?;
    let connections = used.into_inner().expect("nobody panics while it holds it");
    Ok(Done { results, connections })
}

fn connections(threads: usize) -> usize {
    if threads > 0 {
        return threads;
    }
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Return the worker's connection, opened for its first table.
fn connected<'a>(
    connection: &'a mut Option<Connection>,
    sessions: &Sessions<'_>,
    deadline: &Deadline,
) -> Result<&'a mut Connection, JobError> {
    match connection {
        Some(connection) => Ok(connection),
        None => Ok(connection.insert((sessions.open)(deadline)?)),
    }
}

/// Wait until every worker has ended; hands requests to stop, and the first failure, on to them.
fn collect<T>(
    results: &Receiver<(usize, Result<T, TableError>)>,
    count: usize,
    stop: &AtomicBool,
    halt: &AtomicBool,
) -> Result<Vec<T>, TableError> {
    let mut finished: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let mut failure = None;
    loop {
        match results.recv_timeout(TICK) {
            Ok((index, Ok(result))) => finished[index] = Some(result),
            // The others end because of the first: it is the one to tell.
            Ok((_, Err(error))) => _ = failure.get_or_insert(error),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if failure.is_some() || stop.load(Ordering::Relaxed) {
            halt.store(true, Ordering::Relaxed);
        }
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(finished.into_iter().flatten().collect()),
    }
}
