//! All threads of a process: who they are, and what they do at a tick.

use std::fs;
use std::io::{self, ErrorKind};
use std::mem;
use std::time::{Duration, Instant};

use super::ThreadsError;
use super::names::Names;
use super::tally::Tally;
use super::targets::Targets;
use super::text;
use super::thread::{Seen, Thread};

/// Threads that have begun are looked for so often.
const LISTED_EVERY: Duration = Duration::from_millis(500);

/// Looks at the threads of a process and counts what they do.
pub struct Sampler {
    pid: u32,
    targets: Targets,
    /// In the order of their ids.
    threads: Vec<Thread>,
    /// Threads that have ended and had been seen.
    ended: Vec<Thread>,
    /// What each of the threads does at this tick.
    seen: Vec<Option<Seen>>,
    ticks: u64,
    /// Whose turn it is to be looked at first.
    first: usize,
    listed: Instant,
}

impl Sampler {
    /// Fails where there is no such process, or its threads may not be looked at.
    pub fn new(pid: u32) -> Result<Self, ThreadsError> {
        let mut sampler = Self {
            pid,
            targets: Targets::new(pid),
            threads: Vec::new(),
            ended: Vec::new(),
            seen: Vec::new(),
            ticks: 0,
            first: 0,
            listed: Instant::now(),
        };
        sampler.list()?;
        if sampler.threads.is_empty() {
            return Err(ThreadsError::Gone(pid));
        }
        // Opening the files is allowed to more users than reading them.
        for thread in &sampler.threads {
            let told = thread.doing().map_err(|source| refused(pid, source))?;
            if let Some(told) = told
                && text::doing(told.as_bytes()).is_none()
            {
                return Err(ThreadsError::Untold(told));
            }
        }
        Ok(sampler)
    }

    /// Counts from nothing on, with the threads that there are now.
    pub fn begin(&mut self) -> Result<(), ThreadsError> {
        self.ticks = 0;
        self.ended.clear();
        for thread in &mut self.threads {
            thread.tally = Tally::default();
        }
        self.list()?;
        if self.threads.is_empty() {
            return Err(ThreadsError::Gone(self.pid));
        }
        Ok(())
    }

    /// Looks at every thread and counts what they do; false where none is left.
    pub fn tick(&mut self) -> Result<bool, ThreadsError> {
        let now = Instant::now();
        if now - self.listed >= LISTED_EVERY {
            self.list()?;
        }
        self.look(now);
        let syncing = self.seen.iter().flatten().filter(|seen| seen.syncs_log);
        let syncing = syncing.count();
        for (thread, seen) in self.threads.iter_mut().zip(&self.seen) {
            if let Some(seen) = seen {
                let others = syncing - usize::from(seen.syncs_log);
                thread.tally.add(seen.state, others > 0);
            }
        }
        self.ticks += u64::from(self.seen.iter().any(Option::is_some));
        if self.seen.iter().any(Option::is_none) {
            let mut seen = mem::take(&mut self.seen).into_iter();
            self.retire(|_| seen.next().is_some_and(|seen| seen.is_some()));
        }
        if self.threads.is_empty() {
            self.list()?; // others may have begun since
        }
        Ok(!self.threads.is_empty())
    }

    /// Fills in what the threads do, as far as they have not ended. Each time another one is the first,
    /// so that none is always looked at late.
    fn look(&mut self, now: Instant) {
        let count = self.threads.len();
        self.seen.clear();
        self.seen.resize(count, None);
        self.first = (self.first + 1).checked_rem(count).unwrap_or(0);
        for index in (self.first..count).chain(0..self.first) {
            self.seen[index] = self.threads[index].look(&mut self.targets, now);
        }
    }

    /// Finds threads that have begun or ended.
    fn list(&mut self) -> Result<(), ThreadsError> {
        self.listed = Instant::now();
        let tids = tids(self.pid)?;
        self.retire(|thread| tids.binary_search(&thread.tid).is_ok());
        for tid in tids {
            if let Err(place) = self.threads.binary_search_by_key(&tid, |known| known.tid) {
                let opened = Thread::open(self.pid, tid);
                if let Some(thread) = opened.map_err(|source| refused(self.pid, source))? {
                    self.threads.insert(place, thread);
                }
            }
        }
        Ok(())
    }

    /// Puts those aside that are not to be kept.
    fn retire(&mut self, mut is_kept: impl FnMut(&Thread) -> bool) {
        let gone = self.threads.extract_if(.., |thread| !is_kept(thread));
        self.ended
            .extend(gone.filter(|thread| thread.tally.ticks() > 0));
    }

    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Takes the names that the threads have now.
    pub fn rename(&mut self) {
        self.threads.iter_mut().for_each(Thread::rename);
    }

    /// Every thread that was seen, those that have ended too.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        let all = self.threads.iter().chain(&self.ended);
        all.filter(|thread| thread.tally.ticks() > 0)
    }

    pub fn names(&self) -> &Names {
        &self.targets.names
    }
}

/// The ids of the threads that a process has, in order; none where there is no such process.
fn tids(pid: u32) -> Result<Vec<u32>, ThreadsError> {
    let listing = format!("/proc/{pid}/task");
    let failed = |source| ThreadsError::System {
        context: format!("cannot list {listing}"),
        source,
    };
    let entries = match fs::read_dir(&listing) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut tids = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => tids.extend(
                entry
                    .file_name()
                    .to_str()
                    .and_then(|tid| tid.parse::<u32>().ok()),
            ),
            Err(error) if error.kind() == ErrorKind::NotFound => break, // it has ended meanwhile
            Err(error) => return Err(failed(error)),
        }
    }
    tids.sort_unstable();
    Ok(tids)
}

fn refused(pid: u32, source: io::Error) -> ThreadsError {
    match source.kind() {
        ErrorKind::NotFound => ThreadsError::Untold(source.to_string()),
        ErrorKind::PermissionDenied => ThreadsError::Refused { pid, source },
        _ => ThreadsError::System {
            context: format!("cannot look at the threads of process {pid}"),
            source,
        },
    }
}
