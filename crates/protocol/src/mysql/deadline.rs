//! Time limits and stop requests, and waiting for a socket.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::ClientError;

/// The maximum delay until a stop request is noticed.
const TICK: Duration = Duration::from_millis(100);

/// A time limit, and a flag that requests to stop.
#[derive(Clone)]
pub struct Deadline {
    stop: Arc<AtomicBool>,
    limit: Option<(Duration, Instant)>,
}

impl Deadline {
    /// Start a time limit now; None for no limit.
    pub fn start(stop: &Arc<AtomicBool>, limit: Option<Duration>) -> Self {
        let limit = limit.map(|limit| (limit, Instant::now() + limit));
        Self { stop: Arc::clone(stop), limit }
    }

    /// Return this deadline with a further limit that starts now; the earlier limit applies.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Self {
        let other = Self::start(&self.stop, Some(limit));
        match (self.limit, other.limit) {
            (Some((_, end)), Some((_, other_end))) if end <= other_end => self.clone(),
            _ => other,
        }
    }

    /// Return an error if the work has to end now.
    pub fn check(&self) -> Result<(), ClientError> {
        self.time_left().map(|_| ())
    }

    /// Return how long to sleep at most before the next check, or an error if the work has to end
    /// now.
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

/// Wait until a socket is ready, at most for `wait`.
pub(super) fn wait_for(
    socket: BorrowedFd<'_>,
    readiness: PollFlags,
    wait: Duration,
) -> io::Result<()> {
    // Rounded up, so that the last millisecond does not become a busy loop.
    let wait = PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
    match poll(&mut [PollFd::new(socket, readiness)], wait) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
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
        // Every connection has the whole limit.
        let deadline = Deadline::start(&stop, None);
        assert!(deadline.within(short).time_left().is_err());
        assert!(deadline.within(long).time_left().is_ok());
        stop.store(true, Ordering::Relaxed);
        let error = deadline.within(long).time_left().unwrap_err();
        assert!(matches!(error, ClientError::Interrupted));
    }
}
