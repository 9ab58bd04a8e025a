//! A local file, which a server asks for and which exists only while it is sent.

use std::io::IoSlice;

use super::{Connection, Deadline, Outcome, Rows, unexpected};
use crate::mysql::packet;
use crate::mysql::reply::{self, ERROR, Reply};
use crate::{ClientError, ServerError};

/// The payload of a packet of a local file. Servers take any size up to `max_allowed_packet` (1 MB
/// on the oldest); there was no measurable difference from 16 kB to 256 kB.
const FILE_PACKET: usize = 64 << 10;

/// The last packet of a part that is waited for: a server reads a packet before it works on its rows,
/// and that work is not seen from here.
const LAST_PACKET: usize = 1 << 10;

/// A file that exists only while it is sent.
pub trait LocalData {
    /// Return the next bytes, none at the end. They are sent before the next call.
    fn next_bytes(&mut self) -> Option<&[u8]>;
}

impl Connection {
    /// Run `LOAD DATA LOCAL INFILE 'name' ...` and send `data` when the server asks for `name`.
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

    /// Run `LOAD DATA LOCAL INFILE 'name' ...` up to where the server asks for `name`.
    pub fn begin_local(
        &mut self,
        sql: &str,
        name: &str,
        deadline: &Deadline,
    ) -> Result<(), ClientError> {
        self.send_command(super::COM_QUERY, sql.as_bytes(), deadline)?;
        match reply::parse_reply(&self.receive(deadline)?)?? {
            Reply::LocalFile(asked) if asked == name.as_bytes() => Ok(()),
            other => {
                self.takes_commands = false; // it may wait for another file
                Err(unexpected(&format!("{other:?} where the file {name:?} was to be asked for")))
            }
        }
    }

    /// Send a part of the file and wait until the server has read it, but for about a kilobyte that
    /// it may still work on. Only a Unix socket shows what the server has read.
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
        self.results(Rows::Text, deadline)
    }

    /// Send bytes as packets of a local file without copying them.
    fn send_packets(&mut self, bytes: &[u8], deadline: &Deadline) -> Result<(), ClientError> {
        let mut sequence = self.decoder.sequence();
        let headers: Vec<[u8; packet::HEADER]> = bytes
            .chunks(FILE_PACKET)
            .map(|part| {
                let header = packet::header(part.len(), sequence);
                sequence = sequence.wrapping_add(1);
                header
            })
            .collect();
        let mut pieces: Vec<IoSlice<'_>> = headers
            .iter()
            .zip(bytes.chunks(FILE_PACKET))
            .flat_map(|(header, part)| [IoSlice::new(header), IoSlice::new(part)])
            .collect();
        self.decoder.expect(sequence);
        match self.transmit(&mut pieces, deadline) {
            Err(ClientError::Connection { context, source }) => Err(self
                .error_before_close(deadline)
                .unwrap_or(ClientError::Connection { context, source })),
            outcome => outcome,
        }
    }

    /// Return the error that a server sent before it closed the connection while we were sending.
    fn error_before_close(&mut self, deadline: &Deadline) -> Option<ClientError> {
        let message = self.receive(deadline).ok()?;
        let error: ServerError = reply::parse_error(&message).ok()?;
        (message.first() == Some(&ERROR)).then(|| error.into())
    }
}
