//! Phases that run statements, one after the other, and the one that loads a data set.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::load_slices::SlicedLoad;
use super::plan::PlannedPhase;
use super::ticker::Ticker;
use super::{Context, Failure};
use crate::events::{PhaseResult, StatementResult};
use crate::spec::{LoadData, Source};
use crate::statement::StatementRecord;
use crate::tables;
use crate::tables::{LocalRows, SentCounts};
use datagen::Nodes;
use engine::Slice;
use protocol::ClientError;
use protocol::mysql::{Connection, Deadline, Outcome};

/// The file's name in the statement; the rows are generated.
pub(super) const LOCAL_FILE: &str = "nodes";

/// Run the statements on one server after the other; the last one's outcome counts, and the last
/// result set.
pub fn run(
    context: &mut Context<'_>,
    phase: &PlannedPhase,
    list: &[String],
    record: &mut StatementRecord,
) -> Result<(), Failure> {
    let deadline = Deadline::start(context.stop, phase.limit);
    let began = Instant::now();
    let mut ended = Vec::new();
    for side in 0..context.session.sides() {
        ended.push(context.on_side(side, |connection| {
            let started = Instant::now();
            let outcome = run_list(connection, list, record, &deadline)?;
            Ok(Ended { duration: started.elapsed(), outcome, slices: None })
        })?);
    }
    for result in results(&ended, began.elapsed(), &SentCounts::default(), None) {
        context.events.emit(&phase.ended(PhaseResult::Statement(result)));
    }
    Ok(())
}

fn run_list(
    connection: &mut Connection,
    list: &[String],
    record: &mut StatementRecord,
    deadline: &Deadline,
) -> Result<Outcome, ClientError> {
    let mut latest = Outcome::default();
    for sql in list {
        let outcome = timed(record, || connection.query(sql, deadline))
            .map_err(|error| error.in_statement(sql))?;
        let rows = outcome.rows.or(latest.rows);
        latest = Outcome { rows, ..outcome };
    }
    Ok(latest)
}

/// Load rows that are made here, or that the server reads itself.
pub fn load_data(
    context: &mut Context<'_>,
    phase: &PlannedPhase,
    load: &LoadData,
    record: &mut StatementRecord,
) -> Result<(), Failure> {
    let sent = Arc::new(SentCounts::default());
    let from = match &load.source {
        Source::Nodes { .. } => format!("LOCAL INFILE '{LOCAL_FILE}'"),
        Source::ServerFile(path) => format!("INFILE '{path}'"),
    };
    let sql = tables::load_data(&from, &load.table, load.columns.iter().map(String::as_str));
    // Rows are made ahead before the clock starts.
    let mut rows = match load.source {
        Source::Nodes { rows, seed } if load.slice_rows.is_none() => {
            Some(LocalRows::start(&Arc::new(Nodes::new(rows, seed)), &sent))
        }
        _ => None,
    };
    let ticker = Ticker::start(&phase.name, &sent, context.events);
    let deadline = Deadline::start(context.stop, phase.limit);
    let began = Instant::now();
    let ended = match (&load.source, load.slice_rows) {
        (&Source::Nodes { rows, seed }, Some(slice_rows)) => {
            let rows = Nodes::new(rows, seed);
            let loading = SlicedLoad { sql: &sql, rows: &rows, slice_rows, seed, sent: &sent };
            loading.run(context, record, &deadline)?
        }
        _ => vec![context.on_side(0, |connection| {
            let started = Instant::now();
            let outcome = timed(record, || match &mut rows {
                Some(rows) => connection.load_local(&sql, LOCAL_FILE, rows, &deadline),
                None => connection.query(&sql, &deadline),
            })?;
            Ok(Ended { duration: started.elapsed(), outcome, slices: None })
        })?],
    };
    let together = began.elapsed();
    drop(ticker);
    let generator_wait = match load.slice_rows {
        Some(_) => Some(Duration::ZERO), // they were made between slices
        None => rows.map(|rows| rows.waited()),
    };
    for result in results(&ended, together, &sent, generator_wait) {
        context.events.emit(&phase.ended(PhaseResult::LoadData(result)));
    }
    Ok(())
}

/// The statements of a phase on one server.
pub(super) struct Ended {
    pub duration: Duration,
    pub outcome: Outcome,
    /// Of several servers that took turns.
    pub slices: Option<Vec<Slice>>,
}

/// Return the results of a phase, which took so long on all servers, by their sides.
fn results<'a>(
    ended: &'a [Ended],
    together: Duration,
    sent: &SentCounts,
    generator_wait: Option<Duration>,
) -> impl Iterator<Item = StatementResult<'a>> {
    let has_sides = ended.len() > 1;
    (0..).zip(ended).map(move |(side, each)| StatementResult {
        duration_s: each.duration.as_secs_f64(),
        affected_rows: each.outcome.affected_rows,
        warnings: each.outcome.warnings,
        rows_sent: sent.rows(),
        bytes_sent: sent.bytes(),
        generator_wait_s: generator_wait.map(|wait| wait.as_secs_f64()),
        result: each.outcome.rows.as_deref(),
        side: has_sides.then_some(side),
        round_s: has_sides.then_some(together.as_secs_f64()),
        slices: each.slices.as_deref(),
    })
}

fn timed<T>(
    record: &mut StatementRecord,
    statement: impl FnOnce() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let started = Instant::now();
    let outcome = counted(record, statement())?;
    record.succeeded(started.elapsed());
    Ok(outcome)
}

/// Count the error of a server.
pub(super) fn counted<T>(
    record: &mut StatementRecord,
    outcome: Result<T, ClientError>,
) -> Result<T, ClientError> {
    if let Err(ClientError::Server(error)) = &outcome {
        record.failed(error.code);
    }
    outcome
}
