//! The failures that can end a run, and their events.

use thiserror::Error;

use crate::events::Event;
use crate::tables::TableError;
use protocol::ClientError;

/// Why a phase could not go on.
#[derive(Debug, Error)]
pub enum Failure {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Table(#[from] TableError),
}

impl Failure {
    /// Return the failure of the server or the connection, whichever side it is of; None where both
    /// worked.
    pub fn client(&self) -> Option<&ClientError> {
        match self {
            Self::Client(error) | Self::Table(TableError::Client { source: error, .. }) => {
                Some(error.root())
            }
            Self::Table(TableError::Mismatch { .. }) => None,
        }
    }

    pub fn is_interruption(&self) -> bool {
        matches!(self.client(), Some(ClientError::Interrupted))
    }

    /// Return the event of a failure in `phase`.
    pub fn event<'a>(&'a self, phase: &'a str) -> Event<'a> {
        let client = self.client();
        let server = match client {
            Some(ClientError::Server(server)) => Some(server),
            _ => None,
        };
        let side = match self {
            Self::Client(ClientError::OfSide { side, .. }) => Some(*side),
            _ => None,
        };
        let message = match server {
            // Code and statement have keys of their own.
            Some(server) => format!("{}{}", self.place(side), server.message),
            None => self.to_string(),
        };
        Event::Error {
            phase,
            kind: client.map_or("mismatch", ClientError::kind),
            code: server.map(|server| server.code.to_string()),
            sqlstate: server.map(|server| server.sqlstate.as_str()),
            side,
            statement: self.statement(),
            message,
        }
    }

    /// Return the statement that a server refused, where it is known.
    fn statement(&self) -> Option<&str> {
        match self {
            Self::Client(error) | Self::Table(TableError::Client { source: error, .. }) => {
                error.statement()
            }
            Self::Table(TableError::Mismatch { .. }) => None,
        }
    }

    /// Return the beginning of a message of a server: the table or the side that it is about.
    fn place(&self, side: Option<u32>) -> String {
        match (self, side) {
            (Self::Table(TableError::Client { table, .. }), _) => {
                format!("table {table}: the server refused: ")
            }
            (_, Some(side)) => format!("side {side}: "),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::ServerError;

    fn deadlock() -> ClientError {
        ClientError::Server(ServerError {
            code: 1213,
            sqlstate: "40001".to_owned(),
            message: "Deadlock found".to_owned(),
        })
    }

    fn event(failure: &Failure) -> serde_json::Value {
        serde_json::to_value(failure.event("load")).unwrap()
    }

    #[test]
    fn event_has_the_code_of_a_table_once() {
        let source = deadlock().in_statement("CREATE TABLE child (id INT)");
        let failure = Failure::Table(TableError::Client { table: "child".to_owned(), source });
        let event = event(&failure);
        assert_eq!(event["message"], "table child: the server refused: Deadlock found");
        assert_eq!(event["code"], "1213");
        assert_eq!(event["statement"], "CREATE TABLE child (id INT)");
    }

    #[test]
    fn event_names_side_and_statement() {
        let event = event(&Failure::Client(deadlock().in_statement("SELECT 1").of_side(1)));
        assert_eq!(event["message"], "side 1: Deadlock found");
        assert_eq!((&event["side"], &event["statement"]), (&1.into(), &"SELECT 1".into()));
    }

    #[test]
    fn event_of_the_host_has_no_statement() {
        let event = event(&Failure::Client(ClientError::Interrupted));
        assert_eq!(event["message"], "interrupted");
        assert!(event.get("statement").is_none());
    }
}
