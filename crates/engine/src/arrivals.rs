//! The arrivals of an open loop: their schedule, and how late each transaction began.

use std::time::Duration;

use datagen::Stream;

use super::budget::ThreadBudget;
use super::clock::nanoseconds;
use super::drive_result::Punctuality;
use super::settings::Arrivals as Law;
use super::shared::{NEVER, Shared};

/// A transaction is late if it begins more than this after its arrival. On an idle host, a thread
/// wakes up within this time, even on a virtual CPU that sleeps.
pub const LATE_NS: u64 = 200_000;

#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub intended_ns: u64,
    /// True if it arrived in the measured part.
    pub measured: bool,
}

/// The arrivals of one thread. None is taken from the schedule before a connection is idle.
#[derive(Debug)]
pub struct Arrivals {
    schedule: Schedule,
    next_ns: u64,
    /// The arrival that has not begun yet.
    waiting: Option<Arrival>,
    max_lateness_ns: u64,
    is_over: bool,
    /// Arrivals of the measured part.
    pub measured: Punctuality,
    /// Arrivals since `recent` was last taken, in any part.
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

    /// Return the oldest arrival that may still begin, and skip those that may not. The arrival
    /// stays until `begun` is called.
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

    /// Record that the due transaction has begun.
    #[inline]
    pub fn begun(&mut self, now_ns: u64) {
        if let Some(arrival) = self.waiting.take()
            && now_ns - arrival.intended_ns > LATE_NS
        {
            self.recent.late += 1;
            self.measured.late += u64::from(arrival.measured);
        }
    }

    /// Skip the current arrival and all further ones, because no client is left.
    pub fn give_up(&mut self) {
        if let Some(arrival) = self.waiting.take() {
            self.recent.skipped += 1;
            self.measured.skipped += u64::from(arrival.measured);
        }
        self.is_over = true;
    }

    /// Return the time of the next arrival or of the schedule's end; `NEVER` after the end.
    #[inline]
    pub fn next_ns(&self, shared: &Shared) -> u64 {
        if self.is_over {
            return NEVER;
        }
        self.next_ns.min(shared.measure_until_ns())
    }

    /// Return whether no arrival is waiting and none will come.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_over && self.waiting.is_none()
    }
}

/// The schedule of one thread's arrivals, which does not depend on the server.
///
/// The threads together have the full rate; each thread has the share of its clients. Constant
/// arrivals go to all clients in turn, so those of all threads together are evenly spaced. Poisson
/// processes of the threads' shares add up to a Poisson process of the full rate.
#[derive(Debug)]
pub struct Schedule {
    start_ns: u64,
    gaps: Gaps,
}

#[derive(Debug)]
enum Gaps {
    Constant {
        period_s: f64,
        share: Share,
        /// The client of the next arrival, and the number of rounds over all clients.
        client: u32,
        round: u64,
    },
    Poisson {
        mean_s: f64,
        random: Stream,
        position: u64,
        elapsed_s: f64,
    },
}

/// The clients of one thread: client `n` belongs to thread `n % threads`.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    pub clients: u32,
    pub threads: u32,
    pub thread: u32,
}

impl Schedule {
    /// Return the schedule from `start_ns` on; `rate` is the arrivals per second of all threads.
    pub fn new(arrivals: Law, rate: f64, share: Share, seed: u64, start_ns: u64) -> Self {
        let gaps = match arrivals {
            Law::Constant => {
                Gaps::Constant { period_s: 1.0 / rate, share, client: share.thread, round: 0 }
            }
            Law::Poisson => {
                let own = (share.clients - share.thread).div_ceil(share.threads);
                Gaps::Poisson {
                    mean_s: f64::from(share.clients) / f64::from(own) / rate,
                    random: Stream::named(seed, &format!("arrivals of thread {}", share.thread)),
                    position: 0,
                    elapsed_s: 0.0,
                }
            }
        };
        Self { start_ns, gaps }
    }

