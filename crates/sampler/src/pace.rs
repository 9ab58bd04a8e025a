//! The intervals between ticks.

use std::time::Duration;

use datagen::random::Random;

/// The weight of the last tick in the moving average of a tick's cost.
const WEIGHT: f64 = 1.0 / 16.0;

/// Random intervals between ticks, long enough that ticks stay within their CPU budget.
pub struct Pace {
    /// The mean interval at the maximum rate.
    shortest_s: f64,
    /// The maximum share of a CPU.
    budget: f64,
    /// The moving average of a tick's CPU time; None before the first tick.
    cost_s: Option<f64>,
    random: Random,
}

impl Pace {
    /// `rate_hz` (the maximum rate) and `budget` (the maximum share of a CPU) must be above 0.
    pub fn new(rate_hz: f64, budget: f64, seed: u64) -> Self {
        Self {
            shortest_s: 1.0 / rate_hz,
            budget,
            cost_s: None,
            random: Random::of(seed, "ticks", 0),
        }
    }

    /// Record the CPU time of a tick and of all work related to it.
    pub fn spent(&mut self, cpu_s: f64) {
        let mean_s = self.cost_s.unwrap_or(cpu_s);
        self.cost_s = Some(mean_s + WEIGHT * (cpu_s - mean_s));
    }

    /// Draw the time to wait: uniform from half to one and a half times the mean.
    pub fn interval(&mut self) -> Duration {
        let mean_s = self.shortest_s.max(self.cost_s.unwrap_or(0.0) / self.budget);
        Duration::from_secs_f64(mean_s * (0.5 + self.random.unit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Return the rate and the share of a CPU if ticks cost `costs_s` in turn.
    fn paced(mut pace: Pace, costs_s: &[f64]) -> (f64, f64) {
        let (mut time_s, mut cpu_s) = (0.0, 0.0);
        let mut ticks = 0.0;
        for cost_s in costs_s.iter().cycle().take(20_000) {
            pace.spent(*cost_s);
            cpu_s += cost_s;
            time_s += pace.interval().as_secs_f64();
            ticks += 1.0;
        }
        (ticks / time_s, cpu_s / time_s)
    }

    #[test]
    fn ticks_come_at_the_highest_rate_or_as_often_as_the_budget_allows() {
        for (cost_s, expected_hz, expected_share) in [(10e-6, 100.0, 0.001), (400e-6, 25.0, 0.01)] {
            let (rate_hz, share) = paced(Pace::new(100.0, 0.01, 1), &[cost_s]);
            assert!((rate_hz / expected_hz - 1.0).abs() < 0.02, "{rate_hz}");
            assert!((share / expected_share - 1.0).abs() < 0.02, "{share}");
        }
    }

    proptest! {
        #[test]
        fn neither_rate_nor_budget_is_exceeded(
            rate_hz in 1.0..1e4,
            budget in 1e-3..1.0,
            costs_s in prop::collection::vec(1e-6..1e-2, 1..50),
            seed: u64,
        ) {
            let (achieved_hz, share) = paced(Pace::new(rate_hz, budget, seed), &costs_s);
            prop_assert!(achieved_hz <= 1.03 * rate_hz, "{achieved_hz}");
            prop_assert!(share <= 1.03 * budget, "{share}");
        }

        #[test]
        fn intervals_are_random(rate_hz in 1.0..1e4, seed: u64) {
            let mut pace = Pace::new(rate_hz, 0.01, seed);
            let intervals: Vec<f64> = (0..100)
                .map(|_| pace.interval().as_secs_f64() * rate_hz)
                .collect();
            prop_assert!(intervals.iter().all(|one| (0.49..1.51).contains(one)));
            prop_assert!(intervals.iter().any(|one| *one < 0.8));
            prop_assert!(intervals.iter().any(|one| *one > 1.2));
        }
    }
}
