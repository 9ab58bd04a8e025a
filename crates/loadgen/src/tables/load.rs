//! Makes and fills tables.

use std::borrow::Borrow;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::local::{LocalRows, SentCounts};
use super::pool::{Done, JobError, Sessions, TableError, each};
use super::sql;
use datagen::column::NULL;
use datagen::{Checksum, ChecksummedRows, Rows, TableRows};
use protocol::ClientError;
use protocol::mysql::{Connection, Deadline, LocalData, Outcome};
use workload::tables::Table;

/// The file's name in the statement; the rows are generated.
const LOCAL_FILE: &str = "rows";

/// Error codes of servers that accept no local file: `ER_NOT_ALLOWED_COMMAND`,
/// `ER_CLIENT_LOCAL_FILES_DISABLED` (MySQL), `ER_LOAD_INFILE_CAPABILITY_DISABLED` (MariaDB).
const NO_LOCAL_FILE: [u16; 3] = [1148, 3948, 4166];

/// A multi-row INSERT is about so long, as sysbench's, where the server allows it.
const STATEMENT_BYTES: usize = 512 << 10;

/// The part of `max_allowed_packet` left unused, for the command and for servers that count otherwise.
const PACKET_RESERVE: usize = 1 << 10;

/// The approximate size of one transaction's rows in bytes.
const TRANSACTION_BYTES: usize = 8 << 20;

/// The method that fills tables.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// `Local` where the server allows it, else `MultiRow`.
    #[default]
    Auto,
    /// LOAD DATA LOCAL: one statement, one transaction a table.
    Local,
    /// INSERT of many rows, some megabytes a transaction.
    MultiRow,
    /// INSERT of one row, each a transaction.
    SingleRow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// Connections, and so tables or chunks at a time; 0: as many as there are processors.
    pub threads: usize,
    pub method: Method,
    /// Rows that a connection fills at a time, so that several fill one table; 0: a table at a time.
    pub chunk_rows: u64,
    /// LOCK TABLES ... WRITE while a table is filled.
    pub lock_tables: bool,
    /// The time for which connections stay open when it is done: the server's threads end with them,
    /// and with a thread what the kernel has counted of it.
    pub linger: Duration,
}

#[derive(Default)]
pub struct Loaded {
    pub tables: Vec<LoadedTable>,
    /// The method that was used; never `Auto`.
    pub method: Method,
    /// Why it is not the one that was to be tried first.
    pub method_reason: Option<String>,
    pub warnings: u64,
    /// The time for which all senders together waited for rows to be made.
    pub generator_wait: Duration,
    /// The connections of the load, still open.
    pub connections: Vec<Connection>,
}

#[derive(Debug, Serialize)]
pub struct LoadedTable {
    pub name: String,
    pub rows: u64,
    /// Length of the rows as tab-separated text.
    pub bytes: u64,
    /// Sum of the CRC-32 of the rows' text, as text: it may need more than 64 bits.
    pub checksum: String,
    /// From the first row to the last commit.
    pub load_s: f64,
    /// The statements that follow: secondary indexes.
    pub after_load_s: f64,
}

/// Create and fill tables, several at a time, and run what follows; in stages if any needs another.
pub fn load(
    sessions: &Sessions<'_>,
    tables: &[Table],
    options: &LoadOptions,
    sent: &Arc<SentCounts>,
) -> Result<Loaded, TableError> {
    if options.chunk_rows > 0 || sql::refer_to_others(tables) {
        return load_in_stages(sessions, tables, options, sent);
    }
    let Done { results, connections } =
        each(sessions, tables, options.threads, |connection, table, deadline| {
            load_table(connection, table, options, sent, deadline)
        })?;
    let mut loaded = Loaded::nothing(options.method, connections);
    for (table, filled) in results {
        loaded.tables.push(table);
        loaded.add(filled);
    }
    Ok(loaded)
}

struct Chunk<'a> {
    table: &'a Table,
    index: usize,
    rows: Range<u64>,
}

impl Borrow<Table> for Chunk<'_> {
    fn borrow(&self) -> &Table {
        self.table
    }
}

/// Return chunks of all tables, in an order that fills them evenly; 0 rows: all of a table.
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

