//! Statements of maintenance that run in the middle of a drive, on a session of their own, and the
//! records of the clients before, during and after them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use protocol::ClientError;

use super::clock::{nanoseconds, seconds};
use super::record::Record;
use super::settings::{DriveSettings, End};
use super::shared::Shared;

/// A request to stop is noticed within this.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the statements, and returns the time of each.
pub type RunStatements<'a> = Box<dyn FnOnce() -> Result<Vec<Duration>, ClientError> + Send + 'a>;

/// The statements of maintenance of a drive, and the clients in its parts.
#[derive(Clone, Debug, Serialize)]
pub struct MaintenanceResult {
    /// On the clock of the marks.
    pub from_s: f64,
    pub until_s: f64,
    /// The time of each statement.
    pub statements_s: Vec<f64>,
    pub parts: Vec<PartResult>,
}

/// All transactions of a part together.
#[derive(Clone, Debug, Serialize)]
pub struct PartResult {
    pub duration_s: f64,
    #[serde(flatten)]
    pub record: Record,
}

/// Wait for the time of the statements, run them, and set the end of the measured part: as long
/// after them as was left. Return the time of each; None where the drive ended before.
pub fn maintain(
    drive: &DriveSettings,
    shared: &Shared,
    run: RunStatements<'_>,
    stop: &AtomicBool,
) -> Result<Option<Vec<Duration>>, ClientError> {
    let (Some(after), End::Time(time)) = (drive.maintenance_after, drive.end) else {
        return Ok(None);
    };
    loop {
        if shared.is_cancelled() || stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let due_ns = shared.measure_from_ns().saturating_add(nanoseconds(after));
        let left_ns = due_ns.saturating_sub(shared.clock.now_ns());
        if left_ns == 0 {
            break;
        }
        thread::sleep(Duration::from_nanos(left_ns).min(POLL_INTERVAL));
    }
    let span = &shared.maintenance;
    span.from_ns.store(shared.clock.now_ns(), Ordering::Relaxed);
    let took = run()?;
    let until_ns = shared.clock.now_ns();
    span.until_ns.store(until_ns, Ordering::Relaxed);
    shared.measure_until(until_ns + nanoseconds(time.saturating_sub(after)));
    Ok(Some(took))
}

/// Put the result together; `duration_s` is that of the measured part.
pub fn result(
    shared: &Shared,
    took: &[Duration],
    duration_s: f64,
    records: Vec<Record>,
) -> MaintenanceResult {
    let span = &shared.maintenance;
    let from_s = seconds(span.from_ns.load(Ordering::Relaxed));
    let until_s = seconds(span.until_ns.load(Ordering::Relaxed));
    let measured_from_s = seconds(shared.measure_from_ns());
    let ends_s = [from_s, until_s, measured_from_s + duration_s];
    let mut part_from_s = measured_from_s;
    let parts = records.into_iter().zip(ends_s).map(|(record, end_s)| {
        let duration_s = (end_s - part_from_s).max(0.0);
        part_from_s = end_s;
        PartResult { duration_s, record }
    });
    MaintenanceResult {
        from_s,
        until_s,
        statements_s: took.iter().map(Duration::as_secs_f64).collect(),
        parts: parts.collect(),
    }
}
