//! Workload definitions, and the tables, generated values and statements compiled from them.
//!
//! `definition` has only the structure of a workload; `values` fills its placeholders. `program`
//! compiles a test into what all its clients share, and `script` generates the requests of one
//! client. Connections, timing and results do not belong here.

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
