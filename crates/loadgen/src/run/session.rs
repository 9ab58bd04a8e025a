//! Sessions with the server: the one that phases share, and those of clients and loaders.

use std::iter;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use protocol::ClientError;
use protocol::mysql::{Connection, Deadline, Login};

/// Logging in and setting the session up take no longer than this.
const LOGIN_LIMIT: Duration = Duration::from_secs(10);

/// The limit of opening a further connection and preparing it for its work.
pub const OPENING_LIMIT: Duration = Duration::from_secs(60);

/// The session with each server that phases share, opened when it is needed.
pub struct Session {
    /// By the side.
    logins: Vec<Login>,
    statements: Vec<String>,
    idle_timeout: Option<Duration>,
    /// By the side, too.
    connections: Vec<Option<Connection>>,
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
        let connections = iter::repeat_with(|| None).take(1 + against.len()).collect();
        Self {
            logins: iter::once(login).chain(against).collect(),
            statements,
            idle_timeout,
            connections,
            bytes_sent: 0,
            bytes_received: 0,
        }
    }

    /// Return the number of servers.
    pub fn sides(&self) -> u32 {
        u32::try_from(self.logins.len()).expect("there are few of them")
    }

    /// Return the connection of a side that phases share; an error comes with the name of what failed.
    pub fn connection(
        &mut self,
        side: u32,
        stop: &Arc<AtomicBool>,
    ) -> Result<&mut Connection, (&'static str, ClientError)> {
        let index = side as usize;
        let connection = match self.connections[index].take() {
            Some(connection) => connection,
            None => self
                .open(&self.logins[index], &Deadline::start(stop, Some(LOGIN_LIMIT)))
                .map_err(|(phase, error)| (phase, self.of_side(side, error)))?,
        };
        Ok(self.connections[index].insert(connection))
    }

    /// Open a further connection to a side, with a session like the shared one.
    pub fn open_on(&self, side: u32, deadline: &Deadline) -> Result<Connection, ClientError> {
        self.open(&self.logins[side as usize], deadline).map_err(|(_, error)| error)
    }

    /// Name the side with an error, where there are several.
    pub fn of_side(&self, side: u32, error: ClientError) -> ClientError {
        if self.sides() == 1 { error } else { error.of_side(side) }
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

    /// Close the shared connections.
    pub fn close(&mut self) {
        for connection in self.connections.iter_mut().filter_map(Option::take) {
            self.bytes_sent += connection.bytes_sent();
            self.bytes_received += connection.bytes_received();
        }
    }

    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent + self.open_connections().map(Connection::bytes_sent).sum::<u64>()
    }

    pub fn bytes_received(&self) -> u64 {
        self.bytes_received + self.open_connections().map(Connection::bytes_received).sum::<u64>()
    }

    fn open_connections(&self) -> impl Iterator<Item = &Connection> {
        self.connections.iter().flatten()
    }
}
