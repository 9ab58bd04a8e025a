//! Compares what a server holds with what was generated.

use std::thread;

use super::pool::{Sessions, TableError, each};
use super::{Table, sql};
use crate::data::{self, Checksum, Rows};
use crate::mysql::{ClientError, Connection, ProtocolError, Watch};

/// Counts and sums every table on the server and compares; what is expected is made anew.
///
/// Sessions must be in UTC where a column is a timestamp.
pub fn verify(sessions: &Sessions<'_>, tables: &[Table]) -> Result<(), TableError> {
    each(sessions, tables, 0, verify_table)?;
    Ok(())
}

fn verify_table(
    connection: &mut Connection,
    table: &Table,
    watch: &Watch,
) -> Result<(), TableError> {
    let rows = table.rows.as_ref();
    let (found, expected) = thread::scope(|scope| {
        let expected = scope.spawn(|| data::checksum(rows, &(0..rows.count()), 1));
        let found = found(connection, table, watch);
        (found, expected.join().expect("making rows does not panic"))
    });
    let found = found.map_err(|source| TableError::client(table, source))?;
    if (found.rows, found.sum) == (expected.rows, expected.sum) {
        return Ok(());
    }
    Err(TableError::Mismatch {
        table: table.name.clone(),
        found,
        expected,
    })
}

/// What the server holds; it knows no bytes.
fn found(
    connection: &mut Connection,
    table: &Table,
    watch: &Watch,
) -> Result<Checksum, ClientError> {
    let outcome = connection.query(&sql::checksum(table), watch)?;
    let answer = outcome
        .rows
        .and_then(|mut rows| rows.pop())
        .unwrap_or_default();
    let found = match answer.as_slice() {
        [Some(rows), sum] => rows.parse().ok().zip(match sum {
            Some(sum) => sum.parse().ok(),
            None => Some(0), // of no rows
        }),
        _ => None,
    };
    let (rows, sum) = found.ok_or_else(|| {
        ProtocolError::Unexpected(format!("{answer:?} where a count and a sum were due"))
    })?;
    Ok(Checksum {
        rows,
        bytes: 0,
        sum,
    })
}
