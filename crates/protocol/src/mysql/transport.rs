//! Sockets that never wait past a time limit or a request to stop.

use std::io::{self, ErrorKind, IoSlice};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::channel::Channel;
use super::connect;
use super::tls::{self, Tls};
use crate::{ClientError, Session as _};

/// A request to stop is noticed at least this often.
const TICK: Duration = Duration::from_millis(100);

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Socket(PathBuf),
    Tcp { host: String, port: u16 },
}

impl Address {
    /// True where what is sent stays on this host, whatever a resolver says.
    pub fn is_this_host(&self) -> bool {
        match self {
            Self::Socket(_) => true,
            Self::Tcp { host, .. } => {
                host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
            }
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(path) => write!(out, "{}", path.display()),
            Self::Tcp { host, port } => write!(out, "{host}:{port}"),
        }
    }
}

/// The end of a wait: a time limit, or a request to stop.
#[derive(Clone)]
pub struct Deadline {
    stop: Arc<AtomicBool>,
    limit: Option<(Duration, Instant)>,
}

impl Deadline {
    /// Start a time limit now; None waits as long as it takes.
    pub fn start(stop: &Arc<AtomicBool>, limit: Option<Duration>) -> Self {
        let limit = limit.map(|limit| (limit, Instant::now() + limit));
        Self { stop: Arc::clone(stop), limit }
    }

    /// The same, and a limit that starts now: whichever ends first.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Self {
        let other = Self::start(&self.stop, Some(limit));
        match (self.limit, other.limit) {
            (Some((_, end)), Some((_, other_end))) if end <= other_end => self.clone(),
            _ => other,
        }
    }

    /// The reason to end, if there is one.
    pub fn check(&self) -> Result<(), ClientError> {
        self.time_left().map(|_| ())
    }

    /// The longest time to sleep before checking again, or the reason to end.
    pub(super) fn time_left(&self) -> Result<Duration, ClientError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ClientError::Interrupted);
        }
        let Some((limit, end)) = self.limit else {
            return Ok(TICK);
        };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ClientError::TimeLimit { limit });
        }
        Ok(left.min(TICK))
    }
}

/// A connected socket, and the bytes that went through it.
pub struct Transport {
    channel: Channel,
    bytes_sent: u64,
    bytes_received: u64,
    /// The longest silence of the server; None: as long as the deadline allows.
    idle_timeout: Option<Duration>,
}

impl Transport {
    /// Connects, within the limit of the deadline.
    pub fn connect(address: &Address, deadline: &Deadline) -> Result<Self, ClientError> {
        connect::connect(address, deadline).map(Self::over)
    }

    pub fn over(channel: Channel) -> Self {
        Self { channel, bytes_sent: 0, bytes_received: 0, idle_timeout: None }
    }

    /// Give a server up that neither takes nor sends anything for so long; None for never.
    pub fn set_idle_timeout(&mut self, idle_timeout: Option<Duration>) {
        self.idle_timeout = idle_timeout;
    }

    /// True where nobody else can read what is sent.
    pub fn is_private(&self) -> bool {
        self.channel.is_private()
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// Go over to TLS, if that is on.
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

    pub fn into_channel(self) -> Channel {
        self.channel
    }

    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    pub fn bytes_received(&self) -> u64 {
        self.bytes_received
    }

    /// Send all of the pieces, one after the other.
    pub fn send(
        &mut self,
        mut pieces: &mut [IoSlice<'_>],
        deadline: &Deadline,
    ) -> Result<(), ClientError> {
        IoSlice::advance_slices(&mut pieces, 0); // empty pieces in front are none
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

    /// Wait for bytes and return how many came into `buffer`; 0 is the end of the stream.
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

    /// The longest time to wait for a server that has been silent `since`, or the reason to end.
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

/// Wait until a socket is ready, but not longer than `wait`.
pub(super) fn wait_for(
    socket: BorrowedFd<'_>,
    readiness: PollFlags,
    wait: Duration,
) -> io::Result<()> {
    // Rounded up: a limit that is not yet over must not become a busy loop.
    let wait = PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
    match poll(&mut [PollFd::new(socket, readiness)], wait) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// The error of a connection that was there and is no more.
pub fn lost(source: io::Error) -> ClientError {
    ClientError::Connection { context: "lost the connection to the server".to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_limits_the_first_to_end_counts() {
        let stop = Arc::new(AtomicBool::new(false));
        let (short, long) = (Duration::ZERO, Duration::from_secs(3600));
        for (all, one) in [(Some(short), long), (Some(long), short), (None, short)] {
            let deadline = Deadline::start(&stop, all).within(one);
            let error = deadline.time_left().unwrap_err();
            assert!(matches!(error, ClientError::TimeLimit { limit } if limit == short));
        }
        // Every connection has the whole of its own.
        let deadline = Deadline::start(&stop, None);
        assert!(deadline.within(short).time_left().is_err());
        assert!(deadline.within(long).time_left().is_ok());
        stop.store(true, Ordering::Relaxed);
        let error = deadline.within(long).time_left().unwrap_err();
        assert!(matches!(error, ClientError::Interrupted));
    }
}
