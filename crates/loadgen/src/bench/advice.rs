//! Advice about a failure: the server's words are rarely enough.

use std::io::ErrorKind;

use super::{Command, Settings};
use crate::run::Failure;
use protocol::ClientError;
use protocol::mysql::Address;
use protocol::shown::shown_line;

/// Server errors that a wrong option or a forgotten step leads to.
const ACCESS_DENIED: u16 = 1045;
const DATABASE_DENIED: u16 = 1044;
const UNKNOWN_DATABASE: u16 = 1049;
const TABLE_EXISTS: u16 = 1050;
const NO_SUCH_TABLE: u16 = 1146;
const TOO_MANY_CONNECTIONS: u16 = 1040;
const TOO_MANY_OF_USER: u16 = 1203;
const TOO_MANY_PREPARED: u16 = 1461;

/// The command, as far as advice depends on it.
pub struct Subject {
    address: Address,
    user: String,
    database: String,
    test: String,
    connections: u32,
}

impl Subject {
    pub fn of(settings: &Settings) -> Self {
        Self {
            address: settings.login.address.clone(),
            user: settings.login.user.clone(),
            database: settings.login.database.clone().unwrap_or_default(),
            test: settings.test.clone(),
            connections: match &settings.command {
                Command::Prepare { connections } => *connections,
                Command::Run(drive) => drive.settings.clients,
                Command::Cleanup => 1,
            },
        }
    }

    /// Return the failure in words, and what may help.
    pub fn explain(&self, failure: &Failure) -> String {
        let message = failure.to_string();
        let message = shown_line(&message);
        match self.advice(failure) {
            Some(advice) => format!("{message}\n{advice}"),
            None => message.into_owned(),
        }
    }

    fn advice(&self, failure: &Failure) -> Option<String> {
        match failure.client()? {
            ClientError::Server(error) => self.about_code(error.code),
            ClientError::Connection { source, .. } => self.about_connection(source.kind()),
            _ => None,
        }
    }

    fn about_code(&self, code: u16) -> Option<String> {
        let Self { user, database, test, connections, .. } = self;
        Some(match code {
            ACCESS_DENIED => format!(
                "Is the password of {user} right? It is taken from --password or the environment's \
                 MYSQL_PWD; --user names another account."
            ),
            DATABASE_DENIED => format!(
                "As somebody who may: GRANT ALL ON {database}.* TO {user}; --database names another \
                 database."
            ),
            UNKNOWN_DATABASE => {
                format!("Make it with CREATE DATABASE {database}, or name another one: --database.")
            }
            NO_SUCH_TABLE => format!(
                "Make the tables first: millrace-load bench prepare --workload {test} and the same \
                 --tables, --table-size, --threads and --set."
            ),
            TABLE_EXISTS => format!(
                "Drop what is there first: millrace-load bench cleanup --workload {test} and the \
                 same --tables and --threads."
            ),
            TOO_MANY_CONNECTIONS | TOO_MANY_OF_USER => format!(
                "{connections} connections were to be opened: raise the server's max_connections \
                 and max_user_connections, or lower --connections."
            ),
            TOO_MANY_PREPARED => {
                "Raise the server's max_prepared_stmt_count, or send statements as \
                                  text: --db-ps-mode=disable."
                    .to_owned()
            }
            _ => return None,
        })
    }

    fn about_connection(&self, kind: ErrorKind) -> Option<String> {
        match (kind, &self.address) {
            (ErrorKind::ConnectionRefused, Address::Tcp { .. }) => Some(
                "No server listens there: is it running, and are --host and --port right? A server \
                 with skip_networking has a --socket only."
                    .to_owned(),
            ),
            (ErrorKind::NotFound | ErrorKind::ConnectionRefused, Address::Socket(_)) => Some(
                "No server listens at that file: is it running, and is --socket right? The server's \
                 own answer is SELECT @@socket."
                    .to_owned(),
            ),
            _ => None,
        }
    }
}