/// Load in stages: create all tables, fill them chunk by chunk, several connections maybe the same
/// table, and run what follows.
///
/// Tables with a FOREIGN KEY need the stages: a server locks the other table too while it creates or
/// changes one of them. They are created and finished one at a time, in the order of the workload,
/// and rows are not checked for their parents: a load is to make the same rows in any order.
fn load_in_stages(
    sessions: &Sessions<'_>,
    tables: &[Table],
    options: &LoadOptions,
    sent: &Arc<SentCounts>,
) -> Result<Loaded, TableError> {
    let refer = sql::refer_to_others(tables);
    let open = |deadline: &Deadline| {
        let mut connection = (sessions.open)(deadline)?;
        if refer {
            connection.query("SET foreign_key_checks = 0", deadline)?;
        }
        Ok(connection)
    };
    let sessions = &Sessions { open: &open, ..*sessions };
    let stage_threads = if refer { 1 } else { options.threads };
    each(sessions, tables, stage_threads, create)?;
    let chunks = chunks(tables, options.chunk_rows);
    let started = Instant::now();
    let filled = each(sessions, &chunks, options.threads, |connection, chunk, deadline| {
        let filled = fill(connection, chunk.table, &chunk.rows, options, sent, deadline)?;
        Ok((filled, started.elapsed()))
    })?;
    let after = each(sessions, tables, stage_threads, after_load)?;
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

impl Loaded {
    /// Return the result of a load by `method` that has filled nothing yet.
    fn nothing(method: Method, connections: Vec<Connection>) -> Self {
        Self {
            method: if method == Method::Auto { Method::Local } else { method },
            connections,
            ..Self::default()
        }
    }

    fn add(&mut self, filled: FilledTable) {
        self.warnings += filled.warnings;
        self.generator_wait += filled.generator_wait;
        if filled.fell_back.is_some() {
            self.method = Method::MultiRow;
            self.method_reason = filled.fell_back;
        }
    }
}

/// The result of filling a table, or a part of it.
#[derive(Default)]
struct FilledTable {
    pub rows: Checksum,
    warnings: u64,
    generator_wait: Duration,
    /// Why `MultiRow` was used in place of `Local`.
    fell_back: Option<String>,
}

fn load_table(
    connection: &mut Connection,
    table: &Table,
    options: &LoadOptions,
    sent: &Arc<SentCounts>,
    deadline: &Deadline,
) -> Result<(LoadedTable, FilledTable), JobError> {
    create(connection, table, deadline)?;
    let started = Instant::now();
    let all = 0..table.rows.count();
    let filled = fill(connection, table, &all, options, sent, deadline)?;
    let load = started.elapsed();
    let after_load = after_load(connection, table, deadline)?;
    Ok((LoadedTable::new(table, filled.rows, load, after_load), filled))
}

fn create(connection: &mut Connection, table: &Table, deadline: &Deadline) -> Result<(), JobError> {
    let created = connection.query(&table.create, deadline);
    created.map_err(|error| error.in_statement(&table.create))?;
    Ok(())
}

/// Run what follows once a table is filled, and return its time.
fn after_load(
    connection: &mut Connection,
    table: &Table,
    deadline: &Deadline,
) -> Result<Duration, JobError> {
    let started = Instant::now();
    for sql in &table.after_load {
        connection.query(sql, deadline).map_err(|error| error.in_statement(sql))?;
    }
    Ok(started.elapsed())
}

impl LoadedTable {
    fn new(table: &Table, rows: Checksum, load: Duration, after_load: Duration) -> Self {
        Self {
            name: table.name.clone(),
            rows: rows.rows,
            bytes: rows.bytes,
            checksum: rows.sum.to_string(),
            load_s: load.as_secs_f64(),
            after_load_s: after_load.as_secs_f64(),
        }
    }
}

/// Fill a slice of a table's rows.
fn fill(
    connection: &mut Connection,
    table: &Table,
    slice: &Range<u64>,
    options: &LoadOptions,
    sent: &Arc<SentCounts>,
    deadline: &Deadline,
) -> Result<FilledTable, ClientError> {
    if options.lock_tables {
        connection.query(&format!("LOCK TABLES {} WRITE", sql::quoted(&table.name)), deadline)?;
    }
    let rows = Arc::new(ChecksummedRows::new(&table.rows));
    let mut filler = TableFiller { connection, table, slice, rows, sent, deadline };
    let outcome = match options.method {
        Method::Local => filler.local()?,
        Method::MultiRow => filler.multi_row()?,
        Method::SingleRow => filler.single_row()?,
        Method::Auto => filler.local_or_multi_row()?,
    };
    let rows = filler.rows.total();
    if options.lock_tables {
        connection.query("UNLOCK TABLES", deadline)?;
    }
    Ok(FilledTable { rows, ..outcome })
}

struct TableFiller<'a> {
    connection: &'a mut Connection,
    table: &'a Table,
    slice: &'a Range<u64>,
    rows: Arc<ChecksummedRows<TableRows>>,
    sent: &'a Arc<SentCounts>,
    deadline: &'a Deadline,
}

