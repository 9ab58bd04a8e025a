//! Wake-up latency: from the moment one thread signals another until that one runs.

use std::io;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

/// A pause before each signal, long enough for the CPU to halt.
const PAUSE: Duration = Duration::from_millis(1);

/// The longest wake-up that is distinguished from longer ones.
const LONGEST_NS: u64 = 1_000_000_000;

/// The time one CPU takes to run a thread that was signalled, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IdleLatency {
    pub cpu: usize,
    pub samples: usize,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
}

/// Measure each CPU this process may use, `samples` times each.
pub fn measure(samples: usize) -> io::Result<Vec<IdleLatency>> {
    let cpus = allowed_cpus()?;
    cpus.iter()
        .enumerate()
        .map(|(index, &cpu)| {
            // Signalled from another CPU where there is one, as a server is by its client.
            let from = cpus[(index + 1) % cpus.len()];
            measure_one(cpu, from, samples)
        })
        .collect()
}

/// Return the CPUs that this process may run on.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Bind the calling thread to one CPU.
pub fn pin_to(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

fn measure_one(cpu: usize, from: usize, samples: usize) -> io::Result<IdleLatency> {
    let (signal, signals) = channel::<Instant>();
    let (answer, answers) = channel::<Duration>();
    let sleeper = thread::spawn(move || -> io::Result<()> {
        pin_to(cpu)?;
        for signalled in signals {
            if answer.send(signalled.elapsed()).is_err() {
                break;
            }
        }
        Ok(())
    });
    let waker = thread::spawn(move || -> io::Result<Histogram<u64>> {
        pin_to(from)?;
        let mut latencies_ns = Histogram::new_with_bounds(1, LONGEST_NS, 3)
            .expect("the bounds are constants in range");
        for _ in 0..samples {
            thread::sleep(PAUSE);
            let taken = signal.send(Instant::now()).ok();
            let Some(latency) = taken.and_then(|()| answers.recv().ok()) else {
                break; // the sleeper ended; it says why
            };
            let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(LONGEST_NS);
            latencies_ns.saturating_record(nanoseconds);
        }
        Ok(latencies_ns)
    });
    let latencies_ns = waker.join().expect("the waker does not panic")?;
    sleeper.join().expect("the sleeper does not panic")?;
    #[allow(clippy::cast_precision_loss)] // below 2^53
    let quantile = |q: f64| latencies_ns.value_at_quantile(q) as f64 / 1e3;
    Ok(IdleLatency {
        cpu,
        samples,
        p50_us: quantile(0.5),
        p90_us: quantile(0.9),
        p99_us: quantile(0.99),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_allowed_cpu_is_measured() {
        let found = measure(20).unwrap();
        let cpus: Vec<usize> = found.iter().map(|one| one.cpu).collect();
        assert_eq!(cpus, allowed_cpus().unwrap());
        for one in found {
            assert!(one.p50_us > 0.0 && one.p50_us <= one.p90_us && one.p90_us <= one.p99_us);
        }
    }
}
