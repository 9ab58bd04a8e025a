//! The CPUs that threads are pinned to.

use std::thread;

use rustix::io;
use rustix::thread::{CpuSet, sched_setaffinity};

/// The calling thread runs on this CPU only from now on.
pub fn pin(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

/// The first of these CPUs that no thread can be pinned to.
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
