//! One connection: log in, ask, send a local file.

use std::io::{self, ErrorKind, IoSlice};

use super::auth::{self, Plugin};
use super::error::{ClientError, ProtocolError, ServerError};
use super::handshake::Greeting;
use super::packet::{self, Decoder};
use super::reply::{self, Done, Reply, Row};
use super::transport::{Address, Transport, Watch, lost};
use super::wire::Reader;

const COM_QUERY: u8 = 3;

/// A server's first byte while a login goes on.
const AUTH_MORE_DATA: u8 = 0x01;
const AUTH_SWITCH: u8 = 0xfe;
const OK: u8 = 0x00;
const ERROR: u8 = 0xff;

/// `caching_sha2_password`: the proof was enough, the password itself is wanted, and our request
/// for the key to encrypt it with.
const PROOF_ACCEPTED: &[u8] = &[3];
const PASSWORD_WANTED: &[u8] = &[4];
const REQUEST_PUBLIC_KEY: &[u8] = &[2];

/// Rows of a result that are kept; what follows is read and forgotten.
const KEPT_ROWS: usize = 100;

/// Bytes asked of the socket at once.
const RECEIVE_BYTES: usize = 64 << 10;

/// The payload of a packet of a local file. Servers take any size up to `max_allowed_packet` (1 MB
/// on the oldest); from 16 kB to 256 kB no difference could be told.
const FILE_PACKET: usize = 64 << 10;

/// What a statement gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub affected_rows: u64,
    pub warnings: u16,
    /// The first rows of its last result set, None where it gave no rows.
    pub rows: Option<Vec<Vec<Option<String>>>>,
}

/// A file that exists only while it is sent.
pub trait LocalData {
    /// The next bytes, none at the end. They are sent before the next call.
    fn next_bytes(&mut self) -> Option<&[u8]>;
}

/// A session with a server.
pub struct Connection {
    transport: Transport,
    decoder: Decoder,
    received: Box<[u8]>,
    server_version: String,
}

impl Connection {
    /// Connects and logs in.
    pub fn open(
        address: &Address,
        user: &str,
        password: &str,
        database: Option<&str>,
        watch: &Watch,
    ) -> Result<Self, ClientError> {
        let mut connection = Self {
            transport: Transport::connect(address, watch)?,
            decoder: Decoder::default(),
            received: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            server_version: String::new(),
        };
        let first = connection.receive(watch)?;
        if first.first() == Some(&ERROR) {
            return Err(reply::parse_error(&first)?.into());
        }
        let greeting = Greeting::parse(&first)?;
        // An unknown plugin is only the server's default; the account's own comes with a switch.
        let plugin = Plugin::by_name(&greeting.plugin).unwrap_or(Plugin::Native);
        let proof = plugin.proof(password.as_bytes(), &greeting.nonce);
        connection.send(
            &greeting.answer(user, database, plugin.name(), &proof),
            watch,
        )?;
        connection.log_in(plugin, password.as_bytes(), greeting.nonce, watch)?;
        connection.server_version = greeting.server_version;
        Ok(connection)
    }

    pub fn server_version(&self) -> &str {
        &self.server_version
    }

    pub fn bytes_sent(&self) -> u64 {
        self.transport.bytes_sent()
    }

    pub fn bytes_received(&self) -> u64 {
        self.transport.bytes_received()
    }

    /// Runs a statement.
    pub fn query(&mut self, sql: &str, watch: &Watch) -> Result<Outcome, ClientError> {
        self.command(sql, watch)?;
        self.results(watch)
    }

    /// Runs `LOAD DATA LOCAL INFILE 'name' ...` and sends `data` when the server asks for `name`.
    pub fn load_local(
        &mut self,
        sql: &str,
        name: &str,
        data: &mut dyn LocalData,
        watch: &Watch,
    ) -> Result<Outcome, ClientError> {
        self.command(sql, watch)?;
        match reply::parse_reply(&self.receive(watch)?)?? {
            Reply::LocalFile(asked) if asked == name.as_bytes() => {}
            other => {
                return Err(unexpected(format!(
                    "{other:?} where the file {name:?} was to be asked for"
                )));
            }
        }
        while let Some(bytes) = data.next_bytes() {
            self.send_file_part(bytes, watch)?;
        }
        self.send(&[], watch)?; // an empty packet ends the file
        self.results(watch)
    }

    fn command(&mut self, sql: &str, watch: &Watch) -> Result<(), ClientError> {
        self.decoder.expect(0);
        self.send(&[&[COM_QUERY], sql.as_bytes()].concat(), watch)
    }

    fn log_in(
        &mut self,
        mut plugin: Plugin,
        password: &[u8],
        mut nonce: Vec<u8>,
        watch: &Watch,
    ) -> Result<(), ClientError> {
        loop {
            let message = self.receive(watch)?;
            match message.split_first() {
                Some((&OK, _)) => return Ok(()),
                Some((&ERROR, _)) => return Err(reply::parse_error(&message)?.into()),
                Some((&AUTH_SWITCH, data)) => {
                    (plugin, nonce) = parse_auth_switch(data)?;
                    let proof = plugin.proof(password, &nonce);
                    self.send(&proof, watch)?;
                }
                Some((&AUTH_MORE_DATA, PROOF_ACCEPTED)) => {}
                Some((&AUTH_MORE_DATA, PASSWORD_WANTED)) if plugin == Plugin::CachingSha2 => {
                    self.send_password(password, &nonce, watch)?;
                }
                other => return Err(unexpected(format!("{other:?} during the login"))),
            }
        }
    }

