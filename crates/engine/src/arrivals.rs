//! The arrivals of an open loop, from the schedule to the beginning of their transaction.

use std::time::Duration;

use super::budget::ThreadBudget;
use super::clock::nanoseconds;
use super::drive_result::Punctuality;
use super::schedule::Schedule;
use super::shared::{NEVER, Shared};

/// A transaction that begins later than it arrived by more than this is late. A thread that slept
/// starts within it on an idle host, sleeping virtual CPUs included.
pub const LATE_NS: u64 = 200_000;

/// A transaction that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub intended_ns: u64,
    /// It arrived in the measured part.
    pub measured: bool,
}

/// The arrivals of one thread. Those that wait for a free connection need no place: they are drawn
/// from the schedule when there is one.
#[derive(Debug)]
pub struct Arrivals {
    schedule: Schedule,
    next_ns: u64,
    /// It has arrived and not begun.
    waiting: Option<Arrival>,
    max_lateness_ns: u64,
    is_over: bool,
    /// Of the measured part.
    pub measured: Punctuality,
    /// Since this was last taken, whatever the part.
    pub recent: Punctuality,
}

impl Arrivals {
    pub fn new(mut schedule: Schedule, max_lateness: Option<Duration>) -> Self {
        Self {
            next_ns: schedule.next_ns(),
            schedule,
            waiting: None,
            max_lateness_ns: max_lateness.map_or(u64::MAX, nanoseconds),
            is_over: false,
            measured: Punctuality::default(),
            recent: Punctuality::default(),
        }
    }

    /// Return the oldest transaction that has arrived and may still begin; those that may not are
    /// skipped. It stays until `begun` is called.
    #[inline]
    pub fn next_due(
        &mut self,
        now_ns: u64,
        shared: &Shared,
        budget: &mut ThreadBudget<'_>,
    ) -> Option<Arrival> {
        let is_after_end = now_ns >= shared.measure_until_ns();
        loop {
            let arrival = match self.waiting.take() {
                Some(arrival) => arrival,
                None => self.take_arrived(now_ns, shared, budget)?,
            };
            if is_after_end || now_ns - arrival.intended_ns > self.max_lateness_ns {
                self.recent.skipped += 1;
                self.measured.skipped += u64::from(arrival.measured);
            } else {
                self.waiting = Some(arrival);
                return self.waiting;
            }
        }
    }

    fn take_arrived(
        &mut self,
        now_ns: u64,
        shared: &Shared,
        budget: &mut ThreadBudget<'_>,
    ) -> Option<Arrival> {
        let intended_ns = self.next_ns;
        if intended_ns >= shared.measure_until_ns() {
            self.is_over = now_ns >= shared.measure_until_ns();
        }
        if self.is_over || intended_ns > now_ns || intended_ns >= shared.measure_until_ns() {
            return None;
        }
        let measured = intended_ns >= shared.measure_from_ns();
        if measured && !budget.take() {
            self.is_over = true;
            return None;
        }
        self.recent.scheduled += 1;
        self.measured.scheduled += u64::from(measured);
        self.next_ns = self.schedule.next_ns();
        Some(Arrival { intended_ns, measured })
    }

    /// Record that the transaction that was due has begun.
    #[inline]
    pub fn begun(&mut self, now_ns: u64) {
        if let Some(arrival) = self.waiting.take()
            && now_ns - arrival.intended_ns > LATE_NS
        {
            self.recent.late += 1;
            self.measured.late += u64::from(arrival.measured);
        }
    }

    /// Nobody is left to begin what has arrived: that and what will arrive is no longer asked for.
    pub fn give_up(&mut self) {
        if let Some(arrival) = self.waiting.take() {
            self.recent.skipped += 1;
            self.measured.skipped += u64::from(arrival.measured);
        }
        self.is_over = true;
    }

    /// Return the time of the next arrival or of the schedule's end; never, once that has passed.
    #[inline]
    pub fn next_ns(&self, shared: &Shared) -> u64 {
        if self.is_over {
            return NEVER;
        }
        self.next_ns.min(shared.measure_until_ns())
    }

    /// Nothing waits and nothing arrives any more.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_over && self.waiting.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::clock::Clock;
    use crate::schedule::Share;
    use crate::settings::Arrivals as Law;

    const ALONE: Share = Share { clients: 1, threads: 1, thread: 0 };

    /// Arrivals every microsecond from 0; the part from 10 to 20 µs is measured.
    fn every_microsecond(budget: Option<Budget>) -> (Arrivals, Shared) {
        let shared = Shared::new(Clock::start(), 0, budget);
        shared.measure(10_000, 20_000);
        let schedule = Schedule::new(Law::Constant, 1e6, ALONE, 1, 0);
        (Arrivals::new(schedule, None), shared)
    }

    #[test]
    fn arrivals_are_counted_by_when_they_were_intended() {
        let (mut arrivals, shared) = every_microsecond(None);
        let mut budget = ThreadBudget::new(None);
        let mut begun = 0;
        for now_ns in (0..20_000).step_by(100) {
            while arrivals.next_due(now_ns, &shared, &mut budget).is_some() {
                arrivals.begun(now_ns);
                begun += 1;
            }
        }
        assert_eq!((begun, arrivals.is_over()), (20, false));
        assert!(arrivals.next_due(20_000, &shared, &mut budget).is_none());
        assert!(arrivals.is_over());
        assert_eq!((arrivals.measured.scheduled, arrivals.recent.scheduled), (10, 20));
        assert_eq!((arrivals.measured.skipped, arrivals.measured.late), (0, 0));
    }

    #[test]
    fn what_waits_until_the_end_is_skipped() {
        let (mut arrivals, shared) = every_microsecond(None);
        let mut budget = ThreadBudget::new(None);
        assert_eq!(arrivals.next_due(12_500, &shared, &mut budget).unwrap().intended_ns, 0);
        assert!(arrivals.next_due(20_000, &shared, &mut budget).is_none());
        assert!(arrivals.is_over());
        assert_eq!((arrivals.measured.scheduled, arrivals.measured.skipped), (10, 10));
        assert_eq!(arrivals.recent.skipped, 20);
    }

    #[test]
    fn what_waits_too_long_is_skipped_and_the_rest_may_be_late() {
        let shared = Shared::new(Clock::start(), 0, None);
        shared.measure(0, 10_000_000);
        let schedule = Schedule::new(Law::Constant, 1e3, ALONE, 1, 0);
        let mut arrivals = Arrivals::new(schedule, Some(Duration::from_millis(2)));
        let mut budget = ThreadBudget::new(None);
        let mut intended = Vec::new();
        while let Some(arrival) = arrivals.next_due(5_500_000, &shared, &mut budget) {
            intended.push(arrival.intended_ns / 1_000_000);
            arrivals.begun(5_500_000);
        }
        assert_eq!(intended, [4, 5]);
        assert_eq!((arrivals.measured.skipped, arrivals.measured.late), (4, 2));
    }

    #[test]
    fn a_budget_ends_the_arrivals_of_the_measured_part() {
        let (mut arrivals, shared) = every_microsecond(Some(Budget::new(3, 1)));
        let mut budget = ThreadBudget::new(shared.budget.as_ref());
        let mut begun = 0;
        while arrivals.next_due(19_500, &shared, &mut budget).is_some() {
            arrivals.begun(19_500);
            begun += 1;
        }
        assert_eq!((begun, arrivals.measured.scheduled), (13, 3));
        assert!(arrivals.is_over());
        assert_eq!(arrivals.next_ns(&shared), NEVER); // nothing to wake up for
    }
}
