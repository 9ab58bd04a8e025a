//! Sockets whose waits end at a time limit or a stop request.

use std::io::{self, ErrorKind, IoSlice};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use rustix::io::Errno as SocketError;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::address::Address;
use super::channel::Channel;
use super::deadline::{Deadline, wait_for};
use super::tls::{self, Tls};
use crate::{ClientError, Session as _};

/// The pause between two checks of what a server has read is this fraction of the wait so far, to
/// spare the server's CPU.
const LOOKS: u32 = 64;
const SHORT_PAUSE: Duration = Duration::from_micros(50);
const LONG_PAUSE: Duration = Duration::from_millis(10);

/// The pause before the next attempt to connect to a server whose listen queue is full.
const PAUSE: Duration = Duration::from_millis(5);

/// A connection, or the reason why there is none; the inner error is the deadline's.
type Connected<T> = io::Result<Result<T, ClientError>>;

/// A connected socket, and the number of bytes that went through it.
#[derive(Debug)]
pub struct Transport {
    pub channel: Channel,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// The maximum silence of the server; None if only the deadline applies.
    pub idle_timeout: Option<Duration>,
}

impl Transport {
    /// Connect before the deadline; only the lookup of a host name may take longer.
    pub fn connect(address: &Address, deadline: &Deadline) -> Result<Self, ClientError> {
        let connected = match address {
            Address::Socket(path) => connect_unix(path, deadline),
            Address::Tcp { host, port } => connect_tcp(host, *port, deadline),
        };
        let context = || format!("cannot connect to {address}");
        let failed = |source| ClientError::Connection { context: context(), source };
        Ok(Self::over(connected.map_err(failed)??))
    }

    pub fn over(channel: Channel) -> Self {
        Self { channel, bytes_sent: 0, bytes_received: 0, idle_timeout: None }
    }

    /// Switch to TLS, if TLS is on.
    pub fn start_tls(
        &mut self,
        tls: &Tls,
        address: &Address,
        deadline: &Deadline,
    ) -> Result<(), ClientError> {
        let Some(session) = tls.session(address)? else {
            return Ok(());
        };
        self.channel.begin_tls(session);
        loop {
            let wait = deadline.time_left()?;
            match self.channel.handshake() {
                Ok(Ok(true)) => return Ok(()),
                Ok(Ok(false)) if self.channel.wants_write() => {
                    self.wait_for(PollFlags::POLLOUT, wait)?;
                }
                Ok(Ok(false)) => self.wait_for(PollFlags::POLLIN, wait)?,
                Ok(Err(error)) => return Err(tls::explain(&error)),
                Err(source) => {
                    let context = "the server broke the TLS handshake off (older than TLS 1.2? then turn TLS off)".to_owned();
                    return Err(ClientError::Connection { context, source });
                }
            }
        }
    }

