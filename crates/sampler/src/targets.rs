//! The objects behind a process's file descriptors.

use std::collections::HashMap;
use std::fs;
use std::io::IoSliceMut;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use super::names::{Name, Names};
use super::text::writes_through;

/// The lifetime of a cached result: servers rarely reuse descriptors.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// The target of a call that waits for an empty list of descriptors, and so only for a time.
pub const NOTHING: &str = "[no descriptors]";

/// The object behind a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub name: Name,
    pub kind: TargetKind,
    /// The inode of a socket; None for other objects.
    pub socket: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// Not a file: a socket, a pipe, or an object of the kernel.
    Channel,
    /// Any other file.
    File,
    /// A transaction log. `written_through`: writes to it are durable at once.
    Log { written_through: bool },
}

/// The descriptors of a process that were looked up, with a cache.
pub struct Targets {
    pid: u32,
    pub names: Names,
    behind: HashMap<i32, Cached<Target>>,
    /// The only descriptor in a list for `poll`, by the address of the list.
    polled: HashMap<u64, Cached<i32>>,
}

/// A result of a lookup and its time; None if the lookup failed.
#[derive(Clone, Copy)]
struct Cached<T> {
    at: Instant,
    what: Option<T>,
}

impl Targets {
    pub fn new(pid: u32) -> Self {
        Self { pid, names: Names::default(), behind: HashMap::new(), polled: HashMap::new() }
    }

    pub fn behind(&mut self, argument: u64, now: Instant) -> Option<Target> {
        #[allow(clippy::cast_possible_truncation)]
        // an int, so the upper half of the register is ignored
        let descriptor = argument as i32;
        if let Some(known) = fresh(self.behind.get(&descriptor), now) {
            return known.what;
        }
        let what = self.resolve(descriptor);
        self.behind.insert(descriptor, Cached { at: now, what });
        what
    }

    /// Return the object that `poll` waits for, if its list has one descriptor or none; otherwise
    /// None.
    pub fn polled(&mut self, list: u64, count: u64, now: Instant) -> Option<Target> {
        match count {
            0 => Some(self.nothing()),
            1 => {
                let descriptor = self.only_polled(list, now)?;
                self.behind(u64::try_from(descriptor).ok()?, now)
            }
            _ => None,
        }
    }

    fn only_polled(&mut self, list: u64, now: Instant) -> Option<i32> {
        if let Some(known) = fresh(self.polled.get(&list), now) {
            return known.what;
        }
        let what = self.read_number(list);
        self.polled.insert(list, Cached { at: now, what });
        what
    }

    pub fn nothing(&mut self) -> Target {
        Target { name: self.names.number(NOTHING), kind: TargetKind::Channel, socket: None }
    }

    fn resolve(&mut self, descriptor: i32) -> Option<Target> {
        let link = fs::read_link(format!("/proc/{}/fd/{descriptor}", self.pid)).ok()?;
        let kind = if !link.is_absolute() {
            TargetKind::Channel // socket:[123], pipe:[123], anon_inode:[eventpoll]
        } else if is_log(&link) {
            let info = fs::read_to_string(format!("/proc/{}/fdinfo/{descriptor}", self.pid));
            TargetKind::Log { written_through: info.is_ok_and(|info| writes_through(&info)) }
        } else {
            TargetKind::File
        };
        let text = link.to_string_lossy();
        Some(Target { name: self.names.number(&text), kind, socket: socket(&text) })
    }

    /// Return the descriptor at an address of the process, with which an entry for `poll` begins.
    fn read_number(&self, address: u64) -> Option<i32> {
        let mut bytes = [0; 4];
        let pid = Pid::from_raw(self.pid.try_into().ok()?);
        let remote = RemoteIoVec { base: address.try_into().ok()?, len: bytes.len() };
        let read = process_vm_readv(pid, &mut [IoSliceMut::new(&mut bytes)], &[remote]);
        (read == Ok(4)).then(|| i32::from_ne_bytes(bytes))
    }
}

/// Return a cached result if it is fresh.
fn fresh<T>(found: Option<&Cached<T>>, now: Instant) -> Option<&Cached<T>> {
    found.filter(|found| now.saturating_duration_since(found.at) < FRESH_FOR)
}

/// Return the inode of a socket from its descriptor's link, such as `socket:[4711]`.
fn socket(link: &str) -> Option<u64> {
    let inode = link.strip_prefix("socket:[")?.strip_suffix(']')?;
    inode.parse().ok()
}

