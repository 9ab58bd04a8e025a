//! One connection: log in, run statements, send a local file.

use std::io::{self, ErrorKind, IoSlice};
use std::time::Duration;

use super::address::Address;
use super::answer::Mysql;
use super::binary::COM_QUERY;
use super::channel::Channel;
use super::deadline::Deadline;
use super::packet::{self, Decoder};
use super::reply::{self, Done, ERROR, Reply};
use super::tls::Tls;
use super::transport::{Transport, lost};
use super::values::{Column, parse_binary_row};
use crate::script::{Row, RowFormat};
use crate::{ClientError, Protocol as _, ProtocolError, ServerError, Session as _};

const COM_PING: u8 = 14;

/// The number of rows of a result that are kept; further rows are read and dropped.
const KEPT_ROWS: usize = 100;

/// The size limits in bytes for the answer to a statement.
#[derive(Clone, Copy)]
struct Limits {
    /// Definitions of a result's columns.
    definitions: usize,
    /// Kept rows, as they are stored in memory.
    kept_rows: usize,
    /// The whole answer on the wire, with all its results and dropped rows.
    answer: u64,
}

/// Far above the answers of real servers: 4096 columns of some hundred bytes, and two of the
/// longest rows.
const LIMITS: Limits = Limits { definitions: 16 << 20, kept_rows: 128 << 20, answer: 16 << 30 };

/// The size of a read from the socket.
const RECEIVE_BYTES: usize = 64 << 10;

/// The payload of a packet of a local file. Servers accept up to 1 MB; 16 kB to 256 kB are equally
/// fast.
const FILE_PACKET: usize = 64 << 10;

/// The length of the last packet of a part. Servers read it before they process its rows, and do
/// not acknowledge it.
const LAST_PACKET: usize = 1 << 10;

/// The panic message for the use of a connection whose stream was handed over.
const HANDED_OVER: &str = "nobody has a connection that was handed over";

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub affected_rows: u64,
    pub warnings: u16,
    /// The first rows of the last result set; None if the last result has no rows.
    pub rows: Option<Vec<Row>>,
}

/// A file that exists only while it is sent.
pub trait LocalData {
    /// Return the next bytes; None at the end. They are sent before the next call.
    fn next_bytes(&mut self) -> Option<&[u8]>;
}

/// A session with a server; sends QUIT when dropped.
pub struct Connection {
    /// None after the stream was handed over.
    transport: Option<Transport>,
    /// True if the server would interpret the next packet as a command.
    takes_commands: bool,
    decoder: Decoder,
    received: Box<[u8]>,
    server_version: String,
    limits: Limits,
    /// The maximum of `bytes_received` at the end of the current answer.
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

    /// End the login with the server's version or the reason of the failure. After a failed login
    /// nothing may be sent, not even QUIT: some servers would interpret it as a request for their
    /// key.
    pub(super) fn end_login(
        &mut self,
        outcome: Result<String, ClientError>,
    ) -> Result<(), ClientError> {
        self.takes_commands = outcome.is_ok();
        self.server_version = outcome?;
        self.decoder.expect_results();
        Ok(())
    }

    /// Return the stream for non-blocking use by somebody else.
    pub fn into_channel(mut self) -> Result<Channel, ClientError> {
        if self.decoder.is_incomplete() {
            return Err(unexpected("bytes that belong to no answer follow the last one"));
        }
        let transport = self.transport.take();
        Ok(transport.expect(HANDED_OVER).channel)
    }

    /// Set how long the server may be silent before the connection is given up; None for no limit.
    pub fn set_idle_timeout(&mut self, idle_timeout: Option<Duration>) {
        self.transport_mut().idle_timeout = idle_timeout;
    }

    pub fn server_version(&self) -> &str {
        &self.server_version
    }

    pub fn bytes_sent(&self) -> u64 {
        self.transport().bytes_sent
    }

    pub fn bytes_received(&self) -> u64 {
        self.transport().bytes_received
    }

    pub fn query(&mut self, sql: &str, deadline: &Deadline) -> Result<Outcome, ClientError> {
        self.send_command(COM_QUERY, sql.as_bytes(), deadline)?;
        self.results(RowFormat::Text, deadline)
    }

    /// Send `COM_PING` and wait for the answer.
    pub fn ping(&mut self, deadline: &Deadline) -> Result<(), ClientError> {
        self.send_command(COM_PING, b"", deadline)?;
        self.results(RowFormat::Text, deadline).map(drop)
    }

