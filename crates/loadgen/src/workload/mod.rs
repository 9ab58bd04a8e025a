//! Workloads as data: tables, drawn values, statements and tests, and what is made of them.
//!
//! `definition` is the shape alone; `values` fills its placeholders. `program` compiles a test into
//! what all its clients share, and a `script` is what one of them asks.

mod arithmetic;
pub mod bijection;
mod compile;
pub mod definition;
pub mod distribution;
pub(crate) mod draw;
mod drawn;
#[cfg(test)]
mod goodness;
mod making;
mod plan;
pub mod program;
pub mod random;
pub mod script;
mod statement;
mod steps;
pub(crate) mod tables;
pub mod values;
pub mod zipf;
