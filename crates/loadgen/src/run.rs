//! Carries a specification out, phase by phase, and reports as it goes.

mod drive;
mod plan;
mod session;
mod statements;
mod tables;
mod ticker;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use thiserror::Error;

use crate::events::{ClientUsage, Event, Events, PhaseResult, StatementRecord};
use crate::tables::{JobError, TableError};
use engine::{Mark, ResourceUsage};
use protocol::ClientError;
use protocol::mysql::Connection;

pub use plan::{Plan, mistakes, tables_of};

use plan::{PlannedPhase, Work};
use session::Session;

/// Why a phase could not go on.
#[derive(Debug, Error)]
pub enum Failure {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Table(#[from] TableError),
}

impl Failure {
    /// Return the failure of a server or its connection, of any side; None where both worked.
    pub fn client(&self) -> Option<&ClientError> {
        self.cause().map(ClientError::root)
    }

    fn cause(&self) -> Option<&ClientError> {
        match self {
            Self::Client(error)
            | Self::Table(TableError { cause: JobError::Client(error), .. }) => Some(error),
            Self::Table(TableError { cause: JobError::Mismatch(_), .. }) => None,
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
            statement: self.cause().and_then(ClientError::statement),
            message,
        }
    }

    /// Return the beginning of a message of a server: the table or the side that it is about.
    fn place(&self, side: Option<u32>) -> String {
        match (self, side) {
            (Self::Table(TableError { table, .. }), _) => {
                format!("table {table}: the server refused: ")
            }
            (_, Some(side)) => format!("side {side}: "),
            _ => String::new(),
        }
    }
}

/// The means by which phases are executed.
struct Context<'a> {
    session: &'a mut Session,
    events: &'a Events,
    stop: &'a Arc<AtomicBool>,
}

impl Context<'_> {
    /// Work with the session of a side that phases share; an error names the side, of several.
    fn on_side<T>(
        &mut self,
        side: u32,
        work: impl FnOnce(&mut Connection) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let connection = self.session.connection(side, self.stop).map_err(|(_, error)| error)?;
        work(connection).map_err(|error| self.session.of_side(side, error))
    }
}

impl PlannedPhase {
    /// Return the event of its end.
    fn ended<'a>(&'a self, result: PhaseResult<'a>) -> Event<'a> {
        Event::Phase { name: &self.name, result }
    }
}

/// Run the phases. Whatever happens is reported as events; the error only says how to exit.
pub fn run(plan: Plan, events: &Events, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    let mut session = plan.session;
    let version = session
        .connection(0, stop)
        .map(|connection| connection.server_version().to_owned())
        .map_err(|(phase, error)| report(events, phase, error.into()))?;
    events.emit(&Event::Start {
        load_generator: env!("CARGO_PKG_VERSION"),
        server_version: &version,
    });
    let mut records = Vec::new();
    let outcome = plan.phases.iter().try_for_each(|phase| {
        let mut record = StatementRecord::new(&phase.name);
        let mut context = Context { session: &mut session, events, stop };
        events.emit(&Event::Mark { phase: &phase.name, mark: Mark::PhaseStarted, t_s: 0.0 });
        let outcome = run_phase(&mut context, phase, &mut record);
        if matches!(phase.work, Work::Statements(_) | Work::LoadData(_)) {
            records.push(record);
        }
        outcome.map_err(|failure| report(events, &phase.name, failure))
    });
    events.emit(&Event::Summary {
        statements: &records,
        client: ClientUsage { usage: ResourceUsage::now(), max_rss_bytes: engine::max_rss_bytes() },
        bytes_sent: session.bytes_sent(),
        bytes_received: session.bytes_received(),
    });
    outcome
}

fn run_phase(
    context: &mut Context<'_>,
    phase: &PlannedPhase,
    record: &mut StatementRecord,
) -> Result<(), Failure> {
    match &phase.work {
        Work::Statements(list) => statements::run(context, phase, list, record),
        Work::LoadData(load) => statements::load_data(context, phase, load, record),
        Work::LoadTables(tables, how) => tables::load(context, phase, tables, how),
        Work::VerifyTables(tables) => tables::verify(context, phase, tables),
        Work::WarmTables(tables, threads) => tables::warm(context, phase, tables, *threads),
        Work::Drive(drive) => drive::drive(context, phase, drive),
    }
}

fn report(events: &Events, phase: &str, failure: Failure) -> Failure {
    events.emit(&failure.event(phase));
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::ServerError;
    use serde_json::json;

    fn deadlock() -> ClientError {
        ClientError::Server(ServerError {
            code: 1213,
            sqlstate: "40001".to_owned(),
            message: "Deadlock found".to_owned(),
        })
    }

    #[test]
    fn events_have_code_side_and_statement_once() {
        let statement = "CREATE TABLE child (id INT)";
        let cause = JobError::Client(deadlock().in_statement(statement));
        let of_table = Failure::Table(TableError { table: "child".to_owned(), cause });
        let of_side = Failure::Client(deadlock().in_statement("SELECT 1").of_side(1));
        let of_host = Failure::Client(ClientError::Interrupted);
        for (failure, expected) in [
            (
                of_table,
                json!({"message": "table child: the server refused: Deadlock found",
                       "kind": "server", "code": "1213", "sqlstate": "40001",
                       "statement": statement}),
            ),
            (
                of_side,
                json!({"message": "side 1: Deadlock found", "kind": "server", "code": "1213",
                       "sqlstate": "40001", "side": 1, "statement": "SELECT 1"}),
            ),
            (
                of_host,
                json!({"message": "interrupted", "kind": "interrupted", "code": null,
                       "sqlstate": null}),
            ),
        ] {
            let mut event = serde_json::to_value(failure.event("load")).unwrap();
            let keys = event.as_object_mut().unwrap();
            keys.retain(|key, _| key != "type" && key != "phase");
            assert_eq!(event, expected);
        }
    }
}
