//! One connection: log in, ask, send a local file.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::Mysql;
use super::address::Address;
use super::binary::COM_QUERY;
use super::channel::Channel;
use super::deadline::Deadline;
use super::packet::{self, Decoder};
use super::tls::Tls;
use super::transport::{Transport, lost};
use crate::{ClientError, Protocol as _, ProtocolError, Session as _};

mod local_file;
mod results;

pub use local_file::LocalData;

const COM_PING: u8 = 14;

/// Rows of a result that are kept; what follows is read and forgotten.
const KEPT_ROWS: usize = 100;

/// The limits of the answer to a statement that is read whole.
#[derive(Clone, Copy)]
struct Limits {
    /// Of the definitions of a result's columns.
    definitions: usize,
    /// Of the rows that are kept, as they lie in memory.
    kept_rows: usize,
    /// On the wire, with all its results and the rows that are not kept.
    answer: u64,
}

/// Far above what a server of good will sends: 4096 columns of some hundred bytes, two of the longest
/// rows.
const LIMITS: Limits = Limits { definitions: 16 << 20, kept_rows: 128 << 20, answer: 16 << 30 };

/// Bytes asked of the socket at once.
const RECEIVE_BYTES: usize = 64 << 10;

/// Handing a connection over consumes it.
const HANDED_OVER: &str = "nobody has a connection that was handed over";

/// The format of rows.
#[derive(Clone, Copy)]
pub(super) enum Rows {
    Text,
    Binary,
}

/// The result of a statement.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub affected_rows: u64,
    pub warnings: u16,
    /// The first rows of its last result set, None where it gave no rows.
    pub rows: Option<Vec<Vec<Option<String>>>>,
}

/// A session with a server, which gets a QUIT when it ends.
pub struct Connection {
    /// None once it was handed over.
    transport: Option<Transport>,
    /// The server would read the next packet as a command.
    takes_commands: bool,
    decoder: Decoder,
    received: Box<[u8]>,
    server_version: String,
    limits: Limits,
    /// The received byte at which the current answer ends at the latest.
    answer_end: u64,
}

impl Connection {
    pub(super) fn new(transport: Transport) -> Self {
        Self {
            transport: Some(transport),
            takes_commands: false,
            decoder: Decoder::default(),
            received: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            server_version: String::new(),
            limits: LIMITS,
            answer_end: u64::MAX,
        }
    }

    /// End the login, with the server's version or the reason of the failure. A server that refused
    /// it takes no command, not even a QUIT: some would read that as a request for their key.
    pub(super) fn end_login(
        &mut self,
        outcome: Result<String, ClientError>,
    ) -> Result<(), ClientError> {
        self.takes_commands = outcome.is_ok();
        self.server_version = outcome?;
        self.decoder.expect_results();
        Ok(())
    }

    /// Hand the stream over to somebody who reads and write it without waiting.
    pub fn into_channel(mut self) -> Result<Channel, ClientError> {
        if self.decoder.is_incomplete() {
            return Err(unexpected("bytes that belong to no answer follow the last one"));
        }
        let transport = self.transport.take();
        Ok(transport.expect(HANDED_OVER).into_channel())
    }

    /// Give the server up when it is silent for so long; None for never.
    pub fn set_idle_timeout(&mut self, idle_timeout: Option<Duration>) {
        self.transport_mut().set_idle_timeout(idle_timeout);
    }

    pub fn server_version(&self) -> &str {
        &self.server_version
    }

    pub fn bytes_sent(&self) -> u64 {
        self.transport().bytes_sent()
    }

    pub fn bytes_received(&self) -> u64 {
        self.transport().bytes_received()
    }

    /// Run a statement.
    pub fn query(&mut self, sql: &str, deadline: &Deadline) -> Result<Outcome, ClientError> {
        self.send_command(COM_QUERY, sql.as_bytes(), deadline)?;
        self.results(Rows::Text, deadline)
    }

    /// Ask the server for nothing but an answer.
    pub fn ping(&mut self, deadline: &Deadline) -> Result<(), ClientError> {
        self.send_command(COM_PING, b"", deadline)?;
        self.results(Rows::Text, deadline).map(drop)
    }

