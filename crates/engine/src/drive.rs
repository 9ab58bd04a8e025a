//! One drive, from opening its connections to its results.

use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::statement_activity::{ActivitySlot, StatementActivity};
use protocol::{ClientError, Session};

use super::arrivals::{Arrivals, Schedule, Share};
use super::budget::Budget;
use super::client::Client;
use super::clock::{Clock, nanoseconds, seconds};
use super::coordinator::{Coordinator, DriveOutcome};
use super::drive_result::{
    BackgroundResult, ClientCpu, DriveResult, Failed, MaintenanceResult, Mark, Pace, PacingResult,
    PartResult, PerClient, Punctuality, Report, SideResult,
};
use super::poller::Waker;
use super::record::{Record, Records};
use super::settings::{DriveSettings, End, Pacing};
use super::shared::Shared;
use super::worker::{Context, Finished, Message, Worker};
use protocol::script::{Names, Script};

/// The time for the threads to start before the first requests are due, so that these are not late.
const START_NS: u64 = 2_000_000;

/// With statement activity: the pause between connecting and the first requests. In that time
/// samplers can see each of the server's threads wait for its client; later, threads that wait for
/// each other may never do so.
const SEEN_WAITING_NS: u64 = 200_000_000;

/// The number of connections that are opened at the same time, because each login waits for several
/// answers. It is below the shortest listen queue of a server (50), which therefore cannot
/// overflow.
const AT_ONCE: u32 = 16;

/// The number of open files besides the connections.
const OTHER_FILES: u64 = 64;

/// The maximum delay until the thread of maintenance notices a stop request.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the statements of maintenance, and returns the duration of each.
pub type RunStatements<'a> = Box<dyn FnOnce() -> Result<Vec<Duration>, ClientError> + Send + 'a>;

