//! Work on loaded tables: compare them with what was generated, and read them into memory.

use std::thread;

use super::pool::{Sessions, TableError, each};
use super::{compare, sql};
use datagen::{Checksum, Rows, TableRows};
use protocol::mysql::{Connection, Deadline};
use protocol::{ClientError, ProtocolError};
use workload::tables::Table;

/// A request to stop is heard this often: some tenths of a second.
const SLICE_ROWS: u64 = 1 << 18;

/// Count and sums every table on the server and compares; what is expected is made anew.
///
/// Where texts differ, values are compared. Sessions must be in UTC where a column is a timestamp.
pub fn verify(sessions: &Sessions<'_>, tables: &[Table]) -> Result<(), TableError> {
    each(sessions, tables, 0, verify_table)?;
    Ok(())
}

fn verify_table(
    connection: &mut Connection,
    table: &Table,
    deadline: &Deadline,
) -> Result<(), TableError> {
    let rows = table.rows.as_ref();
    let (found, expected) = thread::scope(|scope| {
        let expected = scope.spawn(|| expected(rows, deadline));
        let found = found(connection, table, deadline);
        (found, expected.join().expect("making rows does not panic"))
    });
    let failed = |source| TableError::client(table, source);
    let (found, expected) = (found.map_err(failed)?, expected.map_err(failed)?);
    if (found.rows, found.sum) == (expected.rows, expected.sum) {
        return Ok(());
    }
    match compare::difference(connection, table, deadline).map_err(failed)? {
        None => Ok(()),
        Some(difference) => Err(TableError::Mismatch { table: table.name.clone(), difference }),
    }
}

/// Return the expected checksum.
fn expected(rows: &TableRows, deadline: &Deadline) -> Result<Checksum, ClientError> {
    let count = rows.count();
    let mut total = Checksum::default();
    let mut row = 0;
    while row < count {
        deadline.check()?;
        let next = count.min(row + SLICE_ROWS);
        total = total.plus(datagen::checksum(rows, &(row..next), 1));
        row = next;
    }
    Ok(total)
}

/// Return the checksum of the server's rows; it does not count bytes.
fn found(
    connection: &mut Connection,
    table: &Table,
    deadline: &Deadline,
) -> Result<Checksum, ClientError> {
    let outcome = connection.query(&sql::checksum(table), deadline)?;
    let answer = outcome.rows.and_then(|mut rows| rows.pop()).unwrap_or_default();
    let found = match answer.as_slice() {
        [Some(rows), sum] => rows.parse().ok().zip(match sum {
            Some(sum) => sum.parse().ok(),
            None => Some(0), // of no rows
        }),
        _ => None,
    };
    let (rows, sum) = found.ok_or_else(|| {
        ProtocolError::unexpected(&format!("{answer:?} where a count and a sum were due"))
    })?;
    Ok(Checksum { rows, bytes: 0, sum })
}

/// Run the statements that read every table and its indexes, on `threads` connections (0: as many
/// as there are processors).
pub fn warm(sessions: &Sessions<'_>, tables: &[Table], threads: usize) -> Result<(), TableError> {
    each(sessions, tables, threads, |connection, table, deadline| {
        table.warm.iter().try_for_each(|statement| {
            connection
                .query(statement, deadline)
                .map(drop)
                .map_err(|source| TableError::client(table, source.in_statement(statement)))
        })
    })?;
    Ok(())
}
