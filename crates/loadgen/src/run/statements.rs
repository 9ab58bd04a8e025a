//! Phases that run statements, one after the other, and the one that loads a data set, into one
//! server or into several that take turns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::plan::PlannedPhase;
use super::ticker::Ticker;
use super::{Context, Failure};
use crate::events::{PhaseResult, StatementRecord, StatementResult};
use crate::spec::{LoadData, Source};
use crate::tables::{self, LocalRows, SentCounts};
use datagen::{Nodes, Rows};
use engine::{Groups, Slice, nanoseconds};
use protocol::ClientError;
use protocol::mysql::{Connection, Deadline, Outcome};

/// The file's name in the statement; the rows are generated.
const LOCAL_FILE: &str = "nodes";

/// Run the statements on one server after the other; the last outcome and result set count.
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
    let columns = load.columns.iter().map(String::as_str);
    let sql = tables::load_data(&from, &load.table, tables::TEXTS, columns);
    // Rows are made ahead before the clock starts.
    let mut rows = match load.source {
        Source::Nodes { rows, seed } if load.slice_rows.is_none() => {
            Some(LocalRows::start(&Arc::new(Nodes::new(rows, seed)), &(0..rows), &sent))
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
struct Ended {
    duration: Duration,
    outcome: Outcome,
    /// Of several servers that took turns.
    slices: Option<Vec<Slice>>,
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
fn counted<T>(
    record: &mut StatementRecord,
    outcome: Result<T, ClientError>,
) -> Result<T, ClientError> {
    if let Err(ClientError::Server(error)) = &outcome {
        record.failed(error.code);
    }
    outcome
}

/// A load of the same rows into all servers, one at a time.
///
/// A *slice* feeds one server a part of the rows, and ends when it has read them; all servers get the
/// same parts. Each part is made before the slices that send it.
struct SlicedLoad<'a, R> {
    sql: &'a str,
    rows: &'a R,
    /// The rows of a slice, at most.
    slice_rows: u64,
    /// Of the order of sides.
    seed: u64,
    /// The counts of what each server has been sent.
    sent: &'a SentCounts,
}

/// The rows of a slice, as text.
struct Part {
    rows: u64,
    text: Vec<u8>,
}

/// The work of one server so far.
#[derive(Default)]
struct Turns {
    took: Duration,
    slices: Vec<Slice>,
}

impl<R: Rows> SlicedLoad<'_, R> {
    /// Load, and return the ends of the statements by their sides.
    fn run(
        &self,
        context: &mut Context<'_>,
        record: &mut StatementRecord,
        deadline: &Deadline,
    ) -> Result<Vec<Ended>, ClientError> {
        let sides = context.session.sides();
        let origin = Instant::now();
        let mut turns: Vec<Turns> = Vec::new();
        let mut on_side =
            |side, work: &mut dyn FnMut(&mut Connection) -> Result<(), ClientError>| {
                let started = Instant::now();
                context.on_side(side, |connection| counted(record, work(connection)))?;
                Ok::<_, ClientError>((started - origin, started.elapsed()))
            };
        for side in 0..sides {
            let (_, took) = on_side(side, &mut |connection| {
                connection.begin_local(self.sql, LOCAL_FILE, deadline)
            })?;
            turns.push(Turns { took, slices: Vec::new() });
        }
        let mut groups = Groups::new(sides, self.seed);
        for parts in self.parts() {
            let order = groups.next_group();
            for (half, part) in order.chunks(sides as usize).zip(&parts) {
                for &side in half {
                    let (from, took) = on_side(side, &mut |connection| {
                        connection.send_local_part(&part.text, deadline)
                    })?;
                    let turns = &mut turns[side as usize];
                    turns.took += took;
                    turns.slices.push(Slice {
                        side,
                        from_ns: nanoseconds(from),
                        until_ns: nanoseconds(from + took),
                        transactions: part.rows,
                        rested_ns: 0,
                    });
                }
                self.sent.add(part.rows, part.text.len());
            }
        }
        let mut ended = Vec::new();
        for (side, Turns { took: before, slices }) in (0..sides).zip(turns) {
            let mut outcome = Outcome::default();
            let (_, took) = on_side(side, &mut |connection| {
                outcome = connection.end_local(deadline)?;
                Ok(())
            })?;
            ended.push(Ended { duration: before + took, outcome, slices: Some(slices) });
        }
        for each in &ended {
            record.succeeded(each.duration);
        }
        Ok(ended)
    }

    /// Yield the rows of each group: two parts, about equally long, the second of at least one row.
    fn parts(&self) -> impl Iterator<Item = [Part; 2]> {
        let rows = self.rows.count();
        let groups = rows.div_ceil(2 * self.slice_rows);
        let begin = move |part: u64| {
            let (each, more) = (rows / (2 * groups), rows % (2 * groups));
            part * each + part.min(more)
        };
        (0..groups).map(move |group| {
            [2 * group, 2 * group + 1].map(|part| self.part(begin(part), begin(part + 1)))
        })
    }

    fn part(&self, from: u64, to: u64) -> Part {
        let rows = to - from;
        let room = self.rows.room_for(usize::try_from(rows).expect("a slice is checked"));
        let mut text = vec![0; room];
        let length = self.rows.write(from, to, &mut text);
        text.truncate(length);
        Part { rows, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn parts_are_all_rows_in_their_order(rows in 0_u64..3_000, slice_rows in 1_u64..700) {
            let nodes = Nodes::new(rows, 7);
            let sent = SentCounts::default();
            let load = SlicedLoad { sql: "", rows: &nodes, slice_rows, seed: 1, sent: &sent };
            let parts: Vec<Part> = load.parts().flatten().collect();
            prop_assert_eq!(parts.iter().map(|part| part.rows).sum::<u64>(), rows);
            let most = parts.iter().map(|part| part.rows).max().unwrap_or(0);
            prop_assert!(most <= slice_rows);
            prop_assert!(parts.iter().all(|part| most - part.rows <= 1));
            let text: Vec<u8> = parts.into_iter().flat_map(|part| part.text).collect();
            let whole = load.part(0, rows).text;
            prop_assert_eq!(text, whole);
        }
    }
}