impl TableFiller<'_> {
    fn run(&mut self, sql: &str) -> Result<Outcome, ClientError> {
        self.connection.query(sql, self.deadline)
    }

    fn local_rows(&self) -> LocalRows {
        LocalRows::start(&self.rows, self.slice, self.sent)
    }

    fn local_or_multi_row(&mut self) -> Result<FilledTable, ClientError> {
        if self.variable("local_infile")?.as_deref() == Some("0") {
            return self.fall_back("the server's local_infile is off".to_owned());
        }
        match self.local() {
            Err(ClientError::Server(error)) if NO_LOCAL_FILE.contains(&error.code) => {
                self.fall_back(format!("the server refused LOAD DATA LOCAL: {error}"))
            }
            other => other,
        }
    }

    fn fall_back(&mut self, reason: String) -> Result<FilledTable, ClientError> {
        // Rows may have been made for the method that was refused.
        self.rows = Arc::new(ChecksummedRows::new(&self.table.rows));
        let filled = self.multi_row()?;
        Ok(FilledTable { fell_back: Some(reason), ..filled })
    }

    /// One stream a table. Two at a time were no faster (before MySQL 8.0 they wait for each other's
    /// AUTO-INC lock), a transaction for every 2 to 32 MB took the server no less CPU time, and in
    /// the order of the primary key every server fills its pages alike.
    fn local(&mut self) -> Result<FilledTable, ClientError> {
        let from = format!("LOCAL INFILE '{LOCAL_FILE}'");
        let columns = self.table.columns.iter().map(|column| column.name.as_str());
        let name = &self.table.name;
        let has_bytes = self.table.rows.bytes().contains(&true);
        let format = if has_bytes { sql::BYTES } else { sql::TEXTS };
        let sql = sql::load_data(&from, name, format, columns);
        let mut rows = self.local_rows();
        let outcome = self.connection.load_local(&sql, LOCAL_FILE, &mut rows, self.deadline)?;
        Ok(filled(&rows, outcome.warnings.into()))
    }

    /// LOCK TABLES would end with START TRANSACTION, so transactions are made by autocommit.
    fn multi_row(&mut self) -> Result<FilledTable, ClientError> {
        let limit = self.statement_limit()?;
        self.run("SET autocommit = 0")?;
        let mut in_transaction = 0;
        let filled = self.insert(
            |statement, row| statement.has_room(row, limit),
            |filler, statement| {
                let warnings = filler.run(statement)?.warnings;
                in_transaction += statement.len();
                if in_transaction >= TRANSACTION_BYTES {
                    filler.run("COMMIT")?;
                    in_transaction = 0;
                }
                Ok(warnings)
            },
        )?;
        self.run("COMMIT")?;
        self.run("SET autocommit = 1")?;
        Ok(filled)
    }

    fn single_row(&mut self) -> Result<FilledTable, ClientError> {
        self.insert(|_, _| false, |filler, statement| Ok(filler.run(statement)?.warnings))
    }

    /// Send the rows as statements, each as long as it `has_room` for the next row.
    fn insert(
        &mut self,
        has_room: impl Fn(&Statement, &[u8]) -> bool,
        mut send: impl FnMut(&mut Self, &str) -> Result<u16, ClientError>,
    ) -> Result<FilledTable, ClientError> {
        let mut rows = self.local_rows();
        let mut statement = Statement::new(self.table);
        let mut warnings = 0;
        while let Some(bytes) = rows.next_bytes() {
            // Each row ends with a newline, and no value holds one.
            for row in bytes[..bytes.len() - 1].split(|&byte| byte == b'\n') {
                if !statement.is_empty() && !has_room(&statement, row) {
                    warnings += u64::from(send(self, statement.text())?);
                    statement.clear();
                }
                statement.push(row);
            }
        }
        if !statement.is_empty() {
            warnings += u64::from(send(self, statement.text())?);
        }
        Ok(filled(&rows, warnings))
    }

    /// Return the longest multi-row INSERT, in bytes.
    fn statement_limit(&mut self) -> Result<usize, ClientError> {
        let allowed = self.variable("max_allowed_packet")?;
        let allowed = allowed.and_then(|bytes| bytes.parse().ok()).unwrap_or(STATEMENT_BYTES);
        Ok(STATEMENT_BYTES.min(allowed.saturating_sub(PACKET_RESERVE)))
    }

    /// Return a variable of the session as text.
    fn variable(&mut self, name: &str) -> Result<Option<String>, ClientError> {
        let outcome = self.run(&format!("SELECT @@{name}"))?;
        Ok(outcome.rows.and_then(|rows| rows.into_iter().flatten().next().flatten()))
    }
}

