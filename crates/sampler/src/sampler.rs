//! Samples all threads of a process: lists them, and counts their states at each tick.

use std::fs;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use super::ThreadsError;
use super::connection_map::ConnectionMap;
use super::names::Names;
use super::targets::Targets;
use super::text;
use super::thread::{KernelTexts, Thread, ThreadSample};

/// The interval between searches for new threads.
const LISTED_EVERY: Duration = Duration::from_millis(500);

/// The number of busy threads, and then of other threads, that a tick samples. With more, the last
/// samples would show waits for threads that the sampler itself delayed.
const BUSY: usize = 2;
const OTHERS: usize = 2;

/// A thread is busy if its CPU time is at least this fraction (1/n) of the busiest thread's.
const PART: u64 = 10;

/// Samples the threads of a process and counts their states.
pub struct Sampler {
    pid: u32,
    targets: Targets,
    /// The current statements of clients; None if clients do not publish them.
    pub connections: Option<ConnectionMap>,
    /// In the order of their ids.
    threads: Vec<Thread>,
    ended: Vec<Thread>,
    /// The threads to sample at the next tick.
    turn: Vec<usize>,
    /// The kernel's texts about these threads.
    texts: Vec<(usize, KernelTexts)>,
    /// The decoded samples of this tick; None for threads that have ended.
    samples: Vec<(usize, Option<ThreadSample>)>,
    pub ticks: u64,
    /// The index from which the next busy and the next other threads are chosen.
    next_busy: usize,
    next_other: usize,
    listed_at: Instant,
}

impl Sampler {
    /// Fails if the process does not exist, or if permission to inspect its threads is denied.
    pub fn new(pid: u32) -> Result<Self, ThreadsError> {
        let mut sampler = Self {
            pid,
            targets: Targets::new(pid),
            connections: None,
            threads: Vec::new(),
            ended: Vec::new(),
            samples: Vec::new(),
            ticks: 0,
            turn: Vec::new(),
            texts: Vec::new(),
            next_busy: 0,
            next_other: 0,
            listed_at: Instant::now(),
        };
        sampler.list()?;
        if sampler.threads.is_empty() {
            return Err(ThreadsError::Gone(pid));
        }
        // The kernel lets more users open these files than read them.
        for thread in &sampler.threads {
            let reported = thread.syscall_text().map_err(|source| refused(pid, source))?;
            if let Some(reported) = reported
                && text::parse_syscall(reported.as_bytes()).is_none()
            {
                return Err(ThreadsError::Unknown(reported));
            }
        }
        Ok(sampler)
    }

    /// Use the published statements from now on. Threads that are waiting for their clients now are
    /// assigned to them.
    pub fn watch_connections(&mut self, connections: ConnectionMap) -> Result<(), ThreadsError> {
        self.list()?;
        let now = Instant::now();
        for thread in &mut self.threads {
            let texts = thread.read_texts(None);
            if let Some(sample) = thread.decode(&texts, &mut self.targets, now) {
                thread.assign_slot(sample, &connections);
            }
        }
        self.prepare();
        self.connections = Some(connections);
        Ok(())
    }

    /// Reset the counts, and start with the current threads.
    pub fn begin(&mut self) -> Result<(), ThreadsError> {
        self.ticks = 0;
        self.ended.clear();
        self.list()?;
        for thread in &mut self.threads {
            thread.begin(self.listed_at);
        }
        self.prepare();
        if self.threads.is_empty() {
            return Err(ThreadsError::Gone(self.pid));
        }
        Ok(())
    }

    /// Sample the chosen threads and count their states; return false if no thread is left.
    pub fn tick(&mut self) -> Result<bool, ThreadsError> {
        // Read all texts first: the CPU time used here delays threads of the process, so that
        // others wait.
        let (threads, connections) = (&self.threads, self.connections.as_ref());
        let turn = self.turn.iter();
        let asked = turn.map(|&index| (index, threads[index].read_texts(connections)));
        self.texts.extend(asked);
        let now = Instant::now();
        self.samples.clear();
        for (index, texts) in self.texts.drain(..) {
            let sample = self.threads[index].decode(&texts, &mut self.targets, now);
            self.samples.push((index, sample));
        }
        let here = self.samples.iter().filter_map(|(_, sample)| *sample);
        let here = here.filter(|sample| sample.syncs_log).count();
        let elsewhere = self.syncs_elsewhere(now);
        for &(index, sample) in &self.samples {
            if let Some(sample) = sample {
                let others = here > usize::from(sample.syncs_log) || elsewhere;
                self.threads[index].count(sample, now, others);
                if let Some(connections) = &self.connections {
                    self.threads[index].assign_slot(sample, connections);
                }
            }
        }
        self.ticks += u64::from(self.samples.iter().any(|(_, sample)| sample.is_some()));
        let ended = self.samples.iter().filter(|(_, sample)| sample.is_none());
        let ended: Vec<u32> = ended.map(|&(index, _)| self.threads[index].tid).collect();
        if !ended.is_empty() {
            self.retire(|thread| !ended.contains(&thread.tid));
        }
        // If no thread is left, new ones may have started since the last search.
        if self.threads.is_empty() || now - self.listed_at >= LISTED_EVERY {
            self.list()?;
        }
        self.prepare();
        Ok(!self.threads.is_empty())
    }

