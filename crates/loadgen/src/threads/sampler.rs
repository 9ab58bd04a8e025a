//! All threads of a process: who they are, and what they do at a tick.

use std::fs;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use super::ThreadsError;
use super::names::Names;
use super::tally::Tally;
use super::targets::Targets;
use super::text;
use super::thread::{Seen, Thread};

/// Threads that have begun are looked for so often.
const LISTED_EVERY: Duration = Duration::from_millis(500);

/// So many threads are looked at in a tick at most. All of many would take so long that the last ones
/// are seen as they are later, when whoever was to give them work has been kept from its CPU: they
/// would wait for it too often.
const LOOKS: usize = 10;

/// The golden ratio's share of one: its multiples fall evenly into any interval.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// Looks at the threads of a process and counts what they do.
pub struct Sampler {
    pid: u32,
    targets: Targets,
    /// In the order of their ids.
    threads: Vec<Thread>,
    /// Threads that have ended and had been seen.
    ended: Vec<Thread>,
    /// The threads whose turn it is at this tick, and what they do; None where they have ended.
    seen: Vec<(usize, Option<Seen>)>,
    ticks: u64,
    /// The threads in the order of their turns, and whose turn it is next. Those that began one after
    /// the other, as those of all clients do, are far apart in it.
    order: Vec<usize>,
    next: usize,
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
            order: Vec::new(),
            next: 0,
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

    /// Looks at those whose turn it is and counts what they do; false where no thread is left.
    pub fn tick(&mut self) -> Result<bool, ThreadsError> {
        let now = Instant::now();
        if now - self.listed >= LISTED_EVERY {
            self.list()?;
        }
        self.look(now);
        let here = self.seen.iter().filter_map(|(_, seen)| *seen);
        let here = here.filter(|seen| seen.syncs_log).count();
        let elsewhere = self.syncs_elsewhere(now);
        for &(index, seen) in &self.seen {
            if let Some(seen) = seen {
                let others = here > usize::from(seen.syncs_log) || elsewhere;
                self.threads[index].count(seen, others);
            }
        }
        self.ticks += u64::from(self.seen.iter().any(|(_, seen)| seen.is_some()));
        let ended = self.seen.iter().filter(|(_, seen)| seen.is_none());
        let ended: Vec<u32> = ended.map(|&(index, _)| self.threads[index].tid).collect();
        if !ended.is_empty() {
            self.retire(|thread| !ended.contains(&thread.tid));
        }
        if self.threads.is_empty() {
            self.list()?; // others may have begun since
        }
        Ok(!self.threads.is_empty())
    }

    /// Fills in what those threads do whose turn it is.
    fn look(&mut self, now: Instant) {
        self.seen.clear();
        for index in self.turn() {
            let seen = self.threads[index].look(&mut self.targets, now);
            self.seen.push((index, seen));
        }
    }

    /// The threads whose turn it is: each has it equally often. Those that were ever seen running are
    /// the first, since the last ones are looked at late.
    fn turn(&mut self) -> Vec<usize> {
        let count = self.order.len();
        let looks = count.min(LOOKS);
        let places = (self.next..self.next + looks).map(|place| place % count);
        let mut turn: Vec<usize> = places.map(|place| self.order[place]).collect();
        turn.sort_by_key(|&index| !self.threads[index].has_run);
        // Where all are looked at each time, another one is the first.
        let step = if looks == count { 1 } else { looks };
        self.next = (self.next + step).checked_rem(count).unwrap_or(0);
        turn
    }

    /// Whether a thread whose turn it is not makes a log durable, of those that were seen to.
    fn syncs_elsewhere(&mut self, now: Instant) -> bool {
        let Self {
            threads,
            targets,
            seen,
            ..
        } = self;
        threads.iter_mut().enumerate().any(|(index, thread)| {
            thread.has_synced
                && !seen.iter().any(|&(looked_at, _)| looked_at == index)
                && thread.look(targets, now).is_some_and(|now| now.syncs_log)
        })
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
        self.order = spread(self.threads.len());
        Ok(())
    }

    /// Puts those aside that are not to be kept.
    fn retire(&mut self, mut is_kept: impl FnMut(&Thread) -> bool) {
        let gone = self.threads.extract_if(.., |thread| !is_kept(thread));
        self.ended
            .extend(gone.filter(|thread| thread.tally.ticks() > 0));
        self.order = spread(self.threads.len());
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

/// All indices below `count`, neighbours far apart.
#[allow(clippy::cast_precision_loss)] // threads are few
fn spread(count: usize) -> Vec<usize> {
    let place = |index: usize| ((index + 1) as f64 * GOLDEN).fract();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&one, &other| place(one).total_cmp(&place(other)));
    order
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[allow(clippy::cast_precision_loss)] // threads are few
    fn share(part: usize, whole: usize) -> f64 {
        part as f64 / whole as f64
    }

    proptest! {
        #[test]
        fn threads_of_clients_are_never_many_in_a_turn(
            others in 15..40usize,
            clients in 1..60usize,
            first: usize,
        ) {
            let count = others + clients;
            let order = spread(count);
            let mut all = order.clone();
            all.sort_unstable();
            prop_assert_eq!(all, (0..count).collect::<Vec<_>>());
            let turn = (first % count..).take(LOOKS.min(count)).map(|place| order[place % count]);
            let of_clients = turn.filter(|&index| index >= others).count();
            let expected = share(clients, count);
            prop_assert!((share(of_clients, LOOKS) - expected).abs() <= 0.3);
        }
    }
}