    /// The full exchange of `caching_sha2_password`, for an account the server has not cached.
    fn send_password(
        &mut self,
        password: &[u8],
        nonce: &[u8],
        watch: &Watch,
    ) -> Result<(), ClientError> {
        if self.transport.is_private() {
            return self.send(&auth::with_zero(password), watch);
        }
        self.send(REQUEST_PUBLIC_KEY, watch)?;
        let message = self.receive(watch)?;
        match message.split_first() {
            Some((&AUTH_MORE_DATA, key)) => {
                let encrypted = auth::encrypted_password(password, nonce, key)?;
                self.send(&encrypted, watch)
            }
            Some((&ERROR, _)) => Err(reply::parse_error(&message)?.into()),
            other => Err(unexpected(format!("{other:?} where a public key was due"))),
        }
    }

    /// Reads everything a statement gives; the last result counts.
    fn results(&mut self, watch: &Watch) -> Result<Outcome, ClientError> {
        let mut outcome = Outcome::default();
        loop {
            let done = match reply::parse_reply(&self.receive(watch)?)?? {
                Reply::Done(done) => done,
                Reply::Columns(columns) => {
                    let (rows, done) = self.rows(columns, watch)?;
                    outcome.rows = Some(rows);
                    done
                }
                Reply::LocalFile(name) => {
                    // No file is ever read from this host: say that it is empty, and fail.
                    self.send(&[], watch)?;
                    let name = String::from_utf8_lossy(&name).into_owned();
                    return Err(unexpected(format!("a request for the local file {name:?}")));
                }
            };
            outcome.affected_rows = done.affected_rows;
            outcome.warnings = done.warnings;
            if !done.more_results {
                return Ok(outcome);
            }
        }
    }

    #[allow(clippy::type_complexity)] // rows of values, and how they ended
    fn rows(
        &mut self,
        columns: u64,
        watch: &Watch,
    ) -> Result<(Vec<Vec<Option<String>>>, Done), ClientError> {
        while !reply::is_eof(&self.receive(watch)?) {} // column definitions
        let mut kept = Vec::new();
        loop {
            match reply::parse_row(&self.receive(watch)?, columns)?? {
                Row::Values(values) if kept.len() < KEPT_ROWS => kept.push(values),
                Row::Values(_) => {}
                Row::End(done) => return Ok((kept, done)),
            }
        }
    }

    fn send(&mut self, message: &[u8], watch: &Watch) -> Result<(), ClientError> {
        let mut bytes = Vec::with_capacity(message.len() + packet::HEADER);
        let next = packet::put_message(&mut bytes, message, self.decoder.sequence());
        self.transport.send(&mut [IoSlice::new(&bytes)], watch)?;
        self.decoder.expect(next);
        Ok(())
    }

    /// Sends bytes as packets of a local file without copying them.
    fn send_file_part(&mut self, bytes: &[u8], watch: &Watch) -> Result<(), ClientError> {
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
        match self.transport.send(&mut pieces, watch) {
            Err(ClientError::Connection { context, source }) => Err(self
                .last_words(watch)
                .unwrap_or(ClientError::Connection { context, source })),
            outcome => outcome,
        }
    }

    /// A server that closed the connection while we sent may have said why before.
    fn last_words(&mut self, watch: &Watch) -> Option<ClientError> {
        let message = self.receive(watch).ok()?;
        let error: ServerError = reply::parse_error(&message).ok()?;
        (message.first() == Some(&ERROR)).then(|| error.into())
    }

    fn receive(&mut self, watch: &Watch) -> Result<Vec<u8>, ClientError> {
        loop {
            if let Some(message) = self.decoder.next_message()? {
                return Ok(message);
            }
            let count = self.transport.receive(&mut self.received, watch)?;
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

/// Reads the server's wish for another plugin: its name and its nonce.
fn parse_auth_switch(data: &[u8]) -> Result<(Plugin, Vec<u8>), ClientError> {
    let mut reader = Reader::new(data);
    let name = if data.is_empty() {
        "mysql_old_password".into()
    } else {
        String::from_utf8_lossy(reader.string_to_zero())
    };
    let plugin = Plugin::by_name(&name).ok_or_else(|| {
        ClientError::Authentication(format!(
            "the account uses {name}, this client knows {} and {}",
            Plugin::Native.name(),
            Plugin::CachingSha2.name()
        ))
    })?;
    let nonce = reader.rest();
    Ok((plugin, nonce.strip_suffix(&[0]).unwrap_or(nonce).to_vec()))
}

fn unexpected(what: String) -> ClientError {
    ProtocolError::Unexpected(what).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_names_plugin_and_nonce() {
        let (plugin, nonce) =
            parse_auth_switch(b"mysql_native_password\0abcdefghijklmnopqrst\0").unwrap();
        assert_eq!(plugin, Plugin::Native);
        assert_eq!(nonce, b"abcdefghijklmnopqrst");
    }

    #[test]
    fn a_switch_to_an_unknown_plugin_says_which() {
        let error = parse_auth_switch(b"client_ed25519\0abc")
            .unwrap_err()
            .to_string();
        assert!(error.contains("client_ed25519"), "{error}");
        let error = parse_auth_switch(b"").unwrap_err().to_string();
        assert!(error.contains("mysql_old_password"), "{error}");
    }
}