    /// Choose the threads to sample at the next tick.
    fn prepare(&mut self) {
        self.turn.clear();
        let busy = turn(&self.threads, true, BUSY, &mut self.next_busy);
        let others = turn(&self.threads, false, OTHERS, &mut self.next_other);
        self.turn.extend(busy.into_iter().chain(others));
    }

    /// Return whether a thread that this tick did not sample flushes a log; only threads that did
    /// so before are checked.
    fn syncs_elsewhere(&mut self, now: Instant) -> bool {
        let Self { threads, targets, samples, .. } = self;
        threads.iter_mut().enumerate().any(|(index, thread)| {
            thread.has_synced
                && !samples.iter().any(|&(looked_at, _)| looked_at == index)
                && thread
                    .decode(&thread.read_texts(None), targets, now)
                    .is_some_and(|now| now.syncs_log)
        })
    }

    /// Find threads that have started or ended.
    fn list(&mut self) -> Result<(), ThreadsError> {
        self.listed_at = Instant::now();
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
        self.rank();
        Ok(())
    }

    /// Determine which threads are busy now.
    fn rank(&mut self) {
        let ran_ns: Vec<u64> = self.threads.iter_mut().map(Thread::ran_ns).collect();
        let most_ns = ran_ns.iter().max().copied().unwrap_or(0);
        for (thread, ran_ns) in self.threads.iter_mut().zip(ran_ns) {
            thread.is_busy = ran_ns > 0 && ran_ns.saturating_mul(PART) >= most_ns;
        }
    }

    /// Move threads that are not to be kept to the ended ones.
    fn retire(&mut self, mut is_kept: impl FnMut(&Thread) -> bool) {
        let gone = self.threads.extract_if(.., |thread| !is_kept(thread));
        self.ended.extend(gone.filter(|thread| thread.tally.ticks() > 0));
    }

    /// Read the current names of the threads.
    pub fn rename(&mut self) {
        self.threads.iter_mut().for_each(Thread::rename);
    }

    /// Return every thread with a sample, including ended ones.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        let all = self.threads.iter().chain(&self.ended);
        all.filter(|thread| thread.tally.ticks() > 0)
    }

    pub fn names(&self) -> &Names {
        &self.targets.names
    }
}

/// Return at most `most` of the busy or of the other threads; the first one rotates.
fn turn(threads: &[Thread], busy: bool, most: usize, next: &mut usize) -> Vec<usize> {
    let all = (0..threads.len()).filter(|&index| threads[index].is_busy == busy);
    let (before, after): (Vec<usize>, Vec<usize>) = all.partition(|index| index < next);
    let turn: Vec<usize> = after.into_iter().chain(before).collect();
    let step = if turn.len() <= most { 1 } else { most };
    *next = turn.get(step - 1).map_or(0, |&last| last + 1);
    turn.into_iter().take(most).collect()
}

/// Return the ids of a process's threads in order; none if the process does not exist.
fn tids(pid: u32) -> Result<Vec<u32>, ThreadsError> {
    let listing = format!("/proc/{pid}/task");
    let failed =
        |source| ThreadsError::System { context: format!("cannot list {listing}"), source };
    let entries = match fs::read_dir(&listing) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut tids = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => {
                tids.extend(entry.file_name().to_str().and_then(|tid| tid.parse::<u32>().ok()));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => break, // the process has ended meanwhile
            Err(error) => return Err(failed(error)),
        }
    }
    tids.sort_unstable();
    Ok(tids)
}

fn refused(pid: u32, source: io::Error) -> ThreadsError {
    match source.kind() {
        ErrorKind::NotFound => ThreadsError::Unknown(source.to_string()),
        ErrorKind::PermissionDenied => ThreadsError::Refused { pid, source },
        _ => ThreadsError::System {
            context: format!("cannot look at the threads of process {pid}"),
            source,
        },
    }
}
