//! The scheduling class of a thread.

use std::io;

/// Puts the calling thread into a class of the kernel's scheduler (`libc::SCHED_*`), with a priority
/// that has a meaning there.
pub fn enter(class: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the call only reads the parameters, which outlive it; 0 is the calling thread.
    let status = unsafe { libc::sched_setscheduler(0, class, &raw const parameters) };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