/// Open a connection for each client, and drive the clients until the end of the drive.
///
/// `open` logs in, and returns a connection and its script. Several threads call it at once with
/// the connections' numbers, from 0: number `n` is client `n / sides` of side `n % sides`; the
/// clients of each background group follow. `report` is called by the calling thread. If `stop`
/// becomes true, the drive ends within 0.1 s, with a partial result; while connections are being
/// opened, `open` itself must observe `stop` and the limit. `maintenance` runs if the settings
/// require it; a stop or an error of a client does not interrupt it.
pub fn drive<C: Session, S: Script + Send>(
    drive: &DriveSettings,
    names: &Names,
    open: impl Fn(u32) -> Result<(C, S), ClientError> + Sync,
    maintenance: Option<RunStatements<'_>>,
    report: &dyn Fn(&Report),
    stop: &AtomicBool,
) -> Result<DriveResult, Failed> {
    let failed = |error| Failed { driven: None, error };
    let clock = Clock::start();
    let threads = drive.thread_count();
    let mut groups =
        open_all(drive.connections(), drive.sides(), threads, &open).map_err(failed)?;
    let background: Vec<DriveSettings> =
        drive.background_clients.iter().map(|group| drive.of_background(group)).collect();
    let mut background_groups = Vec::new();
    let mut opened = drive.connections();
    for settings in &background {
        let open = |number| open(opened + number);
        background_groups.extend(open_all(settings.clients, 1, 1, &open).map_err(failed)?);
        opened += settings.clients;
    }
    if let Some(path) = &drive.statement_activity {
        let put_up = publish_activity(path, names, &mut groups);
        put_up.map_err(|source| {
            failed(ClientError::System {
                context: format!("cannot create the activity file {}", path.display()),
                source,
            })
        })?;
    }
    let connect_s = clock.now_s();
    report(&Report::Mark { mark: Mark::Connected, t_s: connect_s });
    let budget = match drive.end {
        End::Time(_) => None,
        End::Operations(transactions) | End::Either(_, transactions) => {
            Some(Budget::new(transactions, threads))
        }
    };
    let pause_ns = if drive.statement_activity.is_some() { SEEN_WAITING_NS } else { START_NS };
    let shared = Shared::new(clock, clock.now_ns() + pause_ns, budget).with_patience_of(drive);
    let context = Context { drive, names, shared: &shared, group: 0 };
    let cannot_start = |source| {
        failed(ClientError::System {
            context: "cannot make what the threads wait with".to_owned(),
            source,
        })
    };
    let all = threads as usize + background.len();
    let wakers =
        (0..all).map(|_| Waker::new()).collect::<io::Result<Vec<_>>>().map_err(cannot_start)?;
    let (sender, messages) = channel();
    let primary = (0..threads).zip(groups).map(|(thread, clients)| {
        (context, clients, arrivals(drive, threads, thread, shared.start_ns))
    });
    let others =
        background.iter().zip(&drive.background_clients).zip((1..).zip(background_groups)).map(
            |((settings, group), (number, clients))| {
                let context =
                    Context { drive: settings, names: &group.names, group: number, ..context };
                (context, clients, arrivals(settings, 1, 0, shared.start_ns))
            },
        );
    let workers = primary
        .chain(others)
        .zip(&wakers)
        .map(|((context, clients, arrivals), waker)| {
            Worker::new(context, clients, arrivals, waker, sender.clone())
        })
        .collect::<io::Result<Vec<_>>>()
        .map_err(cannot_start)?;
    let failed_maintenance = maintenance.is_some().then(|| sender.clone());
    drop(sender); // the senders of the threads are left, and are dropped when the threads end
    let coordinator = Coordinator::new(drive, &shared, &wakers, messages, report, stop);
    let (outcome, took) = thread::scope(|scope| {
        let maintaining = maintenance.zip(failed_maintenance).map(|(run, sender)| {
            let shared = &shared;
            scope.spawn(move || {
                let outcome = maintain(drive, shared, run, stop);
                outcome.unwrap_or_else(|error| {
                    // The coordinator receives until every client thread has ended.
                    let _ = sender.send(Message::MaintenanceFailed(error));
                    None
                })
            })
        });
        let mut threads = Vec::new();
        for (thread, worker) in workers.into_iter().enumerate() {
            let cpu = drive.cpus.get(thread % drive.cpus.len().max(1)).copied();
            threads.push(scope.spawn(move || worker.run(cpu)));
        }
        let outcome = coordinator.run();
        for thread in threads {
            let clients = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            clients.into_iter().for_each(Client::leave);
        }
        let took = maintaining
            .and_then(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        (outcome, took)
    });
    conclude(context, connect_s, threads, outcome, took)
}

/// Open the connections and give each to its thread: connection `n`, client `n / sides` of side `n
/// % sides`, to thread `n % threads`. The first failure ends it.
fn open_all<C: Session, S: Script + Send>(
    connections: u32,
    sides: u32,
    threads: u32,
    open: &(impl Fn(u32) -> Result<(C, S), ClientError> + Sync),
) -> Result<Vec<Vec<Client<C, S>>>, ClientError> {
    allow_files(u64::from(connections) + OTHER_FILES)?;
    let next = AtomicU32::new(0);
    let failed = AtomicBool::new(false);
    let opened = Mutex::new(Ok(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(connections) {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= connections {
                        return;
                    }
                    let outcome = open(number);
                    let mut all = opened.lock().expect("no opener panics while it holds it");
                    match (outcome, all.as_mut()) {
                        (Ok((session, script)), Ok(list)) => {
                            let place = (number / sides, number % sides);
                            list.push(Client::new(place, session, script));
                        }
                        (Err(error), Ok(_)) => {
                            failed.store(true, Ordering::Relaxed);
                            *all = Err(error);
                        }
                        (_, Err(_)) => return,
                    }
                }
            });
        }
    });
    let mut all = opened.into_inner().expect("all openers have ended")?;
    all.sort_by_key(|client| (client.number, client.side));
    let mut shares: Vec<Vec<Client<C, S>>> = (0..threads).map(|_| Vec::new()).collect();
    for (connection, client) in all.into_iter().enumerate() {
        shares[connection % threads as usize].push(client);
    }
    Ok(shares)
}

