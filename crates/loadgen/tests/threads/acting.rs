//! The process whose threads are sampled, and threads that do the same for ever.

use super::*;

pub fn begin(name: &str, act: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name(name.to_owned()).spawn(act).unwrap();
}

pub fn sync_for_ever(path: &Path) {
    let mut file = File::create(path).unwrap();
    loop {
        file.write_all(b"x").unwrap();
        file.sync_all().unwrap();
    }
}

/// Wait until any of the descriptors can be read; none of them ever can.
pub fn poll_for_ever(sockets: &[UnixStream]) {
    let mut list: Vec<libc::pollfd> = sockets
        .iter()
        .map(|socket| libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    // SAFETY: the list is as long as it says, and outlives the call.
    unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, -1) };
}

/// A process of the kind above; it ends with its input.
pub struct ThreadedProcess {
    pub process: Child,
    pub _place: tempfile::TempDir,
}

impl ThreadedProcess {
    pub fn start() -> Self {
        // Not in a file system in memory, where there is nothing to sync.
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", "the_process_that_is_looked_at", "--nocapture"])
            .env(PLACE, place.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let is_acting = |line: io::Result<String>| line.unwrap().ends_with("acting");
        assert!({ lines }.any(is_acting));
        Self { process, _place: place }
    }

    pub fn end(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for ThreadedProcess {
    fn drop(&mut self) {
        self.end();
    }
}
