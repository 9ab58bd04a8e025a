//! A sampler of the threads of another process: it looks at all of them at random moments.
//!
//! Clocks tell how long a thread was on a CPU, but not what it waited for when it was not. The kernel
//! tells for each thread whether it is blocked, in which system call and with which arguments
//! (`text`); the call's number says whether its first argument is a file descriptor (`calls`), and the
//! descriptor what is behind it (`targets`): a lock, a client's socket, a log, a data file. Looking
//! (`thread`) disturbs the process no more than any other that wants a CPU for some microseconds.
//!
//! At a tick (`sampler`) a few threads in turn are looked at, one right after the other, those that work
//! much first and more often, and only then counted (`tally`), each for the time since it was looked at
//! before. So it is known who waited while another thread made a log durable. Ticks come at
//! random intervals, so that nothing periodic is seen in step, and so rarely that they cost a small
//! share of a CPU at most (`pace`); they come on CPUs that are none of the threads' own (`scheduling`). A
//! command says when to begin and when to end (`control`, `session`).
//!
//! Where the clients show their statements on an activity file, a look at a thread that serves one of them is
//! a look at what that one shows too (`connection_map`). The client it serves is known from when it is first
//! seen to wait on the server's socket for it, best before the clients begin; looks before that are of
//! no statement's.

mod calls;
mod connection_map;
mod control;
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
    #[error("there is no process {0}")]
    Gone(u32),
    #[error(
        "the threads of process {pid} may not be looked at ({source}); run this as root, or as the \
         process's user where kernel.yama.ptrace_scope is 0"
    )]
    Refused { pid: u32, source: io::Error },
    #[error("this kernel does not tell what threads do (/proc/PID/task/TID/syscall): {0}")]
    Untold(String),
    #[error("{context}: {source}")]
    System { context: String, source: io::Error },
    #[error("{0:?} came where {1} was due")]
    Command(String, &'static str),
    #[error("standard output: {0}")]
    Output(io::Error),
}
