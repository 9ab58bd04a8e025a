//! The system calls in which threads block, and the meaning of their arguments.

use libc::c_long;

/// The purpose of a system call, and the arguments that refer to descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Waits for a lock, for a time, or for queued requests; no argument is a descriptor.
    Wait,
    /// Waits for the descriptor in its first argument.
    WaitOn,
    /// Waits for descriptors: the first argument is their list, the second their number.
    Poll,
    /// Waits for descriptors below its first argument.
    Select,
    /// Uses the descriptor in its first argument.
    Use,
    /// Writes to the descriptor in its first argument.
    Write,
    /// Flushes the descriptor in its first argument to disk.
    Sync,
    /// Flushes mapped memory to disk. That memory is a log: servers do not write data files through
    /// mappings.
    SyncMemory,
    Other,
}

/// `libc` does not define the number of this newer call for this architecture.
#[cfg(target_arch = "x86_64")]
const IO_PGETEVENTS: c_long = 333;
#[cfg(not(target_arch = "x86_64"))]
const IO_PGETEVENTS: c_long = 292;

/// Return the kind of the system call with this number on this CPU architecture.
#[rustfmt::skip] // a table of calls
pub fn kind(number: c_long) -> Kind {
    if let Some(kind) = old_kind(number) {
        return kind;
    }
    match number {
        libc::SYS_futex | libc::SYS_futex_waitv | libc::SYS_nanosleep | libc::SYS_clock_nanosleep
        | libc::SYS_restart_syscall | libc::SYS_rt_sigsuspend | libc::SYS_rt_sigtimedwait
        | libc::SYS_wait4 | libc::SYS_waitid | libc::SYS_io_getevents | IO_PGETEVENTS => Kind::Wait,
        libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_recvmmsg | libc::SYS_accept
        | libc::SYS_accept4 | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2
        | libc::SYS_io_uring_enter => Kind::WaitOn,
        libc::SYS_ppoll => Kind::Poll,
        libc::SYS_pselect6 => Kind::Select,
        libc::SYS_read | libc::SYS_readv | libc::SYS_pread64 | libc::SYS_preadv
        | libc::SYS_preadv2 | libc::SYS_getdents64 | libc::SYS_readahead | libc::SYS_lseek
        | libc::SYS_flock | libc::SYS_fcntl | libc::SYS_ioctl | libc::SYS_connect
        | libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg | libc::SYS_ftruncate
        | libc::SYS_fallocate => Kind::Use,
        libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 | libc::SYS_pwritev
        | libc::SYS_pwritev2 => Kind::Write,
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_sync_file_range | libc::SYS_syncfs => Kind::Sync,
        libc::SYS_msync => Kind::SyncMemory,
        _ => Kind::Other,
    }
}

/// Return the kind of a system call that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
fn old_kind(number: c_long) -> Option<Kind> {
    match number {
        libc::SYS_poll => Some(Kind::Poll),
        libc::SYS_select => Some(Kind::Select),
        libc::SYS_epoll_wait => Some(Kind::WaitOn),
        libc::SYS_pause => Some(Kind::Wait),
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn old_kind(_: c_long) -> Option<Kind> {
    None
}
