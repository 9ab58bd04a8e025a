//! Reads tables into the server's memory.

use super::pool::{Sessions, TableError, each};
use workload::tables::Table;

/// Runs the statements that read every table and its indexes, on `threads` connections (0: as many
/// as there are processors).
pub fn warm(sessions: &Sessions<'_>, tables: &[Table], threads: usize) -> Result<(), TableError> {
    each(sessions, tables, threads, |connection, table, watch| {
        table.warm.iter().try_for_each(|statement| {
            connection
                .query(statement, watch)
                .map(drop)
                .map_err(|source| TableError::client(table, source))
        })
    })?;
    Ok(())
}
