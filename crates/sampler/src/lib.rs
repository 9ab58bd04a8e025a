//! Samples the threads of another process at random moments.
//!
//! CPU time shows how long a thread ran, but not what it waited for otherwise. The kernel reports
//! for each thread whether it is blocked, in which system call and with which arguments (`text`).
//! The call's number tells whether the first argument is a file descriptor (`calls`), and the
//! descriptor identifies the object (`targets`): a lock, a client's socket, a log, a data file. A
//! sample (`thread`) disturbs the process no more than any other program that needs a CPU for some
//! microseconds.
//!
//! A tick (`sampler`) samples a few threads in turn, busy threads first and more often. Each sample
//! counts (`tally`) for the time since the thread's previous sample. This also shows which threads
//! waited while another thread flushed a log. Ticks come at random intervals, so that they do not
//! match a rhythm of the process, and rarely enough to use at most a small share of a CPU (`pace`).
//! They avoid CPUs to which threads of the process are pinned (`scheduling`). Commands start and
//! stop the counting (`session`).
//!
//! If clients publish their statements, a sample of a thread that serves a client is also a sample
//! of the client's statement (`connection_map`). A thread's client is known from the first sample
//! in which the thread waits on the client's socket, ideally before clients begin; earlier samples
//! belong to no statement.

mod calls;
mod connection_map;
mod names;
mod pace;
mod report;
mod sampler;
pub mod scheduling;
mod session;
mod tally;
mod targets;
mod text;
mod thread;

use std::io;

use thiserror::Error;

pub use report::Message;
pub use session::{Settings, run};

/// The reason why threads cannot be sampled.
#[derive(Debug, Error)]
pub enum ThreadsError {
    #[error("process {0} does not exist")]
    Gone(u32),
    #[error(
        "the threads of process {pid} may not be inspected ({source}); run this as root, or as the \
         process's user where kernel.yama.ptrace_scope is 0"
    )]
    Refused { pid: u32, source: io::Error },
    #[error("this kernel does not report what threads do (/proc/PID/task/TID/syscall): {0}")]
    Unknown(String),
    #[error("{context}: {source}")]
    System { context: String, source: io::Error },
    #[error("{0:?} came where {1} was due")]
    Command(String, &'static str),
    #[error("standard output: {0}")]
    Output(io::Error),
}
