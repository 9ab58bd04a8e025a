//! What this process used of the host.

use std::fs;

use crate::events::ClientUsage;
use engine::Usage;

/// CPU time, context switches and memory of all threads since the start.
pub fn of_this_process() -> ClientUsage {
    let usage = Usage::now();
    ClientUsage {
        user_s: usage.user_s(),
        system_s: usage.system_s(),
        voluntary_switches: usage.voluntary_switches,
        involuntary_switches: usage.involuntary_switches,
        max_rss_bytes: max_rss_bytes(),
    }
}

/// The most memory that was resident. Not the figure of `getrusage`, which also counts what the
/// process that started this one had, from between its fork and its exec.
fn max_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
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
