//! The parts of `millrace-load`, as a library for its own program and tests.

pub mod bench;
pub mod builtin;
pub mod check;
pub mod cli;
pub mod cpu_idle;
pub mod events;
pub mod run;
pub mod spec;
pub mod tables;