/// Raise the limit of open files if necessary.
fn allow_files(needed: u64) -> Result<(), ClientError> {
    let refused = |errno: nix::errno::Errno| ClientError::System {
        context: format!("{needed} files have to be open at once (ulimit -n)"),
        source: io::Error::from(errno),
    };
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(refused)?;
    if soft < needed {
        setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).map_err(refused)?;
    }
    Ok(())
}

/// Create the activity file, and give each client its slot in it.
fn publish_activity<C: Session, S: Script>(
    path: &Path,
    names: &Names,
    groups: &mut [Vec<Client<C, S>>],
) -> io::Result<()> {
    let mut clients: Vec<&mut Client<C, S>> = groups.iter_mut().flatten().collect();
    let sockets = clients.iter().map(|client| client.session.peer_address());
    let sockets = sockets.collect::<io::Result<Vec<_>>>()?;
    let activity = Arc::new(StatementActivity::create(path, &sockets, &names.statements)?);
    for (slot, client) in clients.iter_mut().enumerate() {
        client.activity = ActivitySlot::new(&activity, slot);
    }
    Ok(())
}

fn arrivals(drive: &DriveSettings, threads: u32, thread: u32, start_ns: u64) -> Option<Arrivals> {
    let Pacing::Open { rate, arrivals, max_lateness } = drive.pacing else {
        return None;
    };
    let share = Share { clients: drive.clients, threads, thread };
    let schedule = Schedule::new(arrivals, rate, share, drive.seed, start_ns);
    Some(Arrivals::new(schedule, max_lateness))
}

/// Return the results of the background groups, in their order; each group has one thread.
fn background_results(drive: &DriveSettings, mut finished: Vec<Finished>) -> Vec<BackgroundResult> {
    finished.sort_by_key(|each| each.group);
    finished
        .into_iter()
        .map(|mut each| {
            let group = &drive.background_clients[each.group - 1];
            let records = each.records.swap_remove(0);
            BackgroundResult {
                test: group.test.clone(),
                clients: group.clients,
                pacing: PacingResult::new(group.pacing, each.punctuality),
                transactions: records.transactions,
                statements: records.statements,
                rollbacks: records.rollbacks,
                unanswered: each.unanswered,
                error_messages: records.error_messages,
            }
        })
        .collect()
}

/// Return the time that the transactions of a closed loop took, if the drive ends by time and has
/// few transactions; otherwise None: use the length of the measured part.
fn paced_s(drive: &DriveSettings, pace: Pace) -> Option<f64> {
    let is_of_one_part = drive.slices.is_none() && drive.maintenance_after.is_none();
    let by_time = matches!(drive.end, End::Time(_)) && !drive.is_open_loop();
    (by_time && is_of_one_part).then(|| pace.duration_s(drive.clients)).flatten()
}

