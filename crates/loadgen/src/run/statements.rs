//! Phases that run statements, one after the other, and the one that loads a data set.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::plan::PlannedPhase;
use super::ticker::Ticker;
use super::{Context, Failure};
use crate::events::{PhaseResult, StatementResult};
use crate::spec::Source;
use crate::statement::StatementRecord;
use crate::tables;
use crate::tables::{LocalRows, SentCounts};
use datagen::Nodes;
use protocol::ClientError;
use protocol::mysql::{Connection, Deadline, Outcome};

/// The file's name in the statement; the rows are generated.
const LOCAL_FILE: &str = "nodes";

/// Run the statements; the last one's outcome counts, and the last result set.
pub fn run(
    context: &mut Context<'_>,
    phase: &PlannedPhase,
    list: &[String],
    record: &mut StatementRecord,
) -> Result<(), Failure> {
    let deadline = Deadline::start(context.stop, phase.limit);
    let connection = context.connection()?;
    let started = Instant::now();
    let mut latest = Outcome::default();
    for sql in list {
        let outcome = timed(record, || connection.query(sql, &deadline))?;
        let rows = outcome.rows.or(latest.rows);
        latest = Outcome { rows, ..outcome };
    }
    let duration = started.elapsed();
    let result = PhaseResult::Statement(result(duration, &latest, &SentCounts::default(), None));
    context.events.emit(&phase.ended(result));
    Ok(())
}

/// Load rows that are made here, or that the server reads itself.
pub fn load_data(
    context: &mut Context<'_>,
    phase: &PlannedPhase,
    table: &str,
    columns: &[String],
    source: &Source,
    record: &mut StatementRecord,
) -> Result<(), Failure> {
    let sent = Arc::new(SentCounts::default());
    // Rows are made ahead before the clock starts.
    let rows = match source {
        Source::Nodes { rows, seed } => {
            Some(LocalRows::start(&Arc::new(Nodes::new(*rows, *seed)), &sent))
        }
        Source::ServerFile(_) => None,
    };
    let from = match source {
        Source::Nodes { .. } => format!("LOCAL INFILE '{LOCAL_FILE}'"),
        Source::ServerFile(path) => format!("INFILE '{path}'"),
    };
    let sql = tables::load_data(&from, table, columns.iter().map(String::as_str));
    let ticker = Ticker::start(&phase.name, &sent, context.events);
    let deadline = Deadline::start(context.stop, phase.limit);
    let connection = context.connection()?;
    let started = Instant::now();
    let (outcome, generator_wait) = timed(record, || load(connection, &sql, rows, &deadline))?;
    let duration = started.elapsed();
    drop(ticker);
    let result = PhaseResult::LoadData(result(duration, &outcome, &sent, generator_wait));
    context.events.emit(&phase.ended(result));
    Ok(())
}

/// Load, and measure how long the sender waited for rows if they are made here.
fn load(
    connection: &mut Connection,
    sql: &str,
    rows: Option<LocalRows>,
    deadline: &Deadline,
) -> Result<(Outcome, Option<Duration>), ClientError> {
    let Some(mut rows) = rows else {
        return Ok((connection.query(sql, deadline)?, None));
    };
    let outcome = connection.load_local(sql, LOCAL_FILE, &mut rows, deadline)?;
    Ok((outcome, Some(rows.waited())))
}

fn result<'a>(
    duration: Duration,
    outcome: &'a Outcome,
    sent: &SentCounts,
    generator_wait: Option<Duration>,
) -> StatementResult<'a> {
    StatementResult {
        duration_s: duration.as_secs_f64(),
        affected_rows: outcome.affected_rows,
        warnings: outcome.warnings,
        rows_sent: sent.rows(),
        bytes_sent: sent.bytes(),
        generator_wait_s: generator_wait.map(|wait| wait.as_secs_f64()),
        result: outcome.rows.as_deref(),
    }
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
