//! One connection and its state, which is small so that there can be many connections.

use std::io::{self, ErrorKind};

use crate::statement_activity::ActivitySlot;
use protocol::{Protocol, Session};

use super::clock::seconds;
use super::record::Tally;
use protocol::script::{Request, Script};

/// The event that a client is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its next transaction.
    Idle,
    /// The answer to a request of its script.
    Asking,
    /// The answer to `ROLLBACK`; after it, the transaction is restarted (`again`) or given up.
    RollingBack { again: bool },
    /// Nothing: its script has no further requests.
    Ended,
}

pub struct Client<C: Session, S> {
    /// The client's number among those of its side.
    pub number: u32,
    /// In slices, the index of the client's server; otherwise 0.
    pub side: u32,
    pub session: C,
    pub script: S,
    /// The slot in which the client publishes its current statement.
    pub activity: ActivitySlot,
    pub answers: <C::Protocol as Protocol>::Answers,
    pub state: State,
    pub request: Request,
    /// The current request: its due time, the time it was sent, and its length.
    pub due_ns: u64,
    pub sent_ns: u64,
    pub sent_bytes: usize,
    /// The time of the last answer; None before the first answer, in slices before the first of a
    /// turn.
    pub answered_ns: Option<u64>,
    pub transaction: Transaction,
    /// Successful transactions of the measured part.
    pub transactions: u64,
    pub span: Span,
    /// Bytes that the socket has not accepted yet; nearly always empty.
    unsent: Vec<u8>,
}

/// The current transaction of a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transaction {
    /// True if it belongs to the measured part.
    pub measured: bool,
    pub intended_ns: u64,
    /// The time at which its first request was sent; None before that.
    pub begun_ns: Option<u64>,
    pub tally: Tally,
}

/// The time over which a client's measured transactions followed each other, failed ones included.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    from_ns: Option<u64>,
    until_ns: u64,
    transactions: u64,
}

impl Span {
    #[inline]
    pub fn add(&mut self, begun_ns: u64, ended_ns: u64) {
        self.from_ns.get_or_insert(begun_ns);
        self.until_ns = ended_ns;
        self.transactions += 1;
    }

    /// Return the number of transactions, and their rate per second; None without any.
    pub fn rate(&self) -> Option<(u64, f64)> {
        let duration_ns = self.until_ns.checked_sub(self.from_ns?)?.max(1);
        Some((self.transactions, self.transactions as f64 / seconds(duration_ns)))
    }
}

impl<C: Session, S: Script> Client<C, S> {
    pub fn new((number, side): (u32, u32), session: C, script: S) -> Self {
        Self {
            number,
            side,
            session,
            script,
            activity: ActivitySlot::default(),
            answers: Default::default(),
            state: State::Idle,
            request: Request::default(),
            due_ns: 0,
            sent_ns: 0,
            sent_bytes: 0,
            answered_ns: None,
            transaction: Transaction::default(),
            transactions: 0,
            span: Span::default(),
            unsent: Vec::new(),
        }
    }

    /// Send a packet, with one system call if the socket accepts all of it. Return false if bytes
    /// are left.
    #[inline]
    pub fn send(&mut self, packet: &[u8]) -> io::Result<bool> {
        self.sent_bytes = packet.len();
        let taken = at_once(|| self.session.write(packet))?.unwrap_or(0);
        if taken < packet.len() {
            self.unsent.extend_from_slice(&packet[taken..]);
        }
        Ok(!self.has_unsent())
    }

    /// Return whether no request is under way.
    pub fn rests(&self) -> bool {
        matches!(self.state, State::Idle | State::Ended)
    }

    /// Send the disconnect message if no request is under way; the server would otherwise count an
    /// aborted connection.
    pub fn leave(mut self) {
        if self.rests() {
            let _ = self.session.write(C::Protocol::QUIT); // an error means that the connection is already lost
        }
    }

    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.session.wants_write()
    }

    /// Send more of the unsent bytes; return true if none is left.
    pub fn send_more(&mut self) -> io::Result<bool> {
        let taken = at_once(|| self.session.write(&self.unsent))?.unwrap_or(0);
        self.unsent.drain(..taken);
        if self.unsent.is_empty() {
            self.unsent = Vec::new(); // free the memory: there may be many connections
        }
        Ok(!self.has_unsent())
    }

    /// Read the bytes that have arrived; None if there are none.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        at_once(|| self.session.read(buffer))
    }
}

/// Run a non-blocking operation; return None if the socket is full or empty.
#[inline]
fn at_once(mut act: impl FnMut() -> io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match act() {
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