    /// Return the time of the next arrival in nanoseconds, on the clock of `start_ns`.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // integers below 2^53; positive times below 2^63 ns
    pub fn next_ns(&mut self) -> u64 {
        let elapsed_s = match &mut self.gaps {
            Gaps::Constant { period_s, share, client, round } => {
                let number = *round * u64::from(share.clients) + u64::from(*client);
                *client += share.threads;
                if *client >= share.clients {
                    *client = share.thread;
                    *round += 1;
                }
                number as f64 * *period_s
            }
            Gaps::Poisson { mean_s, random, position, elapsed_s } => {
                // Uniform over (0, 1], so the logarithm is finite.
                let uniform = ((random.at(*position) >> 11) + 1) as f64 / (1u64 << 53) as f64;
                *position += 1;
                *elapsed_s -= uniform.ln() * *mean_s;
                *elapsed_s
            }
        };
        self.start_ns + (elapsed_s * 1e9) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::clock::Clock;
    use proptest::prelude::*;

    const ALONE: Share = Share { clients: 1, threads: 1, thread: 0 };

    /// Return arrivals every microsecond from 0 on; the part from 10 to 20 µs is measured.
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
        assert_eq!(arrivals.next_ns(&shared), NEVER); // there is nothing to wake up for
    }

    fn schedule(arrivals: Law, share: Share, rate: f64, seed: u64) -> Schedule {
        Schedule::new(arrivals, rate, share, seed, 1_000)
    }

    fn all_below(arrivals: Law, clients: u32, threads: u32, rate: f64, end: u64) -> Vec<u64> {
        let mut times: Vec<u64> = (0..threads)
            .flat_map(|thread| {
                let share = Share { clients, threads, thread };
                let mut schedule = schedule(arrivals, share, rate, 7);
                std::iter::from_fn(move || Some(schedule.next_ns())).take_while(move |&t| t < end)
            })
            .collect();
        times.sort_unstable();
        times
    }

    proptest! {
        #[test]
        fn constant_arrivals_are_even_over_any_threads(clients in 1u32..50, threads in 1u32..8) {
            let threads = threads.min(clients);
            let times = all_below(Law::Constant, clients, threads, 1e6, 1_000 + 1_000_000);
            let expected: Vec<u64> = (0..1000).map(|number| 1_000 + number * 1_000).collect();
            prop_assert_eq!(times.len(), expected.len());
            for (time, expected) in times.iter().zip(expected) {
                prop_assert!(time.abs_diff(expected) <= 1);
            }
        }

        #[test]
        fn poisson_arrivals_have_the_rate_and_spread_of_their_law(
            clients in 1u32..50, threads in 1u32..8, seed: u64,
        ) {
            let threads = threads.min(clients);
            // 20,000 are expected; 707 is 5 standard deviations.
            let count = (0..threads).map(|thread| {
                let share = Share { clients, threads, thread };
                let mut schedule = schedule(Law::Poisson, share, 1e4, seed);
                std::iter::from_fn(|| (schedule.next_ns() < 2_000_001_000).then_some(())).count()
            }).sum::<usize>();
            prop_assert!(count.abs_diff(20_000) < 707, "{}", count);
        }
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        // Kolmogorov-Smirnov: the maximum distance to the law stays below 1.95 / sqrt(n). A correct
        // sample exceeds that for one in a thousand seeds, but not for this one.
        let times = all_below(Law::Poisson, 4, 2, 1e5, 1_000_000_000);
        let mut gaps: Vec<f64> =
            times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e4).collect();
        gaps.sort_by(f64::total_cmp);
        let n = gaps.len() as f64;
        let distance = gaps
            .iter()
            .enumerate()
            .map(|(rank, gap)| ((1.0 - (-gap).exp()) - rank as f64 / n).abs())
            .fold(0.0, f64::max);
        assert!(distance < 1.95 / n.sqrt(), "{distance}");
    }
}
