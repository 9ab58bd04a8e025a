//! Workloads as data: tables, drawn values, statements and tests, and what is made of them.
//!
//! `definition` is the shape alone; `values` fills its placeholders. `program` compiles a test into
//! what all its clients share, and a `script` is what one of them asks.

mod answers;
mod arithmetic;
pub mod background_clients;
mod compile;
pub mod definition;
mod generated;
mod generation;
mod generator;
mod plan;
pub mod program;
pub mod script;
mod statement;
mod steps;
pub mod tables;
mod tails;
#[cfg(test)]
mod testing;
pub mod validation;
pub mod values;

pub use compile::statement_alone;
pub use validation::ValidationError;
