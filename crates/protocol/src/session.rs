//! The traits between the engine and a database: bytes on one side, connections on the other.
//!
//! A [`Protocol`] knows bytes and no sockets, a [`Session`] is a connection that was logged in and
//! never waits. The engine is generic over both, so that neither costs a call through a pointer.

use std::io;
use std::os::fd::AsFd;

use crate::script::{Row, RowFormat, WhichRow};
use crate::{ProtocolError, ServerError};

/// A wire protocol, as far as a client needs it that sends ready requests and follows the answers.
pub trait Protocol {
    type Answers: AnswerReader;

    /// The request that rolls the open transaction back.
    const ROLLBACK: &'static [u8];

    /// The message of a client that disconnects; it has no answer.
    const QUIT: &'static [u8];
}

/// A reader that follows the answers of one connection, in pieces of any length.
///
/// After an error neither the reader nor its connection is of any use.
pub trait AnswerReader: Default + Send {
    /// Take bytes up to the end of the current answer.
    fn feed(&mut self, bytes: &[u8]) -> Result<FeedResult, ProtocolError>;

    /// Keep a row of the next answer, and with the first one those after it as far as they are short.
    fn keep_row(&mut self, which: WhichRow, format: RowFormat);

    /// Return the row that was kept of the answer that has just ended; None where it has no row.
    fn take_row(&mut self) -> Result<Option<Row>, ProtocolError>;

    /// Return all rows of that answer, where its first row was kept; too long ones are an error.
    fn take_rows(&mut self) -> Result<Vec<Row>, ProtocolError>;

    /// Forget the row that was kept, without reading it.
    fn forget_row(&mut self);
}

/// A logged-in connection. Neither `read` nor `write` waits: both fail with `WouldBlock` instead.
pub trait Session: AsFd + Send {
    type Protocol: Protocol;

    /// Take the bytes that have come, all if they do not fill the buffer; 0 is the end of the stream.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Send what can be sent now, and return the bytes taken; some may be kept: see [`Self::wants_write`].
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Return true where `write` has kept bytes: call it again, even with none, once the socket is writable.
    fn wants_write(&self) -> bool;

    /// Return the client's end of the connection.
    fn peer_address(&self) -> io::Result<PeerAddress>;
}

/// The client's end of a connection, which identifies the server's: the inode of a UNIX socket, or a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    Unix { inode: u64 },
    Tcp { port: u16 },
}

/// The outcome of one call of [`AnswerReader::feed`].
#[derive(Debug, PartialEq, Eq)]
pub struct FeedResult {
    /// Bytes taken; less than the call offered only where an answer ends before them.
    pub consumed: usize,
    pub end: Option<AnswerSummary>,
}

/// The summary of a whole answer to one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerSummary {
    /// Rows of all results of the answer.
    pub rows: u64,
    /// Rows that were changed, of all results of the answer.
    pub affected_rows: u64,
    /// The last number that the server gave to an inserted row; 0 where it gave none.
    pub last_insert_id: u64,
    /// Warnings of the last result.
    pub warnings: u16,
    /// Length of the answer on the wire, headers included.
    pub bytes: u64,
    pub error: Option<Box<ServerError>>,
}
