//! Statement activity: a file in memory in which clients publish their current statement for
//! samplers.
//!
//! The file has a header, a slot for each connection, and the statements' names as a JSON list, all
//! in the host's byte order. A slot identifies the client's end of the connection and has the
//! current statement: 0 for none, else its index among the names plus one. A statement is published
//! just before its request is written, and removed when its answer has arrived completely, as its
//! latency is measured. The last name stands for the `ROLLBACK`s after errors, which have no
//! record.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use protocol::PeerAddress;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const MAGIC: &[u8; 8] = b"millrace";
const VERSION: u32 = 1;
/// Magic, version, number of slots, length of the names; the rest is 0.
const HEADER_BYTES: usize = 64;
const ROLLBACK: &str = "ROLLBACK";

/// One connection. A slot has its own cache line, because the client's thread writes to it
/// constantly.
#[repr(C, align(64))]
struct Slot {
    /// 1 for a Unix socket, 2 for TCP.
    kind: AtomicU32,
    statement: AtomicU32,
    socket: AtomicU64,
}

/// The mapped file.
#[derive(Debug)]
pub struct StatementActivity {
    start: NonNull<u8>,
    bytes: usize,
    slots: usize,
    names: Vec<String>,
}

// SAFETY: the pointer refers only to atomics, and to the header and names, which never change.
unsafe impl Send for StatementActivity {}
// SAFETY: as above.
unsafe impl Sync for StatementActivity {}

impl StatementActivity {
    /// Create the file, or overwrite an existing one, with a slot for each connection.
    pub fn create(path: &Path, sockets: &[PeerAddress], statements: &[String]) -> io::Result<Self> {
        let rollback = ROLLBACK.to_owned();
        let names: Vec<String> = statements.iter().cloned().chain([rollback]).collect();
        let encoded = serde_json::to_vec(&names)?;
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        let count = |number: usize| u32::try_from(number).expect("there are few of them");
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        for (place, number) in
            [VERSION, count(sockets.len()), count(encoded.len())].into_iter().enumerate()
        {
            header[8 + 4 * place..][..4].copy_from_slice(&number.to_ne_bytes());
        }
        file.write_all(&header)?;
        file.write_all(&vec![0; sockets.len() * size_of::<Slot>()])?;
        file.write_all(&encoded)?;
        let activity = Self::map(&file, sockets.len(), names, ProtFlags::WRITE)?;
        for (slot, socket) in activity.slots().iter().zip(sockets) {
            let (kind, number) = match *socket {
                PeerAddress::Unix { inode } => (1, inode),
                PeerAddress::Tcp { port } => (2, port.into()),
            };
            slot.socket.store(number, Ordering::Relaxed);
            slot.kind.store(kind, Ordering::Release);
        }
        Ok(activity)
    }

