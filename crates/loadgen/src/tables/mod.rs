//! The tables of a workload: loaded, verified and read into memory, several at a time.

mod by_value;
mod load;
mod loaded;
mod local;
mod pool;
mod sql;

pub use load::{LoadOptions, Loaded, LoadedTable, Method, load};
pub use loaded::{verify, warm};
pub use local::{LocalRows, SentCounts};
pub use pool::{JobError, Sessions, TableError};
pub use sql::{TEXTS, load_data, quoted};
