//! One thread of the process: its files in /proc, and its state at a sample.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Instant;

use super::calls::{self, Kind};
use super::connection_map::ConnectionMap;
use super::names::{Name, Names};
use super::tally::{State, Tally};
use super::targets::{TargetKind, Targets};
use super::text::{self, Activity};

/// The maximum length that is read of `syscall` and `stat`.
const TEXT_BYTES: usize = 512;

/// More than a kernel stack needs, which has at most 64 functions.
const STACK_BYTES: usize = 4096;

/// A thread and its files in /proc, which are opened once and read for each sample.
pub struct Thread {
    pub tid: u32,
    directory: PathBuf,
    pub name: String,
    syscall: File,
    /// Opened when first needed.
    state: Option<File>,
    wchan: Option<File>,
    stack: Option<File>,
    pub tally: Tally,
    /// The same by the client's statement, without `wchan` and `stack`.
    pub by_statement: Vec<Tally>,
    /// The slot of the thread's client in the activity file; None until it is known.
    slot: Option<usize>,
    /// The thread's CPU time when it was last read.
    ran_ns: u64,
    /// True if the thread is busy, and so sampled first.
    pub is_busy: bool,
    /// True if any sample found the thread flushing a log.
    pub has_synced: bool,
    /// The time of the last sample, or of the start of the counting.
    since: Instant,
}

