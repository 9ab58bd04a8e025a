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
        // The code and the server's own message do not say which table they are about.
        let message = match (self, server, side) {
            (Self::Client(_), Some(server), Some(side)) => {
                format!("side {side}: {}", server.message)
            }
            (Self::Client(_), Some(server), None) => server.message.clone(),
            _ => self.to_string(),
        };
        Event::Error {
            phase,
            kind: client.map_or("mismatch", ClientError::kind),
            code: server.map(|server| server.code),
            sqlstate: server.map(|server| server.sqlstate.as_str()),
            side,
            message,
        }
    }
}
