//! Threads that do the same for ever.

use super::*;

pub fn begin(name: &str, act: impl FnOnce() + Send + 'static) {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(act)
        .unwrap();
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
        .map(|socket| libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    // SAFETY: the list is as long as it says, and outlives the call.
    unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, -1) };
}