    /// Send a command byte and its text; the answer follows.
    pub(super) fn send_command(
        &mut self,
        command: u8,
        text: &[u8],
        deadline: &Deadline,
    ) -> Result<(), ClientError> {
        self.decoder.expect(0);
        self.send(&[&[command], text].concat(), deadline)
    }

    /// Send a command that is already a whole packet.
    pub(super) fn send_packet(
        &mut self,
        packet: &[u8],
        deadline: &Deadline,
    ) -> Result<(), ClientError> {
        self.transmit(&mut [IoSlice::new(packet)], deadline)?;
        self.decoder.expect(1);
        Ok(())
    }

    /// Switch to TLS, after the request for it was sent.
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

    pub(super) fn channel(&self) -> &Channel {
        &self.transport().channel
    }

    pub(super) fn send(&mut self, message: &[u8], deadline: &Deadline) -> Result<(), ClientError> {
        let mut bytes = Vec::with_capacity(message.len() + packet::HEADER);
        let next = packet::put_message(&mut bytes, message, self.decoder.sequence());
        self.transmit(&mut [IoSlice::new(&bytes)], deadline)?;
        self.decoder.expect(next);
        Ok(())
    }

    /// Send whole packets. After an error, the server may have received part of a packet.
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

    /// Receive a message of an answer, as large as the answer's limit allows.
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
                let cut = self.decoder.is_incomplete();
                let when =
                    if cut { "it closed it in the middle of a packet" } else { "it closed it" };
                return Err(lost(io::Error::new(ErrorKind::UnexpectedEof, when)));
            }
            self.decoder.feed(&self.received[..count]);
        }
    }

    /// Read all results of a statement; the last result counts.
    pub(super) fn results(
        &mut self,
        format: RowFormat,
        deadline: &Deadline,
    ) -> Result<Outcome, ClientError> {
        let mut outcome = Outcome::default();
        self.answer_end = self.bytes_received() + self.limits.answer;
        loop {
            let done = match reply::parse_reply(&self.receive_of_answer(deadline)?)?? {
                Reply::Done(done) => done,
                Reply::Columns(columns) => {
                    let definitions = self.columns(columns.get(), deadline)?;
                    let (rows, done) = self.rows(&definitions, format, deadline)?;
                    outcome.rows = Some(rows);
                    done
                }
                Reply::LocalFile(name) => {
                    // This client never sends a file of this host: send an empty file, and fail.
                    self.send(&[], deadline)?;
                    let name = String::from_utf8_lossy(&name).into_owned();
                    return Err(unexpected(&format!("a request for the local file {name:?}")));
                }
            };
            outcome.affected_rows = done.affected_rows;
            outcome.warnings = done.warnings;
            if !done.more_results {
                return Ok(outcome);
            }
        }
    }

    /// Receive column definitions and their end marker.
    pub(super) fn columns(
        &mut self,
        count: u16,
        deadline: &Deadline,
    ) -> Result<Vec<Vec<u8>>, ClientError> {
        let mut columns = Vec::new();
        let mut bytes = 0;
        for _ in 0..count {
            let message = self.receive(deadline)?;
            if reply::parse_end(&message)??.is_some() {
                let got = columns.len();
                return Err(unexpected(&format!("{got} columns where {count} were due")));
            }
            bytes += message.len() + size_of::<Vec<u8>>();
            within(self.limits.definitions, bytes, "column definitions")?;
            columns.push(message);
        }
        reply::parse_end(&self.receive(deadline)?)??
            .ok_or_else(|| unexpected(&format!("a column after the {count} that were due")))?;
        Ok(columns)
    }

    fn rows(
        &mut self,
        definitions: &[Vec<u8>],
        format: RowFormat,
        deadline: &Deadline,
    ) -> Result<(Vec<Row>, Done), ClientError> {
        let columns: Vec<Column> = match format {
            RowFormat::Text => Vec::new(), // text rows need no column types
            RowFormat::Binary => {
                definitions.iter().map(|each| Column::parse(each)).collect::<Result<_, _>>()?
            }
        };
        let mut kept = Vec::new();
        let mut bytes = 0;
        let row_bytes = definitions.len() * size_of::<Option<String>>();
        loop {
            let message = self.receive_of_answer(deadline)?;
            if let Some(done) = reply::parse_end(&message)?? {
                return Ok((kept, done));
            }
            if kept.len() < KEPT_ROWS {
                bytes += message.len() + row_bytes;
                within(self.limits.kept_rows, bytes, "rows to keep")?;
                kept.push(match format {
                    RowFormat::Text => reply::parse_text_row(&message, definitions.len())?,
                    RowFormat::Binary => parse_binary_row(&message, &columns)?,
                });
            }
        }
    }

    /// Run `LOAD DATA LOCAL INFILE 'name' ...`, and send `data` when the server requests `name`.
    pub fn load_local(
        &mut self,
        sql: &str,
        name: &str,
        data: &mut dyn LocalData,
        deadline: &Deadline,
    ) -> Result<Outcome, ClientError> {
        self.begin_local(sql, name, deadline)?;
        while let Some(bytes) = data.next_bytes() {
            self.send_packets(bytes, deadline)?;
        }
        self.end_local(deadline)
    }

    /// Run `LOAD DATA LOCAL INFILE 'name' ...` until the server requests `name`.
    pub fn begin_local(
        &mut self,
        sql: &str,
        name: &str,
        deadline: &Deadline,
    ) -> Result<(), ClientError> {
        self.send_command(COM_QUERY, sql.as_bytes(), deadline)?;
        match reply::parse_reply(&self.receive(deadline)?)?? {
            Reply::LocalFile(asked) if asked == name.as_bytes() => Ok(()),
            other => {
                self.takes_commands = false; // it may be waiting for another file
                Err(unexpected(&format!("{other:?} where the file {name:?} was to be asked for")))
            }
        }
    }

    /// Send a part of the file, and over a Unix socket wait until the server has read nearly all of
    /// it.
    pub fn send_local_part(
        &mut self,
        bytes: &[u8],
        deadline: &Deadline,
    ) -> Result<(), ClientError> {
        let (begin, end) = bytes.split_at(bytes.len().saturating_sub(LAST_PACKET));
        self.send_packets(begin, deadline)?;
        self.send_packets(end, deadline)?;
        if self.transport_mut().wait_until_read(deadline)? {
            return Ok(());
        }
        self.takes_commands = false;
        let message = self.receive(deadline)?;
        Err(match reply::parse_error(&message) {
            Ok(error) if message.first() == Some(&ERROR) => error.into(),
            _ => unexpected("an answer before the local file was over"),
        })
    }

    /// End the file and return the outcome of the statement.
    pub fn end_local(&mut self, deadline: &Deadline) -> Result<Outcome, ClientError> {
        self.send(&[], deadline)?; // an empty packet ends the file
        self.results(RowFormat::Text, deadline)
    }

    /// Send bytes as packets of a local file, without copying.
    fn send_packets(&mut self, bytes: &[u8], deadline: &Deadline) -> Result<(), ClientError> {
        let mut sequence = self.decoder.sequence();
        let parts = bytes.chunks(FILE_PACKET);
        let header = |part: &[u8]| {
            let header = packet::header(part.len(), sequence);
            sequence = sequence.wrapping_add(1);
            header
        };
        let headers: Vec<[u8; packet::HEADER]> = parts.clone().map(header).collect();
        let pieces = headers.iter().zip(parts);
        let pieces = pieces.flat_map(|(header, part)| [IoSlice::new(header), IoSlice::new(part)]);
        let mut pieces: Vec<IoSlice<'_>> = pieces.collect();
        self.decoder.expect(sequence);
        match self.transmit(&mut pieces, deadline) {
            Err(error @ ClientError::Connection { .. }) => {
                Err(self.error_before_close(deadline).unwrap_or(error))
            }
            outcome => outcome,
        }
    }

    /// Return the error that a server sent before it closed the connection during our write.
    fn error_before_close(&mut self, deadline: &Deadline) -> Option<ClientError> {
        let message = self.receive(deadline).ok()?;
        let error: ServerError = reply::parse_error(&message).ok()?;
        (message.first() == Some(&ERROR)).then(|| error.into())
    }
}

impl Drop for Connection {
    /// Send QUIT without waiting, because the server would otherwise count an aborted connection.
    fn drop(&mut self) {
        if let Some(mut transport) = self.transport.take()
            && self.takes_commands
        {
            let _ = transport.channel.write(Mysql::QUIT);
        }
    }
}

/// Return an error if `bytes` is above `limit`.
fn within(limit: usize, bytes: usize, what: &'static str) -> Result<(), ProtocolError> {
    if bytes <= limit {
        return Ok(());
    }
    Err(ProtocolError::TooMuch { what, limit: limit as u64 })
}

pub(super) fn unexpected(what: &str) -> ClientError {
    ProtocolError::unexpected(what).into()
}

#[cfg(test)]
mod tests;
