//! The timer and the CPU of a thread that drives clients.

use std::num::NonZeroU64;
use std::thread;

use protocol::ClientError;
use rustix::io;
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};

/// Pin the calling thread to a CPU.
fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

/// Make the timer of the calling thread precise, and pin the thread to `cpu` if there is one.
pub fn set_up(cpu: Option<usize>) -> Result<(), ClientError> {
    let failed = |context: String| {
        |errno: rustix::io::Errno| ClientError::System { context, source: errno.into() }
    };
    set_current_timer_slack(NonZeroU64::new(1))
        .map_err(failed("cannot make the timer precise".to_owned()))?;
    let Some(cpu) = cpu else {
        return Ok(());
    };
    pin(cpu).map_err(failed(format!("cannot run a client thread on CPU {cpu}")))
}

/// Return the first of these CPUs that no thread can be pinned to.
pub fn first_unusable(cpus: &[usize]) -> Option<usize> {
    // Tried, by a thread that ends then: what the host lists, a container may be denied.
    let find = || cpus.iter().copied().find(|&cpu| pin(cpu).is_err());
    thread::scope(|scope| scope.spawn(find).join().ok().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_host_has_all_cpus() {
        let all: Vec<usize> = (0..CpuSet::MAX_CPU).collect();
        let missing = first_unusable(&all).unwrap();
        assert_eq!(first_unusable(&all[..missing]), None);
    }
}
