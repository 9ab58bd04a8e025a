//! The subjects of the system calls that threads block in.

use libc::c_long;

/// The subject of a system call, as far as its number tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It waits: for a lock, for a time, for requests that were queued. There is no more to tell.
    Wait,
    /// It waits on the descriptor that is its first argument.
    WaitOn,
    /// It waits on descriptors: their list is the first argument, their number the second.
    Poll,
    /// It waits on descriptors below its first argument.
    Select,
    /// It does something with the descriptor that is its first argument.
    Use,
    /// It writes to the descriptor that is its first argument.
    Write,
    /// It makes durable what was written to the descriptor that is its first argument.
    Sync,
    /// It makes durable what was written to memory, which is a log: servers map no data to write it.
    SyncMemory,
    Other,
}

/// Newer than the numbers that `libc` has for this architecture.
#[cfg(target_arch = "x86_64")]
const IO_PGETEVENTS: c_long = 333;
#[cfg(not(target_arch = "x86_64"))]
const IO_PGETEVENTS: c_long = 292;

/// Return the subject of the call of this number, on this processor's architecture.
#[rustfmt::skip] // the calls are a table
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

/// Call that newer architectures no longer have.
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
