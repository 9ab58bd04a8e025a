//! Work on loaded tables: compare them with what was generated, and read them into memory.

use std::ops::Range;
use std::thread;

use super::by_value::Form;
use super::pool::{JobError, Sessions, TableError, each};
use super::sql::{self, quoted, text_of};
use datagen::column::NULL;
use datagen::{Checksum, Rows, TableRows};
use protocol::mysql::{Connection, Deadline};
use protocol::shown::beginning;
use protocol::{ClientError, ProtocolError};
use workload::tables::{ColumnName, Table};

/// A request to stop is heard this often: some tenths of a second.
const SLICE_ROWS: u64 = 1 << 18;

/// Rows that are made at once.
const CHUNK_ROWS: u64 = 4096;

/// Columns that are shown with an example.
const SHOWN_COLUMNS: usize = 3;

/// The longest shown value, in bytes.
const SHOWN_BYTES: usize = 60;

/// Count and sum up every table on the server and compares; what is expected is made anew.
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
) -> Result<(), JobError> {
    let rows = table.rows.as_ref();
    let (found, expected) = thread::scope(|scope| {
        let expected = scope.spawn(|| expected(rows, deadline));
        let found = found(connection, table, deadline);
        (found, expected.join().expect("making rows does not panic"))
    });
    let (found, expected) = (found?, expected?);
    if (found.rows, found.sum) == (expected.rows, expected.sum) {
        return Ok(());
    }
    let difference = difference(connection, table, deadline)?;
    difference.map_or(Ok(()), |difference| Err(JobError::Mismatch(difference)))
}

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

/// Read every table and its indexes, on `threads` connections (0: as many as there are CPUs).
pub fn warm(sessions: &Sessions<'_>, tables: &[Table], threads: usize) -> Result<(), TableError> {
    each(sessions, tables, threads, |connection, table, deadline| {
        for statement in &table.warm {
            connection.query(statement, deadline).map_err(|error| error.in_statement(statement))?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Sums of rows, and of each column by itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    rows: u64,
    row_sum: u128,
    column_sums: Vec<u128>,
}

/// Compare a table by value; return what differs, in words.
fn difference(
    connection: &mut Connection,
    table: &Table,
    deadline: &Deadline,
) -> Result<Option<String>, ClientError> {
    let mut columns = Vec::new();
    for column in &table.columns {
        columns.push(Column { name: column, form: form_of(connection, table, column, deadline)? });
    }
    let mut comparison = Comparison { connection, table, deadline, columns };
    let expected = comparison.expected(0..table.rows.count())?;
    let found = comparison.found()?;
    if found == expected {
        return Ok(None);
    }
    if found.rows != expected.rows {
        return Ok(Some(format!("found {} rows, expected {}", found.rows, expected.rows)));
    }
    let sums = found.column_sums.iter().zip(&expected.column_sums);
    let differing: Vec<usize> =
        (0..).zip(sums).filter(|(_, (a, b))| a != b).map(|(n, _)| n).collect();
    if differing.is_empty() {
        let message = "each column holds the values that were sent, but in other rows";
        return Ok(Some(message.to_owned()));
    }
    let mut examples = Vec::new();
    for &number in differing.iter().take(SHOWN_COLUMNS) {
        examples.push(comparison.example(number, &differing)?);
    }
    let more = differing.len() - examples.len();
    if more > 0 {
        examples.push(format!("{more} more columns"));
    }
    Ok(Some(examples.join("; ")))
}

/// A column and how its values are compared.
struct Column<'a> {
    name: &'a ColumnName,
    form: Form,
}

impl Column<'_> {
    fn expression(&self) -> String {
        match self.form {
            Form::Text => text_of(self.name),
            form if self.name.nullable => {
                format!("IFNULL({}, x'5C4E')", form.expression(&self.name.name))
            }
            form => form.expression(&self.name.name),
        }
    }

    /// The text by which a value is compared.
    fn canonical(&self, sent: &[u8]) -> Vec<u8> {
        match std::str::from_utf8(sent) {
            Ok(text) if sent != NULL => self.form.canonical(text).into_owned().into_bytes(),
            _ => sent.to_vec(),
        }
    }
}

struct Comparison<'a> {
    connection: &'a mut Connection,
    table: &'a Table,
    deadline: &'a Deadline,
    columns: Vec<Column<'a>>,
}

