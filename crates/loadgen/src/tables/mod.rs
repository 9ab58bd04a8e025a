//! The tables of a workload: loaded, verified and read into memory.
//!
//! [`load()`], [`verify()`] and [`warm()`] work on several tables at a time, each on a connection of
//! its own.

mod insert;
mod load;
mod local;
mod pool;
mod sql;
mod verify;
mod warm;

pub use load::{How, Loaded, LoadedTable, Method, load};
pub use local::{LocalRows, Sent, rows_in};
pub use pool::{Sessions, TableError};
pub use sql::{load_data, quoted};
pub use verify::verify;
pub use warm::warm;