/// Return whether a file is a log that transactions wait for: a redo log (`ib_logfile0`,
/// `#innodb_redo/#ib_redo7`, `aria_log.00000001`, `000012.log` of `RocksDB`), a binary log
/// (`binlog.000012`) or the log of the transaction coordinator (`tc.log`).
fn is_log(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let text = text.strip_suffix(" (deleted)").unwrap_or(&text);
    let (directory, name) = text.rsplit_once('/').unwrap_or(("", text));
    let is_number = |text: &str| text.len() >= 6 && text.bytes().all(|byte| byte.is_ascii_digit());
    directory.ends_with("/#innodb_redo")
        || ["ib_logfile", "#ib_redo", "ib_redo"].iter().any(|start| name.starts_with(start))
        || name == "tc.log"
        || name.rsplit_once('.').is_some_and(|(stem, extension)| {
            is_number(extension) || is_number(stem) && extension == "log"
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;
    use std::os::unix::net::UnixStream;
    use std::process;

    fn argument(file: &impl AsRawFd) -> u64 {
        u64::try_from(file.as_raw_fd()).unwrap()
    }

    #[test]
    fn logs_differ_from_data() {
        let logs = "ib_logfile0 ib_logfile101 #innodb_redo/#ib_redo12 #innodb_redo/#ib_redo13_tmp \
                    binlog.000001 host-bin.123456 aria_log.00000001 .rocksdb/000009.log tc.log";
        for name in logs.split_whitespace().chain(["#innodb_redo/#ib_redo4 (deleted)"]) {
            assert!(is_log(Path::new(&format!("/data/{name}"))), "{name}");
        }
        let others = "ibdata1 test/t.ibd test/t.MYD undo_001 #ib_16384_0.dblwr host.err slow.log \
                      binlog.index ib_logfile0/t.ibd";
        for name in others.split_whitespace() {
            assert!(!is_log(Path::new(&format!("/data/{name}"))), "{name}");
        }
    }

    #[test]
    fn sockets_have_inodes() {
        assert_eq!(socket("socket:[4711]"), Some(4711));
        for other in ["pipe:[4711]", "/socket:[4711]", "socket:[]", "socket:[1"] {
            assert_eq!(socket(other), None, "{other}");
        }
    }

    #[test]
    fn descriptors_of_this_process() {
        let directory = tempfile::tempdir().unwrap();
        let create = |name: &str, flags| {
            let path = directory.path().join(name);
            let mut options = OpenOptions::new();
            options.write(true).create(true).custom_flags(flags);
            options.open(path).unwrap()
        };
        let data = create("t.ibd", 0);
        let log = create("ib_logfile0", 0);
        let through = create("binlog.000001", libc::O_DSYNC);
        let (socket, _other) = UnixStream::pair().unwrap();
        let (mut targets, now) = (Targets::new(process::id()), Instant::now());
        let mut found = |argument| {
            let target = targets.behind(argument, now)?;
            let name = targets.names.text(target.name).to_owned();
            assert_eq!(target.socket.is_some(), name.starts_with("socket:["));
            Some((name, target.kind))
        };
        let (name, kind) = found(argument(&data)).unwrap();
        assert!(name.ends_with("/t.ibd"), "{name}");
        assert_eq!(kind, TargetKind::File);
        let kinds = [&log, &through].map(|file| found(argument(file)).unwrap().1);
        let log = |written_through| TargetKind::Log { written_through };
        assert_eq!(kinds, [log(false), log(true)]);
        let (name, kind) = found(argument(&socket)).unwrap();
        assert!(name.starts_with("socket:["), "{name}");
        assert_eq!(kind, TargetKind::Channel);
        assert_eq!(found(0xffff_ffff), None);
        // The upper half of the register does not belong to the int.
        assert!(found(argument(&socket) | 1 << 40).is_some());
    }

    #[test]
    fn the_one_descriptor_that_is_polled() {
        let file = File::open("/dev/null").unwrap();
        let list = [libc::pollfd { fd: file.as_raw_fd(), events: 0, revents: 0 }];
        let address = list.as_ptr() as u64;
        let (mut targets, now) = (Targets::new(process::id()), Instant::now());
        let found = targets.polled(address, 1, now).unwrap();
        assert_eq!(targets.names.text(found.name), "/dev/null");
        assert_eq!(targets.polled(address, 2, now), None);
        assert_eq!(targets.polled(8, 1, now), None);
        let nothing = targets.polled(0, 0, now).unwrap();
        assert_eq!(targets.names.text(nothing.name), NOTHING);
    }

    #[test]
    fn what_was_found_out_is_looked_at_again_after_a_while() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let file = File::create(&path).unwrap();
        let (mut targets, now) = (Targets::new(process::id()), Instant::now());
        let before = targets.behind(argument(&file), now);
        fs::rename(&path, directory.path().join("b")).unwrap();
        assert_eq!(targets.behind(argument(&file), now + FRESH_FOR / 2), before);
        let after = targets.behind(argument(&file), now + FRESH_FOR).unwrap();
        assert!(targets.names.text(after.name).ends_with("/b"));
    }
}
