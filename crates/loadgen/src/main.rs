//! `millrace-load`, the load generator: makes data, drives clients, measures what they see.
//!
//! Standard output is data or JSON lines, standard error is for people. Exit status: 0 done, 1 the
//! server or the host failed, 2 a mistake in the command or the specification, 130 interrupted,
//! 141 nobody reads standard output any more.

use std::process::ExitCode;

use protocol::shown::shown;

fn main() -> ExitCode {
    millrace_load::cli::main().unwrap_or_else(|problem| {
        if let Some(message) = problem.message {
            eprintln!("millrace-load: {}", shown(&message));
        }
        ExitCode::from(problem.exit_status)
    })
}
