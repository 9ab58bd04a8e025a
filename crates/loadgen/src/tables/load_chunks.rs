//! Loads in stages: all tables are created, then filled chunk by chunk, then finished.
//!
//! Several connections may fill the same table. Tables with foreign keys need the stages: a server
//! locks the other table too while it creates or changes one of them.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::load::{LoadOptions, Loaded, LoadedTable, after_load, create, fill};
use super::local::SentCounts;
use super::pool::{OfTable, Sessions, TableError, each};
use super::sql;
use datagen::{Checksum, Rows};
use protocol::ClientError;
use protocol::mysql::{Connection, Deadline};
use workload::tables::Table;

/// Some rows of a table.
struct Chunk<'a> {
    table: &'a Table,
    index: usize,
    rows: Range<u64>,
}

impl OfTable for Chunk<'_> {
    fn table(&self) -> &Table {
        self.table
    }
}

/// Return the chunks of all tables, in such an order that the tables fill evenly; 0 rows are all of
/// a table.
fn chunks(tables: &[Table], chunk_rows: u64) -> Vec<Chunk<'_>> {
    let mut chunks = Vec::new();
    for (index, table) in tables.iter().enumerate() {
        let count = table.rows.count();
        let most = if chunk_rows == 0 { u64::MAX } else { chunk_rows };
        for from in (0..count).step_by(usize::try_from(most).unwrap_or(usize::MAX)) {
            let rows = from..count.min(from.saturating_add(most));
            chunks.push((u128::from(from) << 64, count, Chunk { table, index, rows }));
        }
    }
    chunks.sort_by_key(|(from, count, _)| from / u128::from(*count));
    chunks.into_iter().map(|(.., chunk)| chunk).collect()
}

/// Create the tables, fill them by as many connections as there are threads, and run what follows.
///
/// Tables with foreign keys are created and finished one at a time, in the order of the workload,
/// and rows are not checked for their parents: a load is to make the same rows in any order.
pub fn load(
    sessions: &Sessions<'_>,
    tables: &[Table],
    options: &LoadOptions,
    sent: &Arc<SentCounts>,
) -> Result<Loaded, TableError> {
    let refer = sql::refer_to_others(tables);
    let stage_threads = if refer { 1 } else { options.threads };
    each(sessions, tables, stage_threads, |connection, table, deadline| {
        unchecked(refer, connection, deadline)
            .and_then(|()| create(connection, table, deadline))
            .map_err(|source| TableError::client(table, source))
    })?;
    let chunks = chunks(tables, options.chunk_rows);
    let started = Instant::now();
    let filled = each(sessions, &chunks, options.threads, |connection, chunk, deadline| {
        unchecked(refer, connection, deadline)
            .and_then(|()| fill(connection, chunk.table, &chunk.rows, options, sent, deadline))
            .map(|filled| (filled, started.elapsed()))
            .map_err(|source| TableError::client(chunk.table, source))
    })?;
    let after = each(sessions, tables, stage_threads, |connection, table, deadline| {
        unchecked(refer, connection, deadline)
            .and_then(|()| after_load(connection, table, deadline))
            .map_err(|source| TableError::client(table, source))
    })?;
    let mut totals = vec![(Checksum::default(), Duration::ZERO); tables.len()];
    let mut loaded = Loaded::nothing(options.method, filled.connections);
    for (chunk, (filled, ended)) in chunks.iter().zip(filled.results) {
        let (rows, last) = &mut totals[chunk.index];
        *rows = rows.plus(filled.rows);
        *last = ended.max(*last);
        loaded.add(filled);
    }
    for ((table, (rows, load)), after) in tables.iter().zip(totals).zip(after.results) {
        loaded.tables.push(LoadedTable::new(table, rows, load, after));
    }
    Ok(loaded)
}

/// Let the session make rows without a look at the tables that they refer to.
fn unchecked(
    refer: bool,
    connection: &mut Connection,
    deadline: &Deadline,
) -> Result<(), ClientError> {
    if !refer {
        return Ok(());
    }
    connection.query("SET foreign_key_checks = 0", deadline).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datagen::TableRows;
    use datagen::column::Value;

    fn table(name: &str, rows: u64) -> Table {
        let value = Value::Constant { text: b"x".to_vec(), is_number: false };
        Table {
            name: name.to_owned(),
            create: String::new(),
            after_load: Vec::new(),
            warm: Vec::new(),
            columns: Vec::new(),
            rows: Arc::new(TableRows::new(rows, vec![value])),
        }
    }

    #[test]
    fn chunks_are_whole_tables_without_a_limit() {
        let tables = [table("a", 1000), table("b", 0), table("c", 250)];
        let rows: Vec<_> = chunks(&tables, 0).into_iter().map(|chunk| chunk.rows).collect();
        assert_eq!(rows, [0..1000, 0..250]);
    }

    #[test]
    fn tables_fill_evenly_and_each_row_comes_once() {
        let tables = [table("a", 1000), table("b", 0), table("c", 250)];
        let chunks = chunks(&tables, 100);
        let order: String = chunks.iter().map(|chunk| chunk.table.name.as_str()).collect();
        assert_eq!(order, "acaaaacaaaaca");
        for (index, table) in tables.iter().enumerate() {
            let own = chunks.iter().filter(|chunk| chunk.index == index);
            let rows: Vec<u64> = own.flat_map(|chunk| chunk.rows.clone()).collect();
            assert_eq!(rows, (0..table.rows.count()).collect::<Vec<_>>());
        }
    }
}
