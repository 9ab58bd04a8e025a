//! The tables of a workload: loaded, verified and read into memory.
//!
//! [`load()`], [`verify()`] and [`warm()`] work on several tables at a time, each on a connection of
//! its own.

mod by_value;
mod insert;
mod load;
mod loaded;
mod local;
mod pool;
mod sql;

pub use load::{LoadOptions, Loaded, LoadedTable, Method, load};
pub use loaded::{verify, warm};
pub use local::{LocalRows, SentCounts};
pub use pool::{Sessions, TableError};
pub use sql::{load_data, quoted};