    /// Send a byte and its text as a command; the answer is due next.
    pub(super) fn send_command(
        &mut self,
        command: u8,
        text: &[u8],
        deadline: &Deadline,
    ) -> Result<(), ClientError> {
        self.decoder.expect(0);
        self.send(&[&[command], text].concat(), deadline)
    }

    /// Send a command that is a whole packet already.
    pub(super) fn send_packet(
        &mut self,
        packet: &[u8],
        deadline: &Deadline,
    ) -> Result<(), ClientError> {
        self.transmit(&mut [IoSlice::new(packet)], deadline)?;
        self.decoder.expect(1);
        Ok(())
    }

    /// Go over to TLS, after the server was asked to.
    pub(super) fn start_tls(
        &mut self,
        tls: &Tls,
        address: &Address,
        deadline: &Deadline,
    ) -> Result<(), ClientError> {
        if self.decoder.is_incomplete() {
            return Err(unexpected("words in clear before TLS began"));
        }
        self.transport_mut().start_tls(tls, address, deadline)
    }

    /// True where nobody else can read what is sent.
    pub(super) fn is_private(&self) -> bool {
        self.transport().is_private()
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport().as_fd()
    }

    pub(super) fn send(&mut self, message: &[u8], deadline: &Deadline) -> Result<(), ClientError> {
        let mut bytes = Vec::with_capacity(message.len() + packet::HEADER);
        let next = packet::put_message(&mut bytes, message, self.decoder.sequence());
        self.transmit(&mut [IoSlice::new(&bytes)], deadline)?;
        self.decoder.expect(next);
        Ok(())
    }

    /// Send whole packets; where that fails, the server may have got a part of one.
    fn transmit(
        &mut self,
        pieces: &mut [IoSlice<'_>],
        deadline: &Deadline,
    ) -> Result<(), ClientError> {
        self.takes_commands = false;
        self.transport_mut().send(pieces, deadline)?;
        self.takes_commands = true;
        Ok(())
    }

    fn transport(&self) -> &Transport {
        self.transport.as_ref().expect(HANDED_OVER)
    }

    fn transport_mut(&mut self) -> &mut Transport {
        self.transport.as_mut().expect(HANDED_OVER)
    }

    /// Receive a message of an answer that may be as large as its limit.
    fn receive_of_answer(&mut self, deadline: &Deadline) -> Result<Vec<u8>, ClientError> {
        let message = self.receive(deadline)?;
        if self.bytes_received() > self.answer_end {
            let (what, limit) = ("results", self.limits.answer);
            return Err(ProtocolError::TooMuch { what, limit }.into());
        }
        Ok(message)
    }

    pub(super) fn receive(&mut self, deadline: &Deadline) -> Result<Vec<u8>, ClientError> {
        loop {
            if let Some(message) = self.decoder.next_message()? {
                return Ok(message);
            }
            let transport = self.transport.as_mut().expect(HANDED_OVER);
            let count = transport.receive(&mut self.received, deadline)?;
            if count == 0 {
                let when = if self.decoder.is_incomplete() {
                    "it closed it in the middle of a packet"
                } else {
                    "it closed it"
                };
                return Err(lost(io::Error::new(ErrorKind::UnexpectedEof, when)));
            }
            self.decoder.feed(&self.received[..count]);
        }
    }
}

impl Drop for Connection {
    /// Say goodbye, else the server would count an aborted connection. It is not waited for: a
    /// server that does not listen need not hear it.
    fn drop(&mut self) {
        if let Some(transport) = self.transport.take()
            && self.takes_commands
        {
            let _ = transport.into_channel().write(Mysql::QUIT);
        }
    }
}

/// Refuse what has grown beyond `limit`.
fn within(limit: usize, bytes: usize, what: &'static str) -> Result<(), ProtocolError> {
    if bytes <= limit {
        return Ok(());
    }
    let limit = limit as u64;
    Err(ProtocolError::TooMuch { what, limit })
}

fn unexpected(what: &str) -> ClientError {
    ProtocolError::unexpected(what).into()
}

#[cfg(test)]
mod tests;
