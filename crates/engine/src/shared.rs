//! The state that the threads of a drive share: a few atomic numbers, without locks.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::budget::Budget;
use super::clock::Clock;
use super::settings::{DriveSettings, End, Warmup};

/// A time that is not known yet, or never comes.
pub const NEVER: u64 = u64::MAX;

/// Written by the coordinator, and read by all threads in every turn. Access is relaxed: each
/// number is independent of the others, and a thread may see a change a little later.
///
/// A closed loop that ends by time is measured from the end of its first transaction, if that is
/// after the warm-up; otherwise a slow transaction that began in the warm-up would fill the
/// measured part. It ends at its time, but not before a transaction (in slices, a complete group)
/// is measured.
#[derive(Debug)]
pub struct Shared {
    pub clock: Clock,
    /// The time of the first requests.
    pub start_ns: u64,
    measure_from_ns: AtomicU64,
    measure_until_ns: AtomicU64,
    /// The end time of the first transaction; 0 if nothing depends on it.
    first_end_ns: AtomicU64,
    /// The time from which there is a measurement; 0 if nothing depends on it.
    sufficient_ns: AtomicU64,
    /// Incremented to request the threads' counts.
    tick: AtomicU32,
    cancelled: AtomicBool,
    /// The time span of maintenance.
    pub maintenance: Span,
    /// None if only time ends the drive.
    pub budget: Option<Budget>,
}

impl Shared {
    pub fn new(clock: Clock, start_ns: u64, budget: Option<Budget>) -> Self {
        Self {
            first_end_ns: AtomicU64::new(0),
            sufficient_ns: AtomicU64::new(0),
            clock,
            start_ns,
            measure_from_ns: AtomicU64::new(NEVER),
            measure_until_ns: AtomicU64::new(NEVER),
            tick: AtomicU32::new(0),
            cancelled: AtomicBool::new(false),
            maintenance: Span::default(),
            budget,
        }
    }

    /// Wait for transactions that are longer than the parts of the drive, if the settings are those
    /// of a closed loop that ends by time.
    #[must_use]
    pub fn with_patience_of(self, drive: &DriveSettings) -> Self {
        if !drive.is_open_loop() && matches!(drive.end, End::Time(_)) {
            self.sufficient_ns.store(NEVER, Ordering::Relaxed);
            let has_warmup = drive.warmup != Warmup::Time(Duration::ZERO);
            if has_warmup && drive.slices.is_none() && drive.maintenance_after.is_none() {
                self.first_end_ns.store(NEVER, Ordering::Relaxed);
            }
        }
        self
    }

    /// Record that a transaction has ended.
    pub fn has_ended_one(&self, now_ns: u64) {
        lower(&self.first_end_ns, now_ns);
    }

    /// Record that there is a measurement from now on.
    pub fn is_sufficient_from(&self, now_ns: u64) {
        lower(&self.sufficient_ns, now_ns);
    }

    /// Set the measured part.
    pub fn measure(&self, from_ns: u64, until_ns: u64) {
        self.measure_until_ns.store(until_ns, Ordering::Relaxed);
        self.measure_from_ns.store(from_ns, Ordering::Relaxed);
    }

    /// Set the end of a measured part that has begun.
    pub fn measure_until(&self, until_ns: u64) {
        self.measure_until_ns.store(until_ns, Ordering::Relaxed);
    }

    /// Return the start of the measured part.
    #[inline]
    pub fn measure_from_ns(&self) -> u64 {
        let planned_ns = self.measure_from_ns.load(Ordering::Relaxed);
        planned_ns.max(self.first_end_ns.load(Ordering::Relaxed))
    }

    /// Return the end of the measured part; nothing begins at this time or later.
    #[inline]
    pub fn measure_until_ns(&self) -> u64 {
        let planned_ns = self.measure_until_ns.load(Ordering::Relaxed);
        let late_ns = self
            .first_end_ns
            .load(Ordering::Relaxed)
            .saturating_sub(self.measure_from_ns.load(Ordering::Relaxed));
        planned_ns.saturating_add(late_ns).max(self.sufficient_ns.load(Ordering::Relaxed))
    }

