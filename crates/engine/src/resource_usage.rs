//! The resources that this process uses.

use std::fs;
use std::thread;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use serde::{Serialize, Serializer};

/// CPU time and context switches of all threads, since the start of the process or as a difference.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ResourceUsage {
    #[serde(rename = "user_s", serialize_with = "in_seconds")]
    user_us: i64,
    #[serde(rename = "system_s", serialize_with = "in_seconds")]
    system_us: i64,
    pub voluntary_switches: i64,
    pub involuntary_switches: i64,
}

impl ResourceUsage {
    pub fn now() -> Self {
        let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process may ask for its own usage");
        let microseconds = |time: TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
        Self {
            user_us: microseconds(usage.user_time()),
            system_us: microseconds(usage.system_time()),
            voluntary_switches: usage.voluntary_context_switches(),
            involuntary_switches: usage.involuntary_context_switches(),
        }
    }

    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            user_us: self.user_us - before.user_us,
            system_us: self.system_us - before.system_us,
            voluntary_switches: self.voluntary_switches - before.voluntary_switches,
            involuntary_switches: self.involuntary_switches - before.involuntary_switches,
        }
    }

    pub fn user_s(&self) -> f64 {
        seconds(self.user_us)
    }

    pub fn system_s(&self) -> f64 {
        seconds(self.system_us)
    }

    /// Return the CPU time, user and system, in seconds.
    pub fn cpu_s(&self) -> f64 {
        self.user_s() + self.system_s()
    }

    /// Return the CPU time as a share of the time of all the host's CPUs; 0 for an empty duration.
    pub fn host_share(&self, duration_s: f64) -> f64 {
        let cpus = thread::available_parallelism().map_or(1, usize::from) as f64;
        if duration_s > 0.0 { self.cpu_s() / (duration_s * cpus) } else { 0.0 }
    }
}

fn seconds(microseconds: i64) -> f64 {
    microseconds as f64 / 1e6
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde requires the reference
fn in_seconds<S: Serializer>(microseconds: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(seconds(*microseconds))
}

/// Return the maximum resident memory of this process. `getrusage` would also count the memory of
/// the parent process, between its fork and the exec.
pub fn max_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_touched_is_counted() {
        let touched = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(max_rss_bytes().unwrap() >= touched.len() as u64);
    }
}
