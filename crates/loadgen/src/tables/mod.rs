//! The tables of a workload: made, loaded, verified and read into memory.
//!
//! [`plan()`] makes [`Table`]s of a definition; [`load()`], [`verify()`] and [`warm()`] work on them,
//! several tables at a time, each on a connection of its own.

mod insert;
mod load;
mod plan;
mod pool;
mod rows;
mod sql;
mod value;
mod verify;
mod warm;

use std::sync::Arc;

pub use load::{How, Loaded, LoadedTable, Method, load};
pub use plan::plan;
pub use pool::{Sessions, TableError};
pub use rows::TableRows;
pub use sql::{load_data, quoted};
pub use verify::verify;
pub use warm::warm;

/// Names how rows are made: raise it whenever a byte of any definition's rows changes.
pub const VERSION: &str = "tables-1";

/// One table, every placeholder filled.
pub struct Table {
    pub name: String,
    pub create: String,
    /// Statements for the loaded table: secondary indexes.
    pub after_load: Vec<String>,
    /// Statements that read the table and its indexes into memory.
    pub warm: Vec<String>,
    pub columns: Vec<ColumnName>,
    pub rows: Arc<TableRows>,
}

/// A loaded column.
pub struct ColumnName {
    pub name: String,
    /// Compared byte for byte, whatever its character set.
    pub binary: bool,
}