    /// Open an existing file for reading.
    pub fn open(path: &Path) -> io::Result<Self> {
        let damaged =
            || io::Error::new(ErrorKind::InvalidData, "it is not an activity file of this version");
        let file = File::open(path)?;
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0)?;
        let number = |place: usize| {
            let bytes = header[8 + 4 * place..][..4].try_into();
            u32::from_ne_bytes(bytes.expect("four bytes"))
        };
        if header[..8] != *MAGIC || number(0) != VERSION {
            return Err(damaged());
        }
        let (slots, encoded) = (number(1) as usize, number(2) as usize);
        let before = HEADER_BYTES + slots * size_of::<Slot>();
        if file.metadata()?.len() < (before + encoded) as u64 {
            return Err(damaged());
        }
        let mut text = vec![0; encoded];
        file.read_exact_at(&mut text, before as u64)?;
        let names = serde_json::from_slice(&text).map_err(|_| damaged())?;
        Self::map(&file, slots, names, ProtFlags::empty())
    }

    fn map(file: &File, slots: usize, names: Vec<String>, more: ProtFlags) -> io::Result<Self> {
        let bytes = HEADER_BYTES + slots * size_of::<Slot>();
        let protection = ProtFlags::READ | more;
        // SAFETY: the kernel chooses the address, and the file has this length.
        let start = unsafe { mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at 0");
        Ok(Self { start, bytes, slots, names })
    }

    #[inline]
    fn slots(&self) -> &[Slot] {
        // SAFETY: the mapping is page-aligned, has this length and lives as long as `self`; a slot
        // consists of atomics, for which all bytes are valid.
        unsafe {
            let first = self.start.add(HEADER_BYTES).cast::<Slot>();
            slice::from_raw_parts(first.as_ptr(), self.slots)
        }
    }

    /// Return the number of slots.
    pub fn count(&self) -> usize {
        self.slots
    }

    /// Return the current statement in a slot: 0 for none, else the index of its name plus one.
    #[inline]
    pub fn shown(&self, slot: usize) -> u32 {
        self.slots()[slot].statement.load(Ordering::Relaxed)
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl Drop for StatementActivity {
    fn drop(&mut self) {
        // SAFETY: no reference to a slot outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// The slot in which one client publishes its current statement; by default none.
#[derive(Clone, Debug, Default)]
pub struct ActivitySlot(Option<(Arc<StatementActivity>, usize)>);

impl ActivitySlot {
    pub fn new(activity: &Arc<StatementActivity>, slot: usize) -> Self {
        Self(Some((Arc::clone(activity), slot)))
    }

    /// Publish that the statement with this index is about to be sent.
    #[inline]
    pub fn show(&self, statement: u16) {
        self.set(u32::from(statement) + 1);
    }

    /// Publish that a `ROLLBACK` is about to be sent.
    pub fn show_rollback(&self) {
        if let Self(Some((activity, _))) = self {
            self.set(u32::try_from(activity.names.len()).expect("there are few of them"));
        }
    }

    /// Publish that no statement is under way.
    #[inline]
    pub fn clear(&self) {
        self.set(0);
    }

    #[inline]
    fn set(&self, value: u32) {
        if let Self(Some((activity, slot))) = self {
            activity.slots()[*slot].statement.store(value, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;
    use tempfile::TempDir;

    /// Return a file with two connections and two statements, its path and its directory.
    fn created() -> (TempDir, PathBuf, Arc<StatementActivity>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("activity");
        let sockets = [PeerAddress::Unix { inode: 1 << 40 }, PeerAddress::Tcp { port: 3306 }];
        let names = ["BEGIN".to_owned(), "a \"b\"\n".to_owned()];
        let activity = StatementActivity::create(&path, &sockets, &names).unwrap();
        (directory, path, Arc::new(activity))
    }

    #[test]
    fn what_clients_show_is_seen_by_others() {
        let (_directory, path, activity) = created();
        let other = StatementActivity::open(&path).unwrap();
        assert_eq!(other.count(), 2);
        assert_eq!(other.names(), ["BEGIN", "a \"b\"\n", "ROLLBACK"]);
        let slot = ActivitySlot::new(&activity, 1);
        slot.show(1);
        assert_eq!((other.shown(0), other.shown(1)), (0, 2));
        slot.show_rollback();
        assert_eq!((other.shown(0), other.shown(1)), (0, 3));
        slot.clear();
        assert_eq!(other.shown(1), 0);
        ActivitySlot::default().show(1); // has no slot
    }

    #[test]
    fn the_layout_is_that_which_others_read() {
        let (_directory, path, activity) = created();
        ActivitySlot::new(&activity, 0).show(1);
        let bytes = fs::read(&path).unwrap();
        let number = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(&bytes[..8], b"millrace");
        assert_eq!((number(8), number(12)), (1, 2));
        assert_eq!(number(16) as usize, bytes.len() - 64 - 2 * 64);
        assert_eq!((number(64), number(68)), (1, 2));
        assert_eq!(bytes[72..80], (1u64 << 40).to_ne_bytes());
        assert_eq!((number(128), number(132)), (2, 0));
        assert_eq!(bytes[136..144], 3306u64.to_ne_bytes());
        assert_eq!(&bytes[192..], br#"["BEGIN","a \"b\"\n","ROLLBACK"]"#);
    }

    #[test]
    fn other_files_are_refused() {
        assert!(StatementActivity::open(Path::new("/nowhere/activity")).is_err());
        let (_directory, path, _activity) = created();
        let good = fs::read(&path).unwrap();
        let mut other_version = good.clone();
        other_version[8] ^= 2;
        for bytes in [&[][..], &good[..63], &good[..100], &other_version] {
            fs::write(&path, bytes).unwrap();
            assert!(StatementActivity::open(&path).is_err(), "{}", bytes.len());
        }
        fs::write(&path, &good).unwrap();
        assert!(StatementActivity::open(&path).is_ok());
    }
}
