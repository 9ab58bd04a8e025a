//! The arrivals of transactions in an open loop.

use datagen::Stream;

use super::settings::Arrivals;

/// The arrivals of one thread's clients, drawn before anything is sent and whatever happens then.
///
/// The whole of the arrivals has the rate; a thread gets the share of its clients. Constant
/// arrivals go to all clients in turn, so that those of all threads together are evenly spaced.
/// Poisson processes of the threads' shares add up to a Poisson process of the whole rate.
#[derive(Debug)]
pub struct Schedule {
    start_ns: u64,
    gaps: Gaps,
}

#[derive(Debug)]
enum Gaps {
    Constant {
        period_s: f64,
        clients: u64,
        threads: u64,
        thread: u64,
        /// The client whose turn is next, and how often all had theirs.
        client: u64,
        round: u64,
    },
    Poisson {
        mean_s: f64,
        random: Stream,
        position: u64,
        elapsed_s: f64,
    },
}

/// Client `n` belongs to thread `n % threads`.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    pub clients: u32,
    pub threads: u32,
    pub thread: u32,
}

impl Schedule {
    /// Make the arrivals from `start_ns` on; `rate` is that of all threads, a second.
    pub fn new(arrivals: Arrivals, rate: f64, share: Share, seed: u64, start_ns: u64) -> Self {
        let gaps = match arrivals {
            Arrivals::Constant => Gaps::Constant {
                period_s: 1.0 / rate,
                clients: share.clients.into(),
                threads: share.threads.into(),
                thread: share.thread.into(),
                client: share.thread.into(),
                round: 0,
            },
            Arrivals::Poisson => {
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

    /// Return the next arrival, in nanoseconds of the clock that `start_ns` is of.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // whole numbers below 2^53; positive times below 2^63 ns
    pub fn next_ns(&mut self) -> u64 {
        let elapsed_s = match &mut self.gaps {
            Gaps::Constant { period_s, clients, threads, thread, client, round } => {
                let number = *round * *clients + *client;
                *client += *threads;
                if *client >= *clients {
                    *client = *thread;
                    *round += 1;
                }
                number as f64 * *period_s
            }
            Gaps::Poisson { mean_s, random, position, elapsed_s } => {
                // Uniform over (0, 1], so that the logarithm is finite.
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
#[allow(clippy::cast_precision_loss)] // small numbers
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedule(arrivals: Arrivals, share: Share, rate: f64, seed: u64) -> Schedule {
        Schedule::new(arrivals, rate, share, seed, 1_000)
    }

    fn all_below(arrivals: Arrivals, clients: u32, threads: u32, rate: f64, end: u64) -> Vec<u64> {
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
            let times = all_below(Arrivals::Constant, clients, threads, 1e6, 1_000 + 1_000_000);
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
            // 20,000 expected; 5 standard deviations are 707.
            let count = (0..threads).map(|thread| {
                let share = Share { clients, threads, thread };
                let mut schedule = schedule(Arrivals::Poisson, share, 1e4, seed);
                std::iter::from_fn(|| (schedule.next_ns() < 2_000_001_000).then_some(())).count()
            }).sum::<usize>();
            prop_assert!(count.abs_diff(20_000) < 707, "{}", count);
        }
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        // Kolmogorov-Smirnov: the greatest distance to the law stays below 1.95 / sqrt(n), which
        // a right sample exceeds once in a thousand seeds; this one does not.
        let times = all_below(Arrivals::Poisson, 4, 2, 1e5, 1_000_000_000);
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
