//! The scheduling class and the CPUs of the calling thread.

use std::fs;
use std::io;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// Set the calling thread's scheduling class (`libc::SCHED_*`), and its priority in that class.
pub fn enter(class: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the call only reads the parameters, which outlive it; 0 means the calling thread.
    let status = unsafe { libc::sched_setscheduler(0, class, &raw const parameters) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Move to the CPUs of a process's main thread, if other threads of the process are pinned to their
/// own CPUs.
///
/// An idle CPU takes tens of microseconds to wake up for a tick. If it is idle because its only
/// thread is blocked, the wait may be over by then, so such waits would never be seen. On another
/// CPU, the delay of a tick does not depend on what the thread does.
pub fn move_beside(pid: u32) {
    let Some(main) = cpus(pid) else { return };
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let mut tids = tasks.into_iter().flatten().flatten();
    let apart = tids.any(|task| {
        let tid = task.file_name().to_str().and_then(|tid| tid.parse().ok());
        tid.and_then(cpus).is_some_and(|own| own != main)
    });
    if apart {
        // If this is denied, short waits are missed, and the time breakdown shows them as
        // unaccounted.
        let _ = sched_setaffinity(None, &main);
    }
}

/// Return the CPUs on which a thread may run; None if it has ended.
fn cpus(tid: u32) -> Option<CpuSet> {
    let tid = Pid::from_raw(tid.try_into().ok()?)?;
    sched_getaffinity(Some(tid)).ok()
}
