//! Sessions with the server: the one that phases share, and those of clients and loaders.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use protocol::ClientError;
use protocol::mysql::{Connection, Deadline, Login};

/// Logging in and setting the session up take no longer than this.
const LOGIN_LIMIT: Duration = Duration::from_secs(10);

/// The limit of opening a further connection and preparing it for its work.
pub const OPENING_LIMIT: Duration = Duration::from_secs(60);

/// The session that phases share, opened when it is needed.
pub struct Session {
    login: Login,
    /// Of the other servers that clients are driven on.
    against: Vec<Login>,
    statements: Vec<String>,
    idle_timeout: Option<Duration>,
    connection: Option<Connection>,
    /// Of connections that are closed.
    bytes_sent: u64,
    bytes_received: u64,
}

impl Session {
    pub fn new(
        login: Login,
        against: Vec<Login>,
        statements: Vec<String>,
        idle_timeout: Option<Duration>,
    ) -> Self {
        Self {
            login,
            against,
            statements,
            idle_timeout,
            connection: None,
            bytes_sent: 0,
            bytes_received: 0,
        }
    }

    /// Return the shared connection; an error comes with the name of what failed.
    pub fn connection(
        &mut self,
        stop: &Arc<AtomicBool>,
    ) -> Result<&mut Connection, (&'static str, ClientError)> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self
                .open(&self.login, &Deadline::start(stop, Some(LOGIN_LIMIT)))
                .map_err(|(phase, error)| (phase, self.of_side(0, error)))?,
        };
        Ok(self.connection.insert(connection))
    }

    /// Open a further connection with a session like the shared one.
    pub fn open_another(&self, deadline: &Deadline) -> Result<Connection, ClientError> {
        self.open(&self.login, deadline).map_err(|(_, error)| error)
    }

    /// Open the same on the server of a side.
    pub fn open_on(&self, side: u32, deadline: &Deadline) -> Result<Connection, ClientError> {
        let login = side.checked_sub(1).map_or(&self.login, |index| &self.against[index as usize]);
        self.open(login, deadline).map_err(|(_, error)| error)
    }

    /// Name the side with an error, where there are several.
    pub fn of_side(&self, side: u32, error: ClientError) -> ClientError {
        if self.against.is_empty() { error } else { error.of_side(side) }
    }

    fn open(
        &self,
        login: &Login,
        deadline: &Deadline,
    ) -> Result<Connection, (&'static str, ClientError)> {
        let opening =
            self.idle_timeout.map_or_else(|| deadline.clone(), |limit| deadline.within(limit));
        let mut connection =
            Connection::open(login, &opening).map_err(|error| ("connect", error))?;
        connection.set_idle_timeout(self.idle_timeout);
        for sql in &self.statements {
            connection.query(sql, deadline).map_err(|error| ("session", error))?;
        }
        Ok(connection)
    }

    /// Close the shared connection.
    pub fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.bytes_sent += connection.bytes_sent();
            self.bytes_received += connection.bytes_received();
        }
    }

    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent + self.connection.as_ref().map_or(0, Connection::bytes_sent)
    }

    pub fn bytes_received(&self) -> u64 {
        self.bytes_received + self.connection.as_ref().map_or(0, Connection::bytes_received)
    }
}