/// Combine the results of the threads and the durations of the maintenance statements.
fn conclude(
    context: Context<'_>,
    connect_s: f64,
    threads: u32,
    outcome: DriveOutcome,
    took: Option<Vec<Duration>>,
) -> Result<DriveResult, Failed> {
    let Context { drive, names, shared, .. } = context;
    let is_open_loop = drive.is_open_loop();
    let mut by_side = vec![Records::new(names, drive); drive.sides() as usize];
    let mut slices = Vec::new();
    let mut punctuality = Punctuality::default();
    let mut per_client = PerClient::of([]);
    let mut pace = Pace::default();
    let mut unanswered = 0;
    let mut unanswered_ns = 0;
    let (primary, others): (Vec<Finished>, Vec<Finished>) =
        outcome.finished.into_iter().partition(|finished| finished.group == 0);
    for finished in primary {
        for (records, others) in by_side.iter_mut().zip(finished.records) {
            records.merge(others);
        }
        slices.extend(finished.slices);
        punctuality.add(finished.punctuality);
        per_client = per_client.and(finished.per_client);
        pace = pace.and(finished.pace);
        unanswered += finished.unanswered;
        unanswered_ns = unanswered_ns.max(finished.unanswered_ns);
    }
    let paced_s = paced_s(drive, pace).filter(|_| outcome.error.is_none());
    let sides = drive.slices.map(|_| by_side.iter().map(SideResult::of).collect());
    let mut records = by_side.swap_remove(0);
    for others in by_side {
        records.merge(others);
    }
    let mean_gap_s = (!is_open_loop).then(|| records.mean_gap_s());
    let parts = records.parts;
    let maintenance = took.map(|took| maintenance_result(shared, &took, outcome.duration_s, parts));
    let driven = DriveResult {
        duration_s: paced_s.unwrap_or(outcome.duration_s),
        warmup_s: outcome.warmup_s,
        warmup_steady: outcome.warmup_steady,
        connect_s,
        partial: outcome.partial_reason.is_some(),
        partial_reason: outcome.partial_reason,
        clients: drive.clients,
        threads,
        busy_poll: drive.spins(),
        cpus: (!drive.cpus.is_empty())
            .then(|| drive.cpus.iter().copied().take(threads as usize).collect()),
        pacing: PacingResult::new(drive.pacing, punctuality),
        mean_gap_s,
        transactions_per_client: per_client,
        sides,
        slices: drive.slices.map(|_| slices),
        background_clients: background_results(drive, others),
        transactions: records.transactions,
        statements: records.statements,
        maintenance,
        rollbacks: records.rollbacks,
        unanswered,
        unanswered_s: seconds(unanswered_ns),
        error_messages: records.error_messages,
        client: ClientCpu {
            usage: outcome.used,
            host_share: outcome.used.host_share(outcome.duration_s),
        },
    };
    match outcome.error {
        None => Ok(driven),
        Some(error) => Err(Failed { driven: Some(Box::new(driven)), error }),
    }
}

/// Wait until maintenance is due, run its statements, and postpone the end of the measured part by
/// the time they took. Return the duration of each; None if the drive ended before.
fn maintain(
    drive: &DriveSettings,
    shared: &Shared,
    run: RunStatements<'_>,
    stop: &AtomicBool,
) -> Result<Option<Vec<Duration>>, ClientError> {
    let (Some(after), End::Time(time)) = (drive.maintenance_after, drive.end) else {
        return Ok(None);
    };
    loop {
        if shared.is_cancelled() || stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let due_ns = shared.measure_from_ns().saturating_add(nanoseconds(after));
        let left_ns = due_ns.saturating_sub(shared.clock.now_ns());
        if left_ns == 0 {
            break;
        }
        thread::sleep(Duration::from_nanos(left_ns).min(POLL_INTERVAL));
    }
    let span = &shared.maintenance;
    span.from_ns.store(shared.clock.now_ns(), Ordering::Relaxed);
    let took = run()?;
    let until_ns = shared.clock.now_ns();
    span.until_ns.store(until_ns, Ordering::Relaxed);
    shared.measure_until(until_ns + nanoseconds(time.saturating_sub(after)));
    Ok(Some(took))
}

/// Build the result of maintenance; `duration_s` is that of the measured part.
fn maintenance_result(
    shared: &Shared,
    took: &[Duration],
    duration_s: f64,
    records: Vec<Record>,
) -> MaintenanceResult {
    let span = &shared.maintenance;
    let from_s = seconds(span.from_ns.load(Ordering::Relaxed));
    let until_s = seconds(span.until_ns.load(Ordering::Relaxed));
    let measured_from_s = seconds(shared.measure_from_ns());
    let ends_s = [from_s, until_s, measured_from_s + duration_s];
    let mut part_from_s = measured_from_s;
    let parts = records.into_iter().zip(ends_s).map(|(record, end_s)| {
        let duration_s = (end_s - part_from_s).max(0.0);
        part_from_s = end_s;
        PartResult { duration_s, record }
    });
    MaintenanceResult {
        from_s,
        until_s,
        statements_s: took.iter().map(Duration::as_secs_f64).collect(),
        parts: parts.collect(),
    }
}
