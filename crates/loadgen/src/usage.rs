//! What this process used of the host.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::events::ClientUsage;

/// CPU time, context switches and memory of all threads since the start.
pub fn of_this_process() -> ClientUsage {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process may ask for its own usage");
    ClientUsage {
        user_s: seconds(usage.user_time()),
        system_s: seconds(usage.system_time()),
        voluntary_switches: usage.voluntary_context_switches(),
        involuntary_switches: usage.involuntary_context_switches(),
        max_rss_bytes: usage.max_rss() * 1024,
    }
}

#[allow(clippy::cast_precision_loss)] // exact for 285 years of microseconds
fn seconds(time: TimeVal) -> f64 {
    (time.tv_sec() * 1_000_000 + time.tv_usec()) as f64 / 1e6
}
