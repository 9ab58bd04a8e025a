//! Carries a specification out on one connection, phase by phase, and reports as it goes.

mod local_data;
mod ticker;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::data::Nodes;
use crate::events::{Event, Events};
use crate::mysql::{ClientError, Connection, Outcome, Watch};
use crate::spec::{Phase, Source, Spec, Work};
use crate::statement::StatementRecord;
use crate::usage;

use local_data::{GeneratedRows, Sent};
use ticker::Ticker;

/// Logging in and setting the session up take no longer than this.
const LOGIN_LIMIT: Duration = Duration::from_secs(10);

/// The name a server is told for the file that we make.
const LOCAL_FILE: &str = "nodes";

/// An error and the phase it ended; it has been reported.
pub struct Failed(pub ClientError);

/// Runs the phases. Whatever happens is reported as events; the error only says how to exit.
pub fn run(spec: &Spec, stop: &Arc<AtomicBool>) -> Result<(), Failed> {
    let events = Events::new(stop);
    let mut connection =
        open(spec, stop).map_err(|(phase, error)| report_error(&events, phase, error))?;
    events.emit(&Event::Start {
        load_generator: env!("CARGO_PKG_VERSION"),
        server_version: connection.server_version(),
    });
    let mut records = Vec::new();
    let outcome = spec.phases.iter().try_for_each(|phase| {
        let mut record = StatementRecord::new(&phase.name);
        let outcome = run_phase(&mut connection, phase, stop, &events, &mut record);
        records.push(record);
        outcome.map_err(|error| report_error(&events, &phase.name, error))
    });
    events.emit(&Event::Summary {
        statements: records.iter().map(StatementRecord::summary).collect(),
        client: usage::of_this_process(),
        bytes_sent: connection.bytes_sent(),
        bytes_received: connection.bytes_received(),
    });
    outcome
}

/// Opens the session; an error comes with the name of what failed.
fn open(spec: &Spec, stop: &Arc<AtomicBool>) -> Result<Connection, (&'static str, ClientError)> {
    let login = &spec.connection;
    let watch = Watch::start(stop, Some(LOGIN_LIMIT));
    let database = login.database.as_deref();
    let mut connection = Connection::open(
        &login.address,
        &login.user,
        &login.password,
        database,
        &watch,
    )
    .map_err(|error| ("connect", error))?;
    for sql in &spec.session {
        connection
            .query(sql, &watch)
            .map_err(|error| ("session", error))?;
    }
    Ok(connection)
}

fn run_phase(
    connection: &mut Connection,
    phase: &Phase,
    stop: &Arc<AtomicBool>,
    events: &Events,
    record: &mut StatementRecord,
) -> Result<(), ClientError> {
    let sent = Arc::new(Sent::default());
    // Rows are made ahead before the clock starts.
    let rows = generated_rows(&phase.work, &sent);
    let ticker = Ticker::start(&phase.name, &sent, events);
    let watch = Watch::start(stop, phase.limit);
    let started = Instant::now();
    let (outcome, generator_wait) = match &phase.work {
        Work::Statements(list) => (run_statements(connection, list, &watch, record)?, None),
        Work::LoadData {
            table,
            columns,
            source,
        } => {
            let sql = load_statement(table, columns, source);
            timed(record, || load(connection, &sql, rows, &watch))?
        }
    };
    let duration = started.elapsed();
    drop(ticker);
    events.emit(&Event::Phase {
        name: &phase.name,
        duration_s: duration.as_secs_f64(),
        affected_rows: outcome.affected_rows,
        warnings: outcome.warnings,
        rows_sent: sent.rows(),
        bytes_sent: sent.bytes(),
        generator_wait_s: generator_wait.map(|wait| wait.as_secs_f64()),
        result: outcome.rows.as_deref(),
    });
    Ok(())
}

fn generated_rows(work: &Work, sent: &Arc<Sent>) -> Option<GeneratedRows> {
    match work {
        Work::LoadData {
            source: Source::Nodes { rows, seed },
            ..
        } => Some(GeneratedRows::start(
            &Arc::new(Nodes::new(*rows, *seed)),
            sent,
        )),
        _ => None,
    }
}

/// Runs the statements; the last one's outcome counts, and the last result set.
fn run_statements(
    connection: &mut Connection,
    list: &[String],
    watch: &Watch,
    record: &mut StatementRecord,
) -> Result<Outcome, ClientError> {
    let mut latest = Outcome::default();
    for sql in list {
        let outcome = timed(record, || connection.query(sql, watch))?;
        let rows = outcome.rows.or(latest.rows);
        latest = Outcome { rows, ..outcome };
    }
    Ok(latest)
}

/// Loads, and says how long the sender waited for rows if they are made here.
fn load(
    connection: &mut Connection,
    sql: &str,
    rows: Option<GeneratedRows>,
    watch: &Watch,
) -> Result<(Outcome, Option<Duration>), ClientError> {
    let Some(mut rows) = rows else {
        return Ok((connection.query(sql, watch)?, None));
    };
    let outcome = connection.load_local(sql, LOCAL_FILE, &mut rows, watch)?;
    Ok((outcome, Some(rows.waited())))
}

/// The statement; bytes are taken as they are, so it names no character set.
fn load_statement(table: &str, columns: &[String], source: &Source) -> String {
    let from = match source {
        Source::Nodes { .. } => format!("LOCAL INFILE '{LOCAL_FILE}'"),
        Source::ServerFile(path) => format!("INFILE '{path}'"),
    };
    let table = quoted(table);
    if columns.is_empty() {
        return format!("LOAD DATA {from} INTO TABLE {table}");
    }
    let columns: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
    format!(
        "LOAD DATA {from} INTO TABLE {table} ({})",
        columns.join(", ")
    )
}

fn quoted(identifier: &str) -> String {
    format!("`{}`", identifier.replace('`', "``"))
}

fn timed<T>(
    record: &mut StatementRecord,
    statement: impl FnOnce() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let started = Instant::now();
    let outcome = statement();
    match &outcome {
        Ok(_) => record.succeeded(started.elapsed()),
        Err(ClientError::Server(error)) => record.failed(error.code),
        Err(_) => {}
    }
    outcome
}

fn report_error(events: &Events, phase: &str, error: ClientError) -> Failed {
    let (code, sqlstate, message) = match &error {
        ClientError::Server(server) => (
            Some(server.code),
            Some(server.sqlstate.as_str()),
            server.message.clone(),
        ),
        other => (None, None, other.to_string()),
    };
    events.emit(&Event::Error {
        phase,
        kind: error.kind(),
        code,
        sqlstate,
        message: &message,
    });
    Failed(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_statements() {
        let columns = ["id".to_owned(), "a`b".to_owned()];
        assert_eq!(
            load_statement("nodes", &columns, &Source::Nodes { rows: 1, seed: 1 }),
            "LOAD DATA LOCAL INFILE 'nodes' INTO TABLE `nodes` (`id`, `a``b`)"
        );
        assert_eq!(
            load_statement("nodes", &[], &Source::ServerFile("/tmp/x".to_owned())),
            "LOAD DATA INFILE '/tmp/x' INTO TABLE `nodes`"
        );
    }
}
