//! One connection and what it is about: a small state, so that there can be many.

use std::io::{self, ErrorKind};

use crate::statement_activity::ActivitySlot;
use protocol::{Protocol, Session};

use super::clock::seconds;
use super::record::Tally;
use protocol::script::{Request, Script};

/// The state of a client: what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// For its next transaction.
    Idle,
    /// For the answer to a request of its script.
    Asking,
    /// For the answer to `ROLLBACK`, after which the transaction is begun again or given up.
    RollingBack { again: bool },
    /// For nothing: its script is used up.
    Ended,
}

pub struct Client<C: Session, S> {
    /// Among those of its side.
    pub number: u32,
    /// The server that it asks, in slices; else 0.
    pub side: u32,
    pub session: C,
    pub script: S,
    /// The slot in which it publishes its request.
    pub activity: ActivitySlot,
    pub answers: <C::Protocol as Protocol>::Answers,
    pub state: State,
    pub request: Request,
    /// Of the current request: when it was to be sent, when it was, and how long it was.
    pub due_ns: u64,
    pub sent_ns: u64,
    pub sent_bytes: usize,
    /// The time of the last answer; None before the first, in slices the first of its turn.
    pub answered_ns: Option<u64>,
    pub transaction: Transaction,
    /// Of the measured part, that succeeded.
    pub transactions: u64,
    pub span: Span,
    /// Bytes that the socket has not taken yet; nearly always none.
    unsent: Vec<u8>,
}

/// The transaction a client is in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transaction {
    /// It belongs to the measured part.
    pub measured: bool,
    pub intended_ns: u64,
    /// The time at which its first request was sent; None until then.
    pub begun_ns: Option<u64>,
    pub tally: Tally,
}

/// The time in which a client's measured transactions followed each other, failed ones included.
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

    /// Return the transactions, and how many a second that is; None without any.
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

    /// Send a packet, with one call where the socket takes it. False where a rest is kept.
    #[inline]
    pub fn send(&mut self, packet: &[u8]) -> io::Result<bool> {
        self.sent_bytes = packet.len();
        let taken = at_once(|| self.session.write(packet))?.unwrap_or(0);
        if taken < packet.len() {
            self.unsent.extend_from_slice(&packet[taken..]);
        }
        Ok(!self.has_unsent())
    }

    /// Return true where nothing is under way.
    pub fn rests(&self) -> bool {
        matches!(self.state, State::Idle | State::Ended)
    }

    /// Say goodbye where that can be understood: else the server would note an aborted connection.
    pub fn leave(mut self) {
        if self.rests() {
            let _ = self.session.write(C::Protocol::QUIT); // one that is gone need not hear it
        }
    }

    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.session.wants_write()
    }

    /// Send more of what is kept; true where nothing is left.
    pub fn send_more(&mut self) -> io::Result<bool> {
        let taken = at_once(|| self.session.write(&self.unsent))?.unwrap_or(0);
        self.unsent.drain(..taken);
        if self.unsent.is_empty() {
            self.unsent = Vec::new(); // many connections keep no memory for it
        }
        Ok(!self.has_unsent())
    }

    /// Take what has come; None where nothing has.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        at_once(|| self.session.read(buffer))
    }
}

/// Do what never waits; None where the socket is full or empty.
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