fn filled(rows: &LocalRows, warnings: u64) -> FilledTable {
    FilledTable { warnings, generator_wait: rows.waited(), ..FilledTable::default() }
}

/// Bytes that a row adds to its values in a statement: parentheses, commas and quotes of any column.
const TUPLE_EXTRA: usize = 3;
const COLUMN_EXTRA: usize = 3;

/// The form of a value in a statement.
#[derive(Clone, Copy)]
enum Form {
    Number,
    Text,
    /// As digits: a statement is text.
    Bytes,
}

/// INSERT statements of a table under way.
struct Statement {
    text: String,
    /// Length of the text up to the first row.
    head: usize,
    /// The form of each column's values.
    forms: Vec<Form>,
}

impl Statement {
    fn new(table: &Table) -> Self {
        let text = sql::insert(table);
        let columns = table.rows.numbers().into_iter().zip(table.rows.bytes());
        let forms = columns.map(|column| match column {
            (true, _) => Form::Number,
            (_, true) => Form::Bytes,
            _ => Form::Text,
        });
        Self { head: text.len(), text, forms: forms.collect() }
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn is_empty(&self) -> bool {
        self.text.len() == self.head
    }

    /// Return true where `row` can be added and the text stays within `limit` bytes.
    fn has_room(&self, row: &[u8], limit: usize) -> bool {
        let digits = if self.forms.iter().any(|form| matches!(form, Form::Bytes)) { 2 } else { 1 };
        let longest = digits * row.len() + TUPLE_EXTRA + COLUMN_EXTRA * self.forms.len();
        self.text.len() + longest <= limit
    }

    /// Add a row, columns separated by tabs, without its newline.
    fn push(&mut self, row: &[u8]) {
        self.text.push_str(if self.is_empty() { "(" } else { ",(" });
        let values = row.split(|&byte| byte == b'\t').zip(&self.forms);
        for (position, (value, form)) in values.enumerate() {
            if position > 0 {
                self.text.push(',');
            }
            if value == NULL && !matches!(form, Form::Bytes) {
                self.text.push_str("NULL");
                continue;
            }
            let (before, after) = match form {
                Form::Number => ("", ""),
                Form::Text => ("'", "'"),
                Form::Bytes => ("x'", "'"),
            };
            self.text.push_str(before);
            match form {
                Form::Bytes => value.iter().for_each(|&byte| push_digits(byte, &mut self.text)),
                // No text holds a quote or a backslash.
                _ => self.text.push_str(str::from_utf8(value).expect("texts are ASCII")),
            }
            self.text.push_str(after);
        }
        self.text.push(')');
    }

    fn clear(&mut self) {
        self.text.truncate(self.head);
    }
}

fn push_digits(byte: u8, text: &mut String) {
    for digit in [byte >> 4, byte & 15] {
        text.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datagen::column::{Integer, Value};
    use workload::tables::ColumnName;

    /// Return a table of a number and a text.
    fn table(name: &str, rows: u64) -> Table {
        let column =
            |name: &str| ColumnName { name: name.to_owned(), binary: false, nullable: false };
        let id = Value::Integer(Integer::Row { first: 0, step: 1 });
        let word = Value::Constant { text: b"x".to_vec(), is_number: false };
        Table {
            name: name.to_owned(),
            create: String::new(),
            after_load: Vec::new(),
            warm: Vec::new(),
            columns: vec![column("id"), column("c")],
            rows: Arc::new(TableRows::new(rows, vec![id, word])),
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

    #[test]
    fn numbers_are_bare_and_texts_are_quoted() {
        let mut statement = Statement::new(&table("t", 9));
        statement.push(b"-1\tab");
        statement.push(b"2\t7");
        statement.push(b"\\N\t\\N");
        let rows = "(-1,'ab'),(2,'7'),(NULL,NULL)";
        assert_eq!(statement.text(), format!("INSERT INTO `t` (`id`, `c`) VALUES {rows}"));
        statement.clear();
        assert!(statement.is_empty());
        statement.push(b"3\t");
        assert_eq!(statement.text(), "INSERT INTO `t` (`id`, `c`) VALUES (3,'')");
    }

    #[test]
    fn a_statement_with_room_stays_within_its_limit() {
        let row = b"123456\tabc";
        for limit in 60..200 {
            let mut statement = Statement::new(&table("t", 9));
            while statement.has_room(row, limit) {
                statement.push(row);
            }
            assert!(statement.text().len() <= limit || statement.is_empty());
        }
    }
}