/// The kernel's text about a thread, and its client's statement.
#[derive(Clone, Copy)]
pub struct KernelTexts {
    text: [u8; TEXT_BYTES],
    length: usize,
    /// The client's current statement; None if the client is not known.
    shown: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadSample {
    pub state: State,
    /// True if the thread is flushing a log.
    pub syncs_log: bool,
    /// The inode of the socket that the thread waits for or writes to.
    pub socket: Option<u64>,
    /// The client's current statement; None if the client is not known.
    pub shown: Option<u32>,
}

impl Thread {
    /// Open the files of a thread; return None if it has ended.
    pub fn open(pid: u32, tid: u32) -> io::Result<Option<Self>> {
        let directory = PathBuf::from(format!("/proc/{pid}/task/{tid}"));
        let syscall = match File::open(directory.join("syscall")) {
            Ok(file) => file,
            // A kernel without this feature has the directory, but not the file in it.
            Err(error) if has_ended(&error) && !directory.exists() => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut thread = Self {
            tid,
            directory,
            name: String::new(),
            syscall,
            state: None,
            wchan: None,
            stack: None,
            tally: Tally::default(),
            by_statement: Vec::new(),
            slot: None,
            ran_ns: 0,
            is_busy: false,
            has_synced: false,
            since: Instant::now(),
        };
        thread.rename();
        Ok(thread.letter().map(|_| thread))
    }

    /// Read the current name of the thread; servers set it after the start of the thread.
    pub fn rename(&mut self) {
        if let Ok(name) = fs::read(self.directory.join("comm")) {
            self.name = String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
        }
    }

    /// Read what the kernel reports about the thread's system call; None if the thread has ended.
    pub fn syscall_text(&self) -> io::Result<Option<String>> {
        let mut text = [0; TEXT_BYTES];
        match self.syscall.read_at(&mut text, 0) {
            Ok(length) => Ok(Some(String::from_utf8_lossy(&text[..length]).into_owned())),
            Err(error) if has_ended(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Read the client's statement and the kernel's text, to be decoded later; the text is empty if
    /// the thread has ended.
    pub fn read_texts(&self, connections: Option<&ConnectionMap>) -> KernelTexts {
        let shown = connections.zip(self.slot).map(|(connections, slot)| connections.shown(slot));
        let mut text = [0; TEXT_BYTES];
        let length = self.syscall.read_at(&mut text, 0).unwrap_or(0);
        KernelTexts { text, length, shown }
    }

    /// Decode the kernel's text just read; None if the thread has ended.
    pub fn decode(
        &mut self,
        texts: &KernelTexts,
        targets: &mut Targets,
        now: Instant,
    ) -> Option<ThreadSample> {
        let idle =
            |state| ThreadSample { state, syncs_log: false, socket: None, shown: texts.shown };
        let (number, [first, second]) = match text::parse_syscall(&texts.text[..texts.length])? {
            Activity::Running => return Some(idle(State::RUNNING)),
            Activity::Blocked => {
                let letter = blocked(self.letter()?);
                let (wchan, stack) = self.place(&mut targets.names);
                return Some(idle(State { letter, syscall: Some(-1), target: None, wchan, stack }));
            }
            Activity::Calling { number, arguments } => (number, arguments),
        };
        let kind = calls::kind(number);
        let target = match kind {
            Kind::WaitOn | Kind::Use | Kind::Write | Kind::Sync => targets.behind(first, now),
            Kind::Poll => targets.polled(first, second, now),
            Kind::Select if first == 0 => Some(targets.nothing()),
            Kind::Select | Kind::Wait | Kind::SyncMemory | Kind::Other => None,
        };
        let found = target.map(|target| target.kind);
        let waits = matches!(kind, Kind::Wait | Kind::WaitOn | Kind::Poll | Kind::Select)
            || found == Some(TargetKind::Channel);
        let letter = match kind {
            _ if waits => 'S',
            Kind::SyncMemory | Kind::Other => blocked(self.letter()?),
            _ => 'D',
        };
        // If a thread waits for others or for data, the system call alone describes the wait.
        let (wchan, stack) = if waits { (None, None) } else { self.place(&mut targets.names) };
        let name = target.map(|target| target.name);
        Some(ThreadSample {
            state: State { letter, syscall: Some(number), target: name, wchan, stack },
            syncs_log: syncs_log(kind, found),
            socket: target.and_then(|target| target.socket),
            shown: texts.shown,
        })
    }

    /// Reset the counts.
    pub fn begin(&mut self, now: Instant) {
        self.tally = Tally::default();
        self.by_statement.clear();
        self.since = now;
    }

    /// Count a sample; `during_sync` is whether another thread was flushing a log.
    pub fn count(&mut self, sample: ThreadSample, now: Instant, during_sync: bool) {
        self.has_synced |= sample.syncs_log;
        let seconds = (now - self.since).as_secs_f64();
        self.tally.add(sample.state, seconds, during_sync);
        if let Some(shown) = sample.shown {
            let shown = shown as usize;
            if self.by_statement.len() <= shown {
                self.by_statement.resize_with(shown + 1, Tally::default);
            }
            let state = State { wchan: None, stack: None, ..sample.state };
            self.by_statement[shown].add(state, seconds, during_sync);
        }
        self.since = now;
    }

    /// Assign the client of the socket in the sample to the thread, until another client's socket
    /// is sampled.
    pub fn assign_slot(&mut self, sample: ThreadSample, connections: &ConnectionMap) {
        self.slot = sample.socket.and_then(|inode| connections.slot(inode)).or(self.slot);
    }

    /// Return the CPU time since the last call; 0 if the kernel does not report it.
    pub fn ran_ns(&mut self) -> u64 {
        let text = fs::read(self.directory.join("schedstat"));
        let ran_ns = text.ok().and_then(|text| text::ran_ns(&text));
        let before = self.ran_ns;
        self.ran_ns = ran_ns.unwrap_or(before);
        self.ran_ns.saturating_sub(before)
    }

    /// Return the letter of the thread's state; None if the thread has ended, even if it is a
    /// zombie.
    fn letter(&mut self) -> Option<char> {
        let text = read(&mut self.state, TEXT_BYTES, || self.directory.join("stat"))?;
        text::state(&text).filter(|letter| !matches!(letter, 'Z' | 'X' | 'x'))
    }

    /// Return the kernel function in which the thread is blocked, and the stack down to it, as far
    /// as they are known.
    fn place(&mut self, names: &mut Names) -> (Option<Name>, Option<Name>) {
        let directory = &self.directory;
        let text = |file, name, bytes| {
            let text = read(file, bytes, || directory.join(name))?;
            String::from_utf8(text).ok()
        };
        let wchan = text(&mut self.wchan, "wchan", TEXT_BYTES).filter(|wchan| wchan != "0");
        let Some(wchan) = wchan else {
            return (None, None);
        };
        let stack = text(&mut self.stack, "stack", STACK_BYTES);
        let stack = stack.and_then(|stack| text::stack(&stack, &wchan));
        (Some(names.number(&wchan)), stack.map(|stack| names.number(&stack)))
    }
}

fn syncs_log(kind: Kind, target: Option<TargetKind>) -> bool {
    match target {
        Some(TargetKind::Log { written_through }) => {
            kind == Kind::Sync || kind == Kind::Write && written_through
        }
        _ => kind == Kind::SyncMemory,
    }
}

/// Return the letter of a thread that was just blocked: if it already runs again, it was in an
/// uninterruptible wait.
fn blocked(letter: char) -> char {
    if letter == 'R' { 'D' } else { letter }
}

/// Read a file up to a number of bytes; it is opened once and stays open.
fn read(file: &mut Option<File>, bytes: usize, path: impl FnOnce() -> PathBuf) -> Option<Vec<u8>> {
    let file = match file {
        Some(file) => file,
        None => file.insert(File::open(path()).ok()?),
    };
    let mut text = vec![0; bytes];
    let length = file.read_at(&mut text, 0).ok()?;
    text.truncate(length);
    Some(text)
}

/// Return whether an error means that the thread has ended.
fn has_ended(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_a_log_durable() {
        let log = |written_through| Some(TargetKind::Log { written_through });
        assert!(syncs_log(Kind::Sync, log(false)));
        assert!(syncs_log(Kind::Write, log(true)));
        assert!(syncs_log(Kind::SyncMemory, None));
        assert!(!syncs_log(Kind::Write, log(false)));
        assert!(!syncs_log(Kind::Use, log(true)));
        assert!(!syncs_log(Kind::Sync, Some(TargetKind::File)));
        assert!(!syncs_log(Kind::Sync, None));
    }
}
