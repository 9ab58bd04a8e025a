//! The clock of a drive.

use std::time::{Duration, Instant};

/// Monotonic nanoseconds since the drive began; all threads have the same.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// Begin the time of a drive.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Costs some 30 ns, so the hot path reads it twice a request and no more.
    #[inline]
    pub fn now_ns(self) -> u64 {
        nanoseconds(self.origin.elapsed())
    }

    pub fn now_s(self) -> f64 {
        seconds(self.now_ns())
    }
}

/// Convert a duration of up to 584 years.
#[inline]
pub fn nanoseconds(duration: Duration) -> u64 {
    duration.as_secs() * 1_000_000_000 + u64::from(duration.subsec_nanos())
}

/// Nanoseconds as seconds.
#[allow(clippy::cast_precision_loss)] // exact to a nanosecond for 104 days
pub fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}
