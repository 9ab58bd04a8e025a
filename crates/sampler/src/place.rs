//! On which CPUs to look from.

use std::fs;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// Moves to the CPUs of the process's main thread where other threads have others of their own.
///
/// A CPU that idles takes tens of microseconds to wake up for a tick. Where it idles because the only
/// thread that it is for is blocked, that wait may be over by then, and would never be seen. From a
/// CPU that has no part in it, the tick is as late whatever the thread does.
pub fn beside(pid: u32) {
    let Some(main) = cpus(pid) else { return };
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let mut tids = tasks.into_iter().flatten().flatten();
    let apart = tids.any(|task| {
        let tid = task.file_name().to_str().and_then(|tid| tid.parse().ok());
        tid.and_then(cpus).is_some_and(|own| own != main)
    });
    if apart {
        // Where that is not allowed, short waits are missed, which the account shows as unaccounted.
        let _ = sched_setaffinity(None, &main);
    }
}

/// The CPUs that a thread may run on; None where it has ended.
fn cpus(tid: u32) -> Option<CpuSet> {
    let tid = Pid::from_raw(tid.try_into().ok()?)?;
    sched_getaffinity(Some(tid)).ok()
}