impl Comparison<'_> {
    /// Return the sums of rows as they were sent.
    fn expected(&self, rows: Range<u64>) -> Result<Totals, ClientError> {
        let mut sums = Totals { column_sums: vec![0; self.columns.len()], ..Totals::default() };
        let mut from = rows.start;
        while from < rows.end {
            self.deadline.check()?;
            let to = rows.end.min(from + CHUNK_ROWS);
            for row in sent(&self.table.rows, from..to) {
                let values: Vec<Vec<u8>> = row
                    .split(|&byte| byte == b'\t')
                    .zip(&self.columns)
                    .map(|(value, column)| column.canonical(value))
                    .collect();
                for (sum, value) in sums.column_sums.iter_mut().zip(&values) {
                    *sum += u128::from(crc32fast::hash(value));
                }
                sums.rows += 1;
                sums.row_sum += u128::from(crc32fast::hash(&values.join(&b'\t')));
            }
            from = to;
        }
        Ok(sums)
    }

    /// Return the sums of the server's rows.
    fn found(&mut self) -> Result<Totals, ClientError> {
        let texts: Vec<String> = self.columns.iter().map(Column::expression).collect();
        let of_columns = texts.iter().map(|text| sum_of(text)).collect::<Vec<_>>().join(", ");
        let sql = format!(
            "SELECT count(*), {}, {of_columns} FROM {}",
            sum_of(&texts.join(", ")),
            quoted(&self.table.name)
        );
        let numbers = self.numbers(&sql)?;
        match numbers.as_slice() {
            [rows, row_sum, column_sums @ ..] if column_sums.len() == self.columns.len() => {
                Ok(Totals {
                    rows: u64::try_from(*rows).unwrap_or(u64::MAX),
                    row_sum: *row_sum,
                    column_sums: column_sums.to_vec(),
                })
            }
            _ => Err(unexpected(&numbers)),
        }
    }

    /// Return a column that differs, with a value that was sent, and the one in its place.
    fn example(&mut self, number: usize, differing: &[usize]) -> Result<String, ClientError> {
        let name = &self.columns[number].name.name;
        let key = self.table.rows.row_number_column().filter(|key| !differing.contains(key));
        let Some(key) = key else {
            let sent = self.sent_value(0, number);
            let found = self.first_value(number, "")?;
            return Ok(format!("column {name}: sent {sent} first, found {found} first"));
        };
        let row = self.first_difference(number, key)?;
        let (key_name, at) = (&self.columns[key].name.name, self.sent_text(row, key));
        let (place, shown) =
            (format!(" WHERE {} = {at}", quoted(key_name)), format!("{key_name} = {at}"));
        let sent = self.sent_value(row, number);
        let found = self.first_value(number, &place)?;
        let name = &self.columns[number].name.name;
        Ok(format!("column {name}: sent {sent}, found {found} where {shown}"))
    }

    /// Return the number of a row that differs, by halving: the sums of one half differ.
    fn first_difference(&mut self, number: usize, key: usize) -> Result<u64, ClientError> {
        let text = self.columns[number].expression();
        let (mut from, mut to) = (0, self.table.rows.count());
        while to - from > 1 {
            let middle = from + (to - from) / 2;
            let expected = self.expected(from..middle)?;
            let ends = [self.sent_text(from, key), self.sent_text(middle - 1, key)];
            let mut ends: Vec<i128> = ends.iter().filter_map(|end| end.parse().ok()).collect();
            ends.sort_unstable();
            let [low, high] = ends[..] else {
                return Ok(from); // never: the key is a whole number
            };
            let sql = format!(
                "SELECT {} FROM {} WHERE {} BETWEEN {low} AND {high}",
                sum_of(&text),
                quoted(&self.table.name),
                quoted(&self.columns[key].name.name),
            );
            let found = self.numbers(&sql)?;
            if found.first() == Some(&expected.column_sums[number]) {
                from = middle;
            } else {
                to = middle;
            }
        }
        Ok(from)
    }

    /// Return the text that was sent for a value.
    fn sent_text(&self, row: u64, number: usize) -> String {
        let rows = sent(&self.table.rows, row..row + 1);
        let value = rows.first().and_then(|row| row.split(|&byte| byte == b'\t').nth(number));
        String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
    }

    fn sent_value(&self, row: u64, number: usize) -> String {
        let text = self.sent_text(row, number);
        shown(Some(&text).filter(|text| text.as_bytes() != NULL))
    }

    /// Return the first value that the server has in a column, as it shows it.
    fn first_value(&mut self, number: usize, place: &str) -> Result<String, ClientError> {
        let column = quoted(&self.columns[number].name.name);
        let sql = format!("SELECT {column} FROM {}{place} LIMIT 1", quoted(&self.table.name));
        let rows = self.connection.query(&sql, self.deadline)?.rows.unwrap_or_default();
        Ok(match rows.first().and_then(|row| row.first()) {
            None => "no row".to_owned(),
            Some(value) => shown(value.as_ref()),
        })
    }

    /// Return the numbers of a query of one row; the sum of no rows is 0.
    fn numbers(&mut self, sql: &str) -> Result<Vec<u128>, ClientError> {
        let rows = self.connection.query(sql, self.deadline)?.rows.unwrap_or_default();
        let numbers = rows.first().map(|row| {
            row.iter().map(|value| value.as_deref().unwrap_or("0").parse().ok()).collect()
        });
        numbers.flatten().ok_or_else(|| unexpected(&rows))
    }
}

/// Return the form in which the values of a column are compared.
fn form_of(
    connection: &mut Connection,
    table: &Table,
    column: &ColumnName,
    deadline: &Deadline,
) -> Result<Form, ClientError> {
    let sql = format!(
        "SELECT column_type FROM information_schema.columns WHERE table_schema = database() \
         AND table_name = {} AND column_name = {}",
        literal(&table.name),
        literal(&column.name)
    );
    let rows = connection.query(&sql, deadline)?.rows.unwrap_or_default();
    let column_type = rows.into_iter().flatten().next().flatten();
    Ok(column_type.map_or(Form::Text, |column_type| Form::of_type(&column_type)))
}

/// Return the rows of a range as they are sent, without their newlines.
fn sent(rows: &TableRows, range: Range<u64>) -> Vec<Vec<u8>> {
    let count = usize::try_from(range.end - range.start).expect("it is a chunk");
    let mut buffer = vec![0; rows.room_for(count)];
    let length = rows.write(range.start, range.end, &mut buffer);
    let text = buffer[..length].strip_suffix(b"\n").unwrap_or_default();
    text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn sum_of(texts: &str) -> String {
    format!("sum(crc32(concat_ws('\\t', {texts})))")
}

/// A text in quotes; names of tables have no backslashes.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn shown(value: Option<&String>) -> String {
    value.map_or("NULL".to_owned(), |text| format!("'{}'", beginning(text, SHOWN_BYTES)))
}

fn unexpected(answer: &impl std::fmt::Debug) -> ClientError {
    ProtocolError::unexpected(&format!("{answer:?} where a count and sums were due")).into()
}
