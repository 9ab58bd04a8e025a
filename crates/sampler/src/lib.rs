//! A sampler of the threads of another process, at random moments.
//!
//! A clock shows how long a thread was on a CPU, but not what it waited for otherwise. The kernel shows
//! for each thread whether it is blocked, in which system call and with which arguments (`text`); the
//! call's number says whether its first argument is a file descriptor (`calls`), and the descriptor what
//! its object is (`targets`): a lock, a client's socket, a log, a data file. A sample (`thread`) disturbs
//! the process no more than any other process that wants a CPU for some microseconds.
//!
//! A tick (`sampler`) samples a few threads in turn, those that work much first and more often, and counts
//! each sample (`tally`) for the time since the thread's previous one. This shows who waited while another
//! thread made a log durable. Ticks come at random intervals, so that they meet no rhythm of the process,
//! and rarely enough to cost a small share of a CPU at most (`pace`); they come on CPUs that are none of
//! the threads' own (`scheduling`). Commands begin and end the counting (`session`).
//!
//! Where clients publish their statements, a sample of a thread that serves one is a sample of its
//! statement, too (`connection_map`). A thread's client is known from the first sample in which it waits
//! on that client's socket, best before clients begin; earlier samples belong to no statement.

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

/// Why threads cannot be sampled.
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
