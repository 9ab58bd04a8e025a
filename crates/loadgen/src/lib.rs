//! The parts of `millrace-load`, as a library for its own program, tests and fuzz targets.

pub mod bench;
pub mod board;
pub mod builtin;
pub mod cli;
pub mod data;
pub mod engine;
pub mod events;
pub mod mistake;
pub mod mysql;
pub mod run;
pub mod scheduling;
pub mod shown;
pub mod spec;
pub mod statement;
pub mod tables;
pub mod threads;
pub mod usage;
pub mod wakeup;
pub mod workload;
