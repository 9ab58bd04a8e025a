//! The traits between the engine and a database: bytes on one side, connections on the other.
//!
//! A [`Protocol`] handles bytes without sockets; a [`Session`] is a logged-in, non-blocking
//! connection. The engine is generic over both, so neither costs an indirect call.

use std::io;
use std::os::fd::AsFd;

use crate::script::{Row, RowFormat, WhichRow};
use crate::{ProtocolError, ServerError};

/// A wire protocol, as far as a client needs it to send ready-made requests and follow the answers.
pub trait Protocol {
    type Answers: AnswerReader;

    /// The request that rolls back the open transaction.
    const ROLLBACK: &'static [u8];

    /// The message that a client sends before it disconnects; it has no answer.
    const QUIT: &'static [u8];
}

/// A reader that follows the answers of one connection, in pieces of any length.
///
/// After an error, neither the reader nor its connection can be used any more.
pub trait AnswerReader: Default + Send {
    /// Consume bytes up to the end of the current answer.
    fn feed(&mut self, bytes: &[u8]) -> Result<FeedResult, ProtocolError>;

    /// Keep a row of the next answer. With the first row, the rows after it are kept too, up to a
    /// size limit.
    fn keep_row(&mut self, which: WhichRow, format: RowFormat);

    /// Return the row kept of the answer that has just ended; None if it has no row.
    fn take_row(&mut self) -> Result<Option<Row>, ProtocolError>;

    /// Return all rows of that answer, if its first row was kept; an error if they are too long.
    fn take_rows(&mut self) -> Result<Vec<Row>, ProtocolError>;

    /// Drop the kept row without parsing it.
    fn forget_row(&mut self);
}

/// A logged-in connection. `read` and `write` do not block: they fail with `WouldBlock` instead.
pub trait Session: AsFd + Send {
    type Protocol: Protocol;

    /// Read the bytes that have arrived: all of them, unless they fill the buffer. 0 is the end of
    /// the stream.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Send what can be sent now, and return the number of consumed bytes. Some may be buffered:
    /// see [`Self::wants_write`].
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Return whether `write` has buffered bytes: call it again, even with no bytes, when the
    /// socket is writable.
    fn wants_write(&self) -> bool;

    /// Return the client's end of the connection.
    fn peer_address(&self) -> io::Result<PeerAddress>;
}

/// The client's end of a connection, which identifies the server's end: the inode of a Unix socket,
/// or a TCP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    Unix { inode: u64 },
    Tcp { port: u16 },
}

/// The outcome of one call of [`AnswerReader::feed`].
#[derive(Debug, PartialEq, Eq)]
pub struct FeedResult {
    /// The number of consumed bytes; less than offered only if an answer ends before them.
    pub consumed: usize,
    pub end: Option<AnswerSummary>,
}

/// The summary of a whole answer to one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerSummary {
    /// The number of rows, over all results of the answer.
    pub rows: u64,
    /// The number of changed rows, over all results of the answer.
    pub affected_rows: u64,
    /// The last auto-increment value that the server returned; 0 if there is none.
    pub last_insert_id: u64,
    /// The number of warnings of the last result.
    pub warnings: u16,
    /// The length of the answer on the wire, with headers.
    pub bytes: u64,
    pub error: Option<Box<ServerError>>,
}
