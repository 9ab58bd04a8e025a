//! Sleeping CPUs: how long one takes to wake, and how to keep them all awake.
//!
//! A CPU with nothing to do halts, and on a virtual machine it takes tens of microseconds to run
//! again. A server that answers one client sleeps between two requests, so that delay is in every
//! latency and dilutes the difference between two servers.

use std::fs::{self, File, OpenOptions};
use std::hint;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::thread::{CpuSet, sched_getaffinity};
use serde::Serialize;

use sampler::scheduling;

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

fn measure_one(cpu: usize, from: usize, samples: usize) -> io::Result<IdleLatency> {
    let (signal, signals) = channel::<Instant>();
    let (answer, answers) = channel::<Duration>();
    let sleeper = thread::spawn(move || -> io::Result<()> {
        engine::pin(cpu)?;
        for signalled in signals {
            if answer.send(signalled.elapsed()).is_err() {
                break;
            }
        }
        Ok(())
    });
    let waker = thread::spawn(move || -> io::Result<Histogram<u64>> {
        engine::pin(from)?;
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
    let quantile = |q: f64| latencies_ns.value_at_quantile(q) as f64 / 1e3;
    Ok(IdleLatency {
        cpu,
        samples,
        p50_us: quantile(0.5),
        p90_us: quantile(0.9),
        p99_us: quantile(0.99),
    })
}

/// A process that holds this file open with a number of microseconds in it bounds the time a CPU may take to
/// wake (Linux, PM `QoS`); 0 keeps the idle loop polling.
const LATENCY_REQUEST: &str = "/dev/cpu_dma_latency";

/// The niceness of this process's session, if the kernel schedules by session first (autogroup).
const SESSION_NICENESS: &str = "/proc/self/autogroup";
const NICEST: &str = "19";

/// The name of a thread that keeps a CPU awake, for who looks at this process.
const POLLER: &str = "poller";

/// The spins of a poller before it asks whether anyone else wants its CPU. The kernel (Linux 6.18)
/// does not take the CPU from it for whoever wakes up in another session, but lets it go on for
/// milliseconds: where each insert waited for the disk, a row took 3.0 ms, not 0.15.
const SPINS: usize = 50;

/// The means that keep the CPUs awake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DisablingMethod {
    /// The kernel took the request for no wake-up latency.
    pub latency_request: bool,
    /// CPUs with a thread of the idle class that never sleeps.
    pub pollers: usize,
}

/// As long as it lives, no CPU of those it was made for halts.
pub struct DisabledIdleStates {
    pub method: DisablingMethod,
    stop: Arc<AtomicBool>,
    pollers: Vec<JoinHandle<()>>,
    _latency_request: Option<File>,
}

impl DisabledIdleStates {
    /// Ask the kernel, and start a poller on each of the CPUs. The pollers run only where nothing
    /// else wants to: their scheduling class is the idle one. Fails when that class is refused,
    /// since pollers of the ordinary class would take CPU from the server.
    pub fn keep(cpus: &[usize]) -> io::Result<Self> {
        let latency_request = request_no_latency().ok();
        let mut awake = Self {
            method: DisablingMethod {
                latency_request: latency_request.is_some(),
                pollers: cpus.len(),
            },
            stop: Arc::new(AtomicBool::new(false)),
            pollers: Vec::new(),
            _latency_request: latency_request,
        };
        let (ready, outcomes) = channel();
        for &cpu in cpus {
            let (ready, stop) = (ready.clone(), Arc::clone(&awake.stop));
            let poller = thread::Builder::new().name(POLLER.to_owned()).spawn(move || {
                let outcome = engine::pin(cpu)
                    .map_err(io::Error::from)
                    .and_then(|()| scheduling::enter(libc::SCHED_IDLE, 0));
                let is_ready = outcome.is_ok();
                let sent = ready.send(outcome);
                while is_ready && sent.is_ok() && !stop.load(Ordering::Relaxed) {
                    for _ in 0..SPINS {
                        hint::spin_loop(); // leaves the core's resources to the other hyperthread
                    }
                    thread::yield_now();
                }
            })?;
            awake.pollers.push(poller);
        }
        for _ in cpus {
            outcomes.recv().map_err(|_| io::Error::other("a poller ended before it began"))??;
        }
        Ok(awake)
    }
}

impl Drop for DisabledIdleStates {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for poller in self.pollers.drain(..) {
            let _ = poller.join(); // it only spins; there is nothing in it to fail
        }
    }
}

/// Make this process's session give way to all others, if it is the leader of one.
///
/// The idle class holds among threads of one session only where the kernel shares CPUs among sessions
/// first: pollers in a session of their own took half of each CPU, in slices of milliseconds, from a
/// server in another. A session that others are in too is left as it is.
pub fn yield_to_other_sessions() {
    // SAFETY: neither call takes or touches memory; 0 is the calling process.
    let leads = unsafe { libc::getsid(0) == libc::getpid() };
    if leads {
        // Absent where the kernel does no such thing: then the idle class is all it takes.
        let _ = fs::write(SESSION_NICENESS, NICEST);
    }
}

fn request_no_latency() -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).open(LATENCY_REQUEST)?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file)
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

    /// Return the number of pollers of the idle class; this process may be of it as a whole.
    fn idle_class_pollers() -> usize {
        fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok())
            .filter(|stat| {
                let is_poller = stat.contains(&format!("({POLLER})"));
                let after_name = stat.rsplit(')').next().unwrap_or_default();
                // Field 41 of the line; the name was the second.
                is_poller && after_name.split_whitespace().nth(41 - 3) == Some("5")
            })
            .count()
    }

    /// Return true once there are this many pollers of the idle class. Another test may have some too, and
    /// one that has been joined is listed a moment longer.
    fn become_as_many(count: usize) -> bool {
        (0..1_000).any(|_| {
            thread::sleep(Duration::from_millis(10));
            idle_class_pollers() == count
        })
    }

    #[test]
    fn pollers_are_of_the_idle_class_and_end() {
        let cpus = allowed_cpus().unwrap();
        let awake = DisabledIdleStates::keep(&cpus).unwrap();
        assert_eq!(awake.method.pollers, cpus.len());
        assert!(become_as_many(cpus.len()));
        drop(awake);
        assert!(become_as_many(0));
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        assert!(DisabledIdleStates::keep(&[1023]).is_err());
    }
}
