//! One thread of the process, and what it does at a moment.

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

/// More than the kernel says about a call, or about a state up to what is wanted.
const TEXT_BYTES: usize = 512;

/// More than a stack of the kernel's takes: it has 64 functions at most, and mostly few.
const STACK_BYTES: usize = 4096;

/// A thread, by the kernel's files about it, which are opened once and read for each sample.
pub struct Thread {
    pub tid: u32,
    directory: PathBuf,
    pub name: String,
    syscall: File,
    /// These once they are needed.
    state: Option<File>,
    wchan: Option<File>,
    stack: Option<File>,
    pub tally: Tally,
    /// The same by what its client showed, without where in the kernel.
    pub by_statement: Vec<Tally>,
    /// The place of its client on the activity file, once that is known.
    slot: Option<usize>,
    /// Its CPU time at the last reading.
    ran_ns: u64,
    /// It works much, so that it is looked at first.
    pub is_busy: bool,
    /// Some sample found it making a log durable.
    pub has_synced: bool,
    /// The time of the last sample, or of the last that could have been.
    since: Instant,
}

/// The kernel's words about a thread.
#[derive(Clone, Copy)]
pub struct KernelTexts {
    text: [u8; TEXT_BYTES],
    length: usize,
    /// The statement of its client; None where that is not known.
    shown: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadSample {
    pub state: State,
    /// It is making a log durable.
    pub syncs_log: bool,
    /// The socket that it waits on or writes to, by its inode.
    pub socket: Option<u64>,
    /// The statement of its client; None where that is not known.
    pub shown: Option<u32>,
}

impl Thread {
    /// Open the files of a thread; None where it has ended.
    pub fn open(pid: u32, tid: u32) -> io::Result<Option<Self>> {
        let directory = PathBuf::from(format!("/proc/{pid}/task/{tid}"));
        let syscall = match File::open(directory.join("syscall")) {
            Ok(file) => file,
            // A kernel that does not tell has the directory, but not the file in it.
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

    /// Take the name that the thread has now; servers give it after it has begun.
    pub fn rename(&mut self) {
        if let Ok(name) = fs::read(self.directory.join("comm")) {
            self.name = String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
        }
    }

    /// Read its activity in the kernel's words. None where it has ended.
    pub fn syscall_text(&self) -> io::Result<Option<String>> {
        let mut text = [0; TEXT_BYTES];
        match self.syscall.read_at(&mut text, 0) {
            Ok(length) => Ok(Some(String::from_utf8_lossy(&text[..length]).into_owned())),
            Err(error) if has_ended(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Read its client's statement and the kernel's words about it, to decode later; empty where it has ended.
    pub fn read_texts(&self, connections: Option<&ConnectionMap>) -> KernelTexts {
        let shown = connections.zip(self.slot).map(|(connections, slot)| connections.shown(slot));
        let mut text = [0; TEXT_BYTES];
        let length = self.syscall.read_at(&mut text, 0).unwrap_or(0);
        KernelTexts { text, length, shown }
    }

    /// Decode its activity from the kernel's words just read. None where it has ended.
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
        // Where a thread waits for others, or for data, the call says it all.
        let (wchan, stack) = if waits { (None, None) } else { self.place(&mut targets.names) };
        let name = target.map(|target| target.name);
        Some(ThreadSample {
            state: State { letter, syscall: Some(number), target: name, wchan, stack },
            syncs_log: syncs_log(kind, found),
            socket: target.and_then(|target| target.socket),
            shown: texts.shown,
        })
    }

    /// Count from nothing on.
    pub fn begin(&mut self, now: Instant) {
        self.tally = Tally::default();
        self.by_statement.clear();
        self.since = now;
    }

    /// Count what it was seen to do, while another thread made a log durable or not.
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

    /// Take the socket that it was seen at for its client's, and keep that until another client's is seen.
    pub fn assign_slot(&mut self, sample: ThreadSample, connections: &ConnectionMap) {
        self.slot = sample.socket.and_then(|inode| connections.slot(inode)).or(self.slot);
    }

    /// Return its CPU time since the last call; 0 where the kernel does not tell.
    pub fn ran_ns(&mut self) -> u64 {
        let text = fs::read(self.directory.join("schedstat"));
        let ran_ns = text.ok().and_then(|text| text::ran_ns(&text));
        let before = self.ran_ns;
        self.ran_ns = ran_ns.unwrap_or(before);
        self.ran_ns.saturating_sub(before)
    }

    /// Return the letter of its state; None where it has ended, waited for by another process or not.
    fn letter(&mut self) -> Option<char> {
        let text = read(&mut self.state, TEXT_BYTES, || self.directory.join("stat"))?;
        text::state(&text).filter(|letter| !matches!(letter, 'Z' | 'X' | 'x'))
    }

    /// Return the kernel's function that it is blocked in, and the stack down to it, as far as they are known.
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

/// Return the letter of a thread that was just blocked: one that has gone on could not be interrupted.
fn blocked(letter: char) -> char {
    if letter == 'R' { 'D' } else { letter }
}

/// Read a file that stays open from the first time on, up to a number of bytes.
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

/// Return true where an error says that the thread has ended.
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
