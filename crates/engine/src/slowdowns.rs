//! Slowdowns: some sides rest at the end of each slice, so that a comparison has a known
//! difference.
//!
//! A side that is slowed down by a share rests for that share of the time its slice worked, as if
//! its server were stopped. It rests only when no request is under way: a pause after each answer
//! would change how client and server share a CPU, and so the latency of the statements themselves.
//! A rest that ends late shortens the next one. A rest of more than twice the intended length is a
//! stall, as any thread may have, and does not shorten the next rest: an analysis that excludes
//! stalls would only see the shorter rest.
//!
//! A slice after a pause has different latencies than a slice that follows at once: the server has
//! gone to sleep, and has finished its work after answers. So all sides pause for as long as the
//! side with the longest rest; sides differ in how much of the pause counts as theirs.

// The lost precision is less than a nanosecond in a month.
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use std::thread;
use std::time::Duration;

use super::clock::Clock;

/// A sleeping thread may wake up this much late, so it does not sleep in the last part of a rest.
const LATE_NS: u64 = 1_000_000;

/// The maximum time until a rest notices the end of the drive.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// The slowdowns of all sides.
#[derive(Debug)]
pub struct Slowdowns {
    /// By side; empty if no side is slowed down.
    sides: Vec<Slowdown>,
    largest: f64,
}

impl Slowdowns {
    pub fn new(shares: &[f64]) -> Self {
        Self {
            sides: shares.iter().copied().map(Slowdown::new).collect(),
            largest: shares.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Pause after a slice of `side`, unless `is_over`; return the time at which the side's own
    /// rest ended.
    pub fn pause(
        &mut self,
        side: usize,
        clock: Clock,
        from_ns: u64,
        answered_ns: u64,
        is_over: impl Fn() -> bool,
    ) -> u64 {
        let Some(slowdown) = self.sides.get_mut(side) else {
            return answered_ns;
        };
        let rested_until_ns = slowdown.rest(clock, from_ns, answered_ns, &is_over);
        let pause_ns = rest_ns(self.largest, answered_ns.saturating_sub(from_ns));
        wait(clock, answered_ns + pause_ns, is_over);
        rested_until_ns
    }
}

/// The share by which a side is slowed down, and by how much its last rest was too long.
#[derive(Debug)]
struct Slowdown {
    share: f64,
    late_ns: u64,
}

impl Slowdown {
    fn new(share: f64) -> Self {
        Self { share, late_ns: 0 }
    }

    /// Rest after a slice, unless `is_over`; return the time at which the rest ended.
    fn rest(
        &mut self,
        clock: Clock,
        from_ns: u64,
        answered_ns: u64,
        is_over: impl Fn() -> bool,
    ) -> u64 {
        let owed_ns = self.owed_ns(answered_ns.saturating_sub(from_ns));
        if owed_ns == 0 {
            return answered_ns;
        }
        let until_ns = wait(clock, answered_ns + owed_ns, is_over);
        self.rested(owed_ns, until_ns - answered_ns);
        until_ns
    }

    fn owed_ns(&mut self, worked_ns: u64) -> u64 {
        let nominal_ns = rest_ns(self.share, worked_ns);
        let owed_ns = nominal_ns.saturating_sub(self.late_ns);
        self.late_ns -= nominal_ns - owed_ns;
        owed_ns
    }

    fn rested(&mut self, owed_ns: u64, rested_ns: u64) {
        let late_ns = rested_ns.saturating_sub(owed_ns);
        self.late_ns += if late_ns <= owed_ns { late_ns } else { 0 };
    }
}

fn rest_ns(share: f64, worked_ns: u64) -> u64 {
    (share * worked_ns as f64).round() as u64
}

fn wait(clock: Clock, end_ns: u64, is_over: impl Fn() -> bool) -> u64 {
    loop {
        let now_ns = clock.now_ns();
        if now_ns >= end_ns || is_over() {
            return now_ns;
        }
        let left_ns = end_ns - now_ns;
        if left_ns > LATE_NS {
            thread::sleep(Duration::from_nanos(left_ns - LATE_NS).min(LONGEST_SLEEP));
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rest_lasts_until_its_end_or_is_broken_off() {
        let clock = Clock::start();
        let now_ns = clock.now_ns();
        let until_ns = Slowdown::new(1.0).rest(clock, now_ns, now_ns + 2 * LATE_NS, || false);
        assert!(until_ns >= now_ns + 4 * LATE_NS);
        let broken_off_ns = Slowdown::new(1e9).rest(clock, 0, until_ns, || true);
        assert!(broken_off_ns >= until_ns);
    }

    #[test]
    fn a_side_that_is_not_slower_pauses_as_long_and_none_of_it_counts() {
        let clock = Clock::start();
        let mut slowdowns = Slowdowns::new(&[0.0, 1.0]);
        let from_ns = clock.now_ns();
        let answered_ns = from_ns + LATE_NS;
        assert_eq!(slowdowns.pause(0, clock, from_ns, answered_ns, || false), answered_ns);
        assert!(clock.now_ns() >= answered_ns + LATE_NS);
    }

    #[test]
    fn nothing_counts_as_a_rest_where_no_side_is_slower() {
        for mut none in [Slowdowns::new(&[]), Slowdowns::new(&[0.0, 0.0])] {
            assert_eq!(none.pause(1, Clock::start(), 5, 7, || false), 7);
        }
    }

    #[test]
    fn a_stall_in_a_rest_is_not_made_up_for() {
        let mut side = Slowdown::new(0.5);
        assert_eq!(side.owed_ns(1_000), 500);
        side.rested(500, 1_001);
        assert_eq!(side.owed_ns(1_000), 500);
        side.rested(500, 1_000);
        assert_eq!(side.owed_ns(1_000), 0);
        assert_eq!(side.owed_ns(1_000), 500);
    }

    proptest! {
        #[test]
        fn rests_that_end_late_are_made_up_for(
            share in 0.001_f64..=1.0,
            slices in prop::collection::vec((1_000_u64..10_000_000, 0.0_f64..=1.0), 1..200),
        ) {
            let mut side = Slowdown::new(share);
            let (mut worked_ns, mut rested_ns) = (0, 0);
            for (worked, late) in slices {
                let owed_ns = side.owed_ns(worked);
                let rested = owed_ns + (late * owed_ns as f64) as u64;
                side.rested(owed_ns, rested);
                worked_ns += worked;
                rested_ns += rested;
            }
            let wanted_ns = share * worked_ns as f64;
            // Each slice rounds to a nanosecond; the last rest may have ended late.
            prop_assert!((rested_ns as f64 - side.late_ns as f64 - wanted_ns).abs() <= 200.0);
            prop_assert!(side.late_ns as f64 <= share * 10_000_000.0);
        }
    }
}
