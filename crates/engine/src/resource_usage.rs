//! The resources that this process uses.

use std::fs;
use std::thread;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::drive_result::ClientCpu;

/// CPU time and context switches of all threads, since the start or since another time.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceUsage {
    user_us: i64,
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

    #[allow(clippy::cast_precision_loss)] // exact for 285 years of microseconds
    pub fn user_s(&self) -> f64 {
        self.user_us as f64 / 1e6
    }

    #[allow(clippy::cast_precision_loss)] // exact for 285 years of microseconds
    pub fn system_s(&self) -> f64 {
        self.system_us as f64 / 1e6
    }

    #[allow(clippy::cast_precision_loss)] // CPUs are few
    pub fn over(&self, duration_s: f64) -> ClientCpu {
        let cpus = thread::available_parallelism().map_or(1, usize::from) as f64;
        let (user_s, system_s) = (self.user_s(), self.system_s());
        let host_share =
            if duration_s > 0.0 { (user_s + system_s) / (duration_s * cpus) } else { 0.0 };
        ClientCpu {
            user_s,
            system_s,
            voluntary_switches: self.voluntary_switches,
            involuntary_switches: self.involuntary_switches,
            host_share,
        }
    }
}

/// Return the most memory of this process that was resident. It is not the figure of `getrusage`,
/// which also counts what the process that started this one had, from between its fork and its exec.
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