    /// Request the threads' counts; return the number of the tick.
    pub fn next_tick(&self) -> u32 {
        self.tick.fetch_add(1, Ordering::Relaxed) + 1
    }

    #[inline]
    pub fn tick(&self) -> u32 {
        self.tick.load(Ordering::Relaxed)
    }

    /// End the drive, even if requests are under way.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// The time span of all maintenance statements, as far as it is known.
#[derive(Debug)]
pub struct Span {
    pub from_ns: AtomicU64,
    pub until_ns: AtomicU64,
}

impl Default for Span {
    fn default() -> Self {
        Self { from_ns: AtomicU64::new(NEVER), until_ns: AtomicU64::new(NEVER) }
    }
}

impl Span {
    /// Return the index of the part that a transaction belongs to: "during" if it overlaps the
    /// statements at any time, else "before" or "after".
    #[inline]
    pub fn part(&self, intended_ns: u64, ended_ns: u64) -> usize {
        if ended_ns < self.from_ns.load(Ordering::Relaxed) {
            0
        } else if intended_ns <= self.until_ns.load(Ordering::Relaxed) {
            1
        } else {
            2
        }
    }
}

/// Lower a time to `now_ns`; do not write otherwise, because threads read it in every turn.
#[inline]
fn lower(time_ns: &AtomicU64, now_ns: u64) {
    if time_ns.load(Ordering::Relaxed) > now_ns {
        time_ns.fetch_min(now_ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Return the bounds of a part planned from 1 s to 3 s, of a closed loop that ends by time.
    fn measured(
        drive: &DriveSettings,
        first_end_ns: Option<u64>,
        sufficient_ns: Option<u64>,
    ) -> (u64, u64) {
        let shared = Shared::new(Clock::start(), 0, None).with_patience_of(drive);
        shared.measure(SECOND, 3 * SECOND);
        if let Some(end_ns) = first_end_ns {
            shared.has_ended_one(end_ns);
            shared.has_ended_one(end_ns + SECOND); // only the first transaction matters
        }
        sufficient_ns.inspect(|&time_ns| shared.is_sufficient_from(time_ns));
        (shared.measure_from_ns(), shared.measure_until_ns())
    }

    #[test]
    fn a_measured_part_begins_and_ends_with_transactions_that_outlast_it() {
        let warm = DriveSettings {
            warmup: Warmup::Time(Duration::from_secs(1)),
            ..DriveSettings::closed_loop(1, 1, End::Time(Duration::from_secs(2)))
        };
        let cold = DriveSettings { warmup: Warmup::Time(Duration::ZERO), ..warm.clone() };
        let equal_work = DriveSettings { end: End::Operations(5), ..warm.clone() };
        for (drive, first_end_ns, sufficient_ns, expected) in [
            // As planned if transactions are short, and in equal work, which does not wait.
            (&warm, Some(SECOND / 10), Some(SECOND + 1), (SECOND, 3 * SECOND)),
            (&equal_work, None, None, (SECOND, 3 * SECOND)),
            (&warm, None, None, (NEVER, NEVER)),
            (&warm, Some(10 * SECOND), None, (10 * SECOND, NEVER)),
            (&warm, Some(10 * SECOND), Some(20 * SECOND), (10 * SECOND, 20 * SECOND)),
            // The end moves with the start.
            (&warm, Some(3 * SECOND / 2), Some(2 * SECOND), (3 * SECOND / 2, 7 * SECOND / 2)),
            // Without a warm-up, the first transaction counts.
            (&cold, None, None, (SECOND, NEVER)),
        ] {
            assert_eq!(measured(drive, first_end_ns, sufficient_ns), expected);
        }
    }

    #[test]
    fn a_transaction_is_of_the_part_that_it_met() {
        let span = Span::default();
        assert_eq!(span.part(5, 9), 0);
        span.from_ns.store(10, Ordering::Relaxed);
        assert_eq!(span.part(5, 9), 0);
        assert_eq!(span.part(5, 30), 1);
        span.until_ns.store(20, Ordering::Relaxed);
        assert_eq!((span.part(5, 30), span.part(12, 14), span.part(20, 30)), (1, 1, 1));
        assert_eq!(span.part(21, 30), 2);
    }
}
