//! The errors of communication with a server.

use std::time::Duration;

use thiserror::Error;

use crate::shown::{beginning, excerpt};

/// The maximum length of a statement quoted in an error.
const STATEMENT_BYTES: usize = 400;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message} (error {code}, SQLSTATE {sqlstate})")]
pub struct ServerError {
    pub code: u16,
    pub sqlstate: String,
    pub message: String,
}

/// A violation of the protocol by the server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    #[error("a packet ends in the middle of its {0}")]
    Truncated(&'static str),
    #[error("packet {got} came where packet {expected} was due")]
    OutOfOrder { expected: u8, got: u8 },
    #[error("a message of more than {limit} bytes came; the largest expected is {limit}")]
    TooLarge { limit: usize },
    #[error("an answer had more than {limit} bytes of {what}")]
    TooMuch { what: &'static str, limit: u64 },
    #[error("{0}")]
    Unexpected(String),
}

impl ProtocolError {
    /// Return the error for an unexpected message. `what` may quote the server, so it is shortened.
    pub fn unexpected(what: &str) -> Self {
        Self::Unexpected(excerpt(what))
    }
}

/// Return the error for an unexpected message; `what` must be short.
#[cold]
pub fn refused<T>(what: impl Into<String>) -> Result<T, ProtocolError> {
    Err(ProtocolError::Unexpected(what.into()))
}

/// The reasons why the work on a connection ended.
#[derive(Debug, Error)]
pub enum ClientError {
    #[error("the server refused: {0}")]
    Server(#[from] ServerError),
    #[error("the server sent something that is not the MySQL protocol: {0}")]
    Protocol(#[from] ProtocolError),
    #[error("{context}: {source}")]
    Connection { context: String, source: std::io::Error },
    /// A failed system call that has nothing to do with the server.
    #[error("{context}: {source}")]
    System { context: String, source: std::io::Error },
    #[error("TLS: {0}")]
    Tls(String),
    #[error("cannot log in: {0}")]
    Authentication(String),
    #[error("the time limit of {} s is over", limit.as_secs_f64())]
    TimeLimit { limit: Duration },
    /// The connections are open, but no bytes arrive.
    #[error("the server left requests unanswered for {} s", limit.as_secs_f64())]
    Silent { limit: Duration },
    /// The workload requires something that the server's answer does not contain.
    #[error("the workload cannot go on: {0}")]
    Workload(String),
    #[error("interrupted")]
    Interrupted,
    /// An error of the server, and the beginning of the statement that caused it.
    #[error("{source}; the statement: {statement}")]
    InStatement { statement: String, source: Box<ClientError> },
    /// An error of one of several servers that are driven together; `side` is the server's index.
    #[error("side {side}: {source}")]
    OfSide { side: u32, source: Box<ClientError> },
}

impl ClientError {
    /// Return the kind of error as one word, for programs that read the events.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Server(_) => "server",
            Self::Protocol(_) => "protocol",
            Self::Connection { .. } => "connection",
            Self::System { .. } => "system",
            Self::Tls(_) => "tls",
            Self::Authentication(_) => "authentication",
            Self::TimeLimit { .. } => "time_limit",
            Self::Silent { .. } => "silent",
            Self::Workload(_) => "workload",
            Self::Interrupted => "interrupted",
            Self::InStatement { source, .. } | Self::OfSide { source, .. } => source.kind(),
        }
    }

    /// Add the statement that a server rejected; other errors stay unchanged.
    #[must_use]
    pub fn in_statement(self, sql: &str) -> Self {
        match self {
            Self::Server(_) => Self::InStatement {
                statement: beginning(sql.trim(), STATEMENT_BYTES),
                source: Box::new(self),
            },
            error => error,
        }
    }

    /// Return the statement that a server rejected; None if it is not known.
    pub fn statement(&self) -> Option<&str> {
        match self {
            Self::InStatement { statement, .. } => Some(statement),
            Self::OfSide { source, .. } => source.statement(),
            _ => None,
        }
    }

    /// Add the index of the server that caused the error; errors without a server stay unchanged.
    #[must_use]
    pub fn of_side(self, side: u32) -> Self {
        match self {
            Self::Interrupted | Self::System { .. } | Self::OfSide { .. } => self,
            error => Self::OfSide { side, source: Box::new(error) },
        }
    }

    /// Return the underlying error, without statement and server.
    pub fn root(&self) -> &Self {
        match self {
            Self::InStatement { source, .. } | Self::OfSide { source, .. } => source.root(),
            error => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> ClientError {
        let message = "syntax".to_owned();
        ClientError::Server(ServerError { code: 1064, sqlstate: "42000".to_owned(), message })
    }

    #[test]
    fn error_names_its_statement_and_its_side() {
        let error = refused().in_statement(" SELECT\n ").of_side(1);
        assert_eq!(error.statement(), Some("SELECT"));
        assert!(matches!(error.root(), ClientError::Server(_)));
        assert_eq!(error.kind(), "server");
        let text = "side 1: the server refused: syntax (error 1064, SQLSTATE 42000); \
                    the statement: SELECT";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn error_quotes_the_beginning_of_a_long_statement_that_a_server_refused() {
        let error = refused().in_statement(&"é".repeat(500));
        assert_eq!(error.statement(), Some(format!("{}...", "é".repeat(200)).as_str()));
        assert_eq!(ClientError::Interrupted.in_statement("SELECT 1").statement(), None);
    }
}
