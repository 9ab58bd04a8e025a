//! Phases about the workload's tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::plan::PlannedPhase;
use super::session::OPENING_LIMIT;
use super::ticker::Ticker;
use super::{Context, Failure};
use crate::events::PhaseResult;
use crate::tables::{self, LoadOptions, SentCounts, Sessions};
use datagen::Rows;
use protocol::mysql::Deadline;
use workload::tables::Table;

/// The longest time between two checks for a request to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(40);

/// Create and fills the tables.
pub fn load(
    context: &mut Context<'_>,
    phase: &PlannedPhase,
    tables: &[Table],
    options: &LoadOptions,
) -> Result<(), Failure> {
    let sent = Arc::new(SentCounts::default());
    let ticker = Ticker::start(&phase.name, &sent, context.events);
    let started = Instant::now();
    let loaded =
        with_sessions(context, phase, |sessions| tables::load(sessions, tables, options, &sent))?;
    let duration_s = started.elapsed().as_secs_f64();
    drop(ticker);
    let result = PhaseResult::LoadTables {
        duration_s,
        tables: &loaded.tables,
        method: loaded.method,
        method_reason: loaded.method_reason.as_deref(),
        warnings: loaded.warnings,
        rows_sent: sent.rows(),
        bytes_sent: sent.bytes(),
        generator_wait_s: loaded.generator_wait.as_secs_f64(),
    };
    context.events.emit(&phase.ended(result));
    wait(options.linger, context.stop);
    drop(loaded.connections);
    Ok(())
}

fn wait(time: Duration, stop: &AtomicBool) {
    let started = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let left = time.saturating_sub(started.elapsed());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(POLL_INTERVAL));
    }
}

/// Compare the tables with what was generated.
pub fn verify(
    context: &mut Context<'_>,
    phase: &PlannedPhase,
    tables: &[Table],
) -> Result<(), Failure> {
    let started = Instant::now();
    with_sessions(context, phase, |sessions| tables::verify(sessions, tables))?;
    let duration_s = started.elapsed().as_secs_f64();
    let rows = tables.iter().map(|table| table.rows.count()).sum();
    let result = PhaseResult::VerifyTables { duration_s, rows };
    context.events.emit(&phase.ended(result));
    Ok(())
}

/// Read the tables into memory.
pub fn warm(
    context: &mut Context<'_>,
    phase: &PlannedPhase,
    tables: &[Table],
    threads: usize,
) -> Result<(), Failure> {
    let started = Instant::now();
    with_sessions(context, phase, |sessions| tables::warm(sessions, tables, threads))?;
    let duration_s = started.elapsed().as_secs_f64();
    context.events.emit(&phase.ended(PhaseResult::WarmTables { duration_s }));
    Ok(())
}

fn with_sessions<T>(
    context: &Context<'_>,
    phase: &PlannedPhase,
    work: impl FnOnce(&Sessions<'_>) -> Result<T, tables::TableError>,
) -> Result<T, Failure> {
    let open = |deadline: &Deadline| {
        let deadline = deadline.within(OPENING_LIMIT);
        context.session.open_on(0, &deadline)
    };
    let sessions = Sessions { open: &open, stop: context.stop, limit: phase.limit };
    Ok(work(&sessions)?)
}