    pub fn send(
        &mut self,
        mut pieces: &mut [IoSlice<'_>],
        deadline: &Deadline,
    ) -> Result<(), ClientError> {
        IoSlice::advance_slices(&mut pieces, 0); // drops empty pieces at the front
        let mut since = Instant::now();
        while !pieces.is_empty() || self.channel.wants_write() {
            let wait = self.wait_since(since, deadline)?;
            match self.channel.write_vectored(pieces) {
                Ok(0) if !pieces.is_empty() => return Err(lost(ErrorKind::WriteZero.into())),
                Ok(count) => {
                    self.bytes_sent += count as u64;
                    since = Instant::now();
                    IoSlice::advance_slices(&mut pieces, count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait_for(PollFlags::POLLOUT, wait)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(error)),
            }
        }
        Ok(())
    }

    /// Wait for bytes and return the number of bytes in `buffer`; 0 at the end of the stream.
    pub fn receive(
        &mut self,
        buffer: &mut [u8],
        deadline: &Deadline,
    ) -> Result<usize, ClientError> {
        let since = Instant::now();
        loop {
            let wait = self.wait_since(since, deadline)?;
            match self.channel.read(buffer) {
                Ok(count) => {
                    self.bytes_received += count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait_for(PollFlags::POLLIN, wait)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(error)),
            }
        }
    }

    /// Wait until the server has read everything that was sent, over a Unix socket; return false if
    /// it answers before. If the server has disconnected, return true: the next write reports the
    /// error.
    pub fn wait_until_read(&mut self, deadline: &Deadline) -> Result<bool, ClientError> {
        let since = Instant::now();
        // POLLOUT waits until a quarter of the send buffer is left. That wait is not busy, so it
        // comes first.
        let wait = self.wait_since(since, deadline)?;
        self.wait_for(PollFlags::POLLOUT, wait)?;
        loop {
            if unread(self.channel.as_fd()).map_err(lost)? == 0 {
                return Ok(true);
            }
            self.wait_since(since, deadline)?;
            let pause = since.elapsed() / LOOKS;
            if has_answer_within(self.channel.as_fd(), pause.clamp(SHORT_PAUSE, LONG_PAUSE))? {
                return Ok(false);
            }
        }
    }

    /// Return how long to wait at most for a server that is silent `since`, or an error if the wait
    /// has to end now.
    fn wait_since(&self, since: Instant, deadline: &Deadline) -> Result<Duration, ClientError> {
        let wait = deadline.time_left()?;
        let Some(limit) = self.idle_timeout else {
            return Ok(wait);
        };
        let left = limit.saturating_sub(since.elapsed());
        if left.is_zero() {
            return Err(ClientError::Silent { limit });
        }
        Ok(wait.min(left))
    }

    fn wait_for(&self, readiness: PollFlags, wait: Duration) -> Result<(), ClientError> {
        wait_for(self.channel.as_fd(), readiness, wait).map_err(lost)
    }
}

/// Return the number of bytes that the other end has not read, with the kernel's overhead.
fn unread(socket: BorrowedFd<'_>) -> io::Result<libc::c_int> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the call writes one int, and the socket is open.
    Errno::result(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(bytes)
}

/// Wait for an answer with a precision of microseconds; return whether there is one.
fn has_answer_within(socket: BorrowedFd<'_>, wait: Duration) -> Result<bool, ClientError> {
    let wait = TimeSpec::from_duration(wait);
    match ppoll(&mut [PollFd::new(socket, PollFlags::POLLIN)], Some(wait), None) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(errno) => Err(lost(errno.into())),
    }
}

/// Return the error of a connection that was lost.
pub fn lost(source: io::Error) -> ClientError {
    ClientError::Connection { context: "lost the connection to the server".to_owned(), source }
}

fn connect_unix(path: &Path, deadline: &Deadline) -> Connected<Channel> {
    let address = SocketAddrUnix::new(path)?;
    match connect_to(AddressFamily::UNIX, &address, deadline)? {
        Ok(socket) => Channel::over_unix(socket.into()).map(Ok),
        Err(error) => Ok(Err(error)),
    }
}

/// Try the addresses of the host in turn.
fn connect_tcp(host: &str, port: u16, deadline: &Deadline) -> Connected<Channel> {
    let mut outcome = Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    for address in (host, port).to_socket_addrs()? {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        outcome = connect_to(family, &address, deadline);
        if outcome.is_ok() {
            break;
        }
    }
    match outcome? {
        Ok(socket) => Channel::over_tcp(socket.into()).map(Ok),
        Err(error) => Ok(Err(error)),
    }
}

fn connect_to(
    family: AddressFamily,
    address: &impl SocketAddrArg,
    deadline: &Deadline,
) -> Connected<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    loop {
        let wait = match deadline.time_left() {
            Ok(wait) => wait,
            Err(error) => return Ok(Err(error)),
        };
        // The next call of connect returns the result of the previous one.
        match net::connect(&socket, address) {
            Ok(()) | Err(SocketError::ISCONN) => return Ok(Ok(socket)),
            Err(SocketError::INPROGRESS | SocketError::ALREADY) => {
                wait_for(socket.as_fd(), PollFlags::POLLOUT, wait)?;
            }
            Err(SocketError::AGAIN) => thread::sleep(PAUSE.min(wait)),
            Err(SocketError::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    fn deadline(limit: Duration) -> Deadline {
        Deadline::start(&Arc::new(AtomicBool::new(false)), Some(limit))
    }

    const LONG: Duration = Duration::from_secs(3600);

    fn local(port: u16) -> Address {
        let host = "127.0.0.1".to_owned();
        Address::Tcp { host, port }
    }

    #[test]
    fn listeners_are_connected_to_and_others_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let error =
            Transport::connect(&Address::Socket(path.clone()), &deadline(LONG)).unwrap_err();
        assert!(error.to_string().starts_with("cannot connect to /"), "{error}");
        let _listener = UnixListener::bind(&path).unwrap();
        Transport::connect(&Address::Socket(path), &deadline(LONG)).unwrap();

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        Transport::connect(&local(port), &deadline(LONG)).unwrap();
        drop(listener);
        let error = Transport::connect(&local(port), &deadline(LONG)).unwrap_err();
        assert_eq!(error.kind(), "connection");
        let error = Transport::connect(&local(port), &deadline(Duration::ZERO)).unwrap_err();
        assert!(matches!(error, ClientError::TimeLimit { .. }));
    }

    #[test]
    fn a_server_that_takes_nobody_is_not_waited_for_beyond_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        net::listen(&listener, 1).unwrap();
        let (mut queued, deadline) = (Vec::new(), deadline(Duration::from_millis(200)));
        let error = loop {
            match Transport::connect(&Address::Socket(path.clone()), &deadline) {
                Ok(channel) => queued.push(channel),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ClientError::TimeLimit { .. }), "{error}");
        assert!(!queued.is_empty());
    }
}
