//! Waiting for many sockets at once, with wake-ups from other threads.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// The maximum number of events taken at once; with more, the last one would wait for the requests
/// of all others.
const EVENTS: usize = 256;

/// The token of the waker.
const WOKEN: u64 = u64::MAX;

/// Wakes up a thread that is waiting.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    pub fn wake(&self) {
        // This fails only if the counter of pending wake-ups is full.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// A set of sockets to wait for, each with a token. It is edge-triggered: an event means that bytes
/// have arrived since the last read. Level-triggered, the kernel would check every socket again
/// that was just emptied.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
}

/// The events that a wait has returned; they belong to the waiting thread.
pub struct Events(Vec<Event>);

impl Events {
    pub fn new() -> Self {
        Self(Vec::with_capacity(EVENTS))
    }

    /// Return the token of an event's socket, and whether its peer has closed it; None for the
    /// waker.
    #[inline]
    pub fn get(&self, event: usize) -> Option<(u64, bool)> {
        let Event { flags, data, .. } = self.0[event];
        let has_hung_up = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        (data.u64() != WOKEN).then_some((data.u64(), has_hung_up))
    }
}

impl Poller {
    pub fn new(waker: &Waker) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let token = EventData::new_u64(WOKEN);
        // Edge-triggered, so it need not be read.
        epoll::add(&epoll, &waker.0, token, EventFlags::IN | EventFlags::ET)?;
        Ok(Self { epoll })
    }

    /// Start to wait for bytes on a socket.
    pub fn add(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        let token = EventData::new_u64(token);
        Ok(epoll::add(&self.epoll, socket, token, interest(false))?)
    }

    /// Start or stop waiting for room to write. If it never stopped, each read of the server would
    /// be an event.
    #[inline]
    pub fn set_writing(&self, socket: impl AsFd, token: u64, writing: bool) -> io::Result<()> {
        let token = EventData::new_u64(token);
        Ok(epoll::modify(&self.epoll, socket, token, interest(writing))?)
    }

    /// Wait, with the timer's full precision, and return the number of events; `timeout` None waits
    /// forever.
    #[inline]
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<usize> {
        events.0.clear();
        let timeout = match timeout {
            None => None,
            Some(Duration::ZERO) => Some(Timespec::default()),
            Some(duration) => {
                // epoll's own timeout is not used: before Linux 5.11 it counts milliseconds.
                let mut epoll = [PollFd::new(&self.epoll, PollFlags::IN)];
                let timeout = Timespec::try_from(duration).unwrap_or_default();
                uninterrupted(poll(&mut epoll, Some(&timeout)))?;
                Some(Timespec::default())
            }
        };
        let buffer = spare_capacity(&mut events.0);
        uninterrupted(epoll::wait(&self.epoll, buffer, timeout.as_ref()))
    }
}

#[inline]
fn interest(writing: bool) -> EventFlags {
    let reading = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    if writing { reading | EventFlags::OUT } else { reading }
}

/// Return 0 if a signal interrupted the wait.
#[inline]
fn uninterrupted(events: Result<usize, Errno>) -> io::Result<usize> {
    match events {
        Err(Errno::INTR) => Ok(0),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn sockets_wakes_and_the_end_of_patience_are_told_apart() {
        let waker = Waker::new().unwrap();
        let poller = Poller::new(&waker).unwrap();
        let mut events = Events::new();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        poller.add(&ours, 7).unwrap();
        assert_eq!(poller.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
        let timeout = Some(Duration::from_micros(10));
        assert_eq!(poller.wait(&mut events, timeout).unwrap(), 0);
        theirs.write_all(b"x").unwrap();
        assert_eq!(poller.wait(&mut events, None).unwrap(), 1);
        assert_eq!(events.get(0), Some((7, false)));
        drop(theirs);
        assert_eq!(poller.wait(&mut events, None).unwrap(), 1);
        assert_eq!(events.get(0), Some((7, true)));
        waker.wake();
        waker.wake();
        assert_eq!(poller.wait(&mut events, None).unwrap(), 1);
        assert_eq!(events.get(0), None);
        assert_eq!(poller.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
    }

    #[test]
    fn room_to_write_is_told_only_on_request() {
        let waker = Waker::new().unwrap();
        let poller = Poller::new(&waker).unwrap();
        let mut events = Events::new();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        poller.add(&ours, 0).unwrap();
        assert_eq!(poller.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
        poller.set_writing(&ours, 0, true).unwrap();
        assert_eq!(poller.wait(&mut events, Some(Duration::ZERO)).unwrap(), 1);
    }
}
