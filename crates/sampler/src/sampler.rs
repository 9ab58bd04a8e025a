//! All threads of a process: who they are, and what they do at a tick.

use std::fs;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use super::ThreadsError;
use super::connection_map::ConnectionMap;
use super::names::Names;
use super::targets::Targets;
use super::text;
use super::thread::{KernelTexts, Thread, ThreadSample};

/// The time between two searches for new threads.
const LISTED_EVERY: Duration = Duration::from_millis(500);

/// The number of threads that work much, and then of others, that a tick samples. Samples of many
/// would take so long that the last ones show waits for threads that the sampler itself delayed.
const BUSY: usize = 2;
const OTHERS: usize = 2;

/// A thread works much that was on a CPU for this part of the time that the busiest one was.
const PART: u64 = 10;

/// Samples the threads of a process and counts their states.
pub struct Sampler {
    pid: u32,
    targets: Targets,
    /// The statements of the clients; None where they publish none.
    pub connections: Option<ConnectionMap>,
    /// In the order of their ids.
    threads: Vec<Thread>,
    ended: Vec<Thread>,
    /// The threads whose turn it is at the next tick.
    turn: Vec<usize>,
    /// The answers of the kernel about them.
    texts: Vec<(usize, KernelTexts)>,
    /// The same at this tick, and what they do; None where they have ended.
    samples: Vec<(usize, Option<ThreadSample>)>,
    pub ticks: u64,
    /// Whose turn it is next.
    next_busy: usize,
    next_other: usize,
    listed_at: Instant,
}

impl Sampler {
    /// Fails where the process does not exist, or its threads may not be inspected.
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
        // Opening the files is allowed to more users than reading them.
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

    /// Read what clients show from now on. Threads that wait for their clients now are known to serve them.
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

    /// Count from nothing on, with the threads that there are now.
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

    /// Look at those whose turn it is and count what they do; false where no thread is left.
    pub fn tick(&mut self) -> Result<bool, ThreadsError> {
        // Before all else: whoever needs the CPU that this takes is kept from it, and others wait.
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
        // Where none is left, others may have begun since.
        if self.threads.is_empty() || now - self.listed_at >= LISTED_EVERY {
            self.list()?;
        }
        self.prepare();
        Ok(!self.threads.is_empty())
    }

    /// Decide whose turn it is at the next tick.
    fn prepare(&mut self) {
        self.turn.clear();
        let busy = turn(&self.threads, true, BUSY, &mut self.next_busy);
        let others = turn(&self.threads, false, OTHERS, &mut self.next_other);
        self.turn.extend(busy.into_iter().chain(others));
    }

    /// Return true where a thread whose turn it is not makes a log durable, of those that did before.
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

    /// Find threads that have begun or ended.
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

    /// Find out which threads work much now.
    fn rank(&mut self) {
        let ran_ns: Vec<u64> = self.threads.iter_mut().map(Thread::ran_ns).collect();
        let most_ns = ran_ns.iter().max().copied().unwrap_or(0);
        for (thread, ran_ns) in self.threads.iter_mut().zip(ran_ns) {
            thread.is_busy = ran_ns > 0 && ran_ns.saturating_mul(PART) >= most_ns;
        }
    }

    /// Put those aside that are not to be kept.
    fn retire(&mut self, mut is_kept: impl FnMut(&Thread) -> bool) {
        let gone = self.threads.extract_if(.., |thread| !is_kept(thread));
        self.ended.extend(gone.filter(|thread| thread.tally.ticks() > 0));
    }

    /// Take the names that the threads have now.
    pub fn rename(&mut self) {
        self.threads.iter_mut().for_each(Thread::rename);
    }

    /// Every thread with a sample, those that have ended too.
    pub fn threads(&self) -> impl Iterator<Item = &Thread> {
        let all = self.threads.iter().chain(&self.ended);
        all.filter(|thread| thread.tally.ticks() > 0)
    }

    pub fn names(&self) -> &Names {
        &self.targets.names
    }
}

/// Return the threads whose turn it is, `most` at most, of the busy or the others; the first one rotates.
fn turn(threads: &[Thread], busy: bool, most: usize, next: &mut usize) -> Vec<usize> {
    let all = (0..threads.len()).filter(|&index| threads[index].is_busy == busy);
    let (before, after): (Vec<usize>, Vec<usize>) = all.partition(|index| index < next);
    let turn: Vec<usize> = after.into_iter().chain(before).collect();
    let step = if turn.len() <= most { 1 } else { most };
    *next = turn.get(step - 1).map_or(0, |&last| last + 1);
    turn.into_iter().take(most).collect()
}

/// Return the ids of the threads of a process, in order; none where the process does not exist.
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
            Err(error) if error.kind() == ErrorKind::NotFound => break, // it has ended meanwhile
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
