//! Compiles the tables of a workload's definition: fills placeholders and validates columns.

use std::collections::HashSet;
use std::sync::Arc;

use crate::definition::{Column, Definition, Generator, TableSet, Test, Value as Given};
use crate::generator::reader::column_source;
use crate::generator::{Form, ValueSource};
use crate::validation::{ValidationError, find, refused};
use crate::values::Values;
use datagen::column::{FanOut, Integer, RandomInteger, Value};
use datagen::{MAX_ROWS, Rows, Stream, TableRows};

/// Identifies how rows are made: raise it whenever a byte of any definition's rows changes.
pub const VERSION: &str = "tables-1";

/// The maximum number of tables in a set.
const MAX_TABLES: i64 = 1_000_000;

/// One table, with every placeholder filled.
pub struct Table {
    pub name: String,
    pub create: String,
    /// Statements that run after the table is loaded, such as those that create secondary indexes.
    pub after_load: Vec<String>,
    /// Statements that read the table and its indexes into memory.
    pub warm: Vec<String>,
    pub columns: Vec<ColumnName>,
    pub rows: Arc<TableRows>,
}

pub struct ColumnName {
    pub name: String,
    /// True if texts are compared byte for byte, whatever the character set.
    pub binary: bool,
    /// True if the column is NULL in some rows.
    pub nullable: bool,
}

/// Return the tables of a workload, one set after another, with values drawn from `seed`.
pub fn plan(
    definition: &Definition,
    values: &Values,
    seed: u64,
) -> Result<Vec<Table>, ValidationError> {
    let mut tables = Vec::new();
    let mut names = HashSet::new();
    for (set_name, set) in &definition.tables {
        let key = format!("tables.{set_name}");
        for n in 1..=count(set, values, &key)? {
            let table = table(set, &values.with("n", Given::Integer(n)), seed, &key)?;
            if !names.insert(table.name.clone()) {
                let name = &table.name;
                let message = format!("two tables are called {name:?}: put {{n}} into the name");
                return refused(format!("{key}.name"), message);
            }
            tables.push(table);
        }
    }
    Ok(tables)
}

/// The tables that a test's statements use.
pub struct Tables {
    pub names: Vec<String>,
    /// True if each client uses only one of the tables.
    pub by_client: bool,
}

impl Tables {
    pub fn count(&self) -> u32 {
        u32::try_from(self.names.len()).expect("their number is checked")
    }

    pub fn reachable(&self) -> usize {
        if self.by_client { 1 } else { self.names.len().max(1) }
    }
}

pub fn of_test(
    definition: &Definition,
    test: &Test,
    values: &Values,
    key: &str,
) -> Result<Tables, ValidationError> {
    let by_client = match test.table.as_deref() {
        None | Some("uniform") => false,
        Some("client") => true,
        Some(other) => {
            let (key, known) = (format!("{key}.table"), ["uniform", "client"]);
            return Err(ValidationError::unknown(key, "choice of tables", other, known));
        }
    };
    let sets = &definition.tables;
    let set_key = format!("{key}.tables");
    let found = match (&test.tables, sets.len()) {
        (Some(name), _) => Some((name, find(sets, "table set", name, set_key)?)),
        (None, 0 | 1) => sets.first_key_value(),
        (None, _) => {
            let known = sets.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return refused(set_key, format!("is missing; there are {known}"));
        }
    };
    let names = match found {
        Some((name, set)) => table_names(set, values, &format!("tables.{name}"))?,
        None if by_client => {
            return refused(
                format!("{key}.table"),
                "is \"client\", but the workload has no tables",
            );
        }
        None => Vec::new(),
    };
    Ok(Tables { names, by_client })
}

fn count(set: &TableSet, values: &Values, key: &str) -> Result<i64, ValidationError> {
    values.integer_in_or(set.count.as_ref(), 1, 1..=MAX_TABLES, &format!("{key}.count"))
}

fn table_names(set: &TableSet, values: &Values, key: &str) -> Result<Vec<String>, ValidationError> {
    let count = count(set, values, key)?;
    let key = format!("{key}.name");
    (1..=count).map(|n| values.with("n", Given::Integer(n)).fill(&set.name, &key)).collect()
}

fn table(set: &TableSet, values: &Values, seed: u64, key: &str) -> Result<Table, ValidationError> {
    let name = values.fill(&set.name, &format!("{key}.name"))?;
    let values = &values.with("table", Given::Text(name.clone()));
    let fill = |chosen, part: &str| -> Result<Vec<String>, ValidationError> {
        let key = format!("{key}.{part}");
        let texts: &Vec<String> = values.choose(chosen, &key)?;
        texts.iter().map(|text| values.fill(text, &key)).collect()
    };
    let create = format!("{key}.create");
    let shown = set.columns.iter().filter(|column| !column.hidden);
    let columns = shown.map(|column| ColumnName {
        name: column.name.clone(),
        binary: column.binary,
        nullable: column.null_if.is_some(),
    });
    Ok(Table {
        create: values.fill(values.choose(&set.create, &create)?, &create)?,
        after_load: fill(&set.after_load, "after_load")?,
        warm: fill(&set.warm, "warm")?,
        rows: Arc::new(Columns { set, values, seed, table: &name, key }.rows()?),
        columns: columns.collect(),
        name,
    })
}

/// Compiles the columns of one table.
struct Columns<'a> {
    set: &'a TableSet,
    values: &'a Values,
    seed: u64,
    table: &'a str,
    /// The key of the table's set in the definition.
    key: &'a str,
}

impl Columns<'_> {
    fn rows(&self) -> Result<TableRows, ValidationError> {
        let key = format!("{}.rows", self.key);
        let count = self.values.integer_in(&self.set.rows, 0..=MAX_ROWS.cast_signed(), &key)?;
        let columns = &self.set.columns;
        if columns.iter().all(|column| column.hidden) {
            return refused(format!("{}.columns", self.key), "there are none");
        }
        for (position, column) in columns.iter().enumerate() {
            if columns[..position].iter().any(|other| other.name == column.name) {
                return refused(self.key_of(column), "there are two of this name");
            }
        }
        let shown = columns.iter().filter(|column| !column.hidden);
        let values = shown.map(|column| self.nullable(column)).collect::<Result<Vec<_>, _>>()?;
        let nullable = columns.iter().find(|column| column.null_if.is_some());
        if let Some(nullable) = nullable
            && values.iter().any(Value::is_bytes)
        {
            let message = "has no place in a table with bytes, which escapes nothing";
            return refused(format!("{}.null_if", self.key_of(nullable)), message);
        }
        let Some(fan_out) = &self.set.fan_out else {
            return Ok(TableRows::new(count, values));
        };
        let fan_out = self.fan_out(fan_out, count)?;
        let rows = TableRows::of_parents(count, fan_out, self.set.once, values);
        if rows.count() > MAX_ROWS {
            return refused(key, format!("more than {MAX_ROWS} rows come of it"));
        }
        Ok(rows)
    }

    /// Return the fan-out: the number of rows of each of `parents`.
    fn fan_out(&self, written: &Generator, parents: u64) -> Result<FanOut, ValidationError> {
        let key = format!("{}.fan_out", self.key);
        match column_source(written, self.values, &key, self.seed)? {
            ValueSource::Links { degrees, .. } if degrees.parents() != parents => {
                let links = format!("gives links of {} nodes and types", degrees.parents());
                refused(key, format!("{links}, and there are {parents} parents"))
            }
            ValueSource::Links { degrees, .. } => Ok(FanOut::Links(degrees)),
            ValueSource::Integer(integers) => {
                let stream = Stream::named(self.seed, &format!("tables/{}", self.table));
                Ok(FanOut::Random(RandomInteger { integers, stream }))
            }
            _ => refused(format!("{key}.kind"), "a fan-out is of kind integer or links"),
        }
    }

    fn key_of(&self, column: &Column) -> String {
        format!("{}.columns.{}", self.key, column.name)
    }

    fn nullable(&self, column: &Column) -> Result<Value, ValidationError> {
        let value = self.value(column)?;
        let Some(name) = &column.null_if else {
            return Ok(value);
        };
        let is_null = self.number_of(name, &format!("{}.null_if", self.key_of(column)))?;
        Ok(Value::Nullable { is_null, value: Box::new(value) })
    }

    fn value(&self, column: &Column) -> Result<Value, ValidationError> {
        let key = self.key_of(column);
        let stream = self.stream_of(column);
        let depth = self.set.columns.len(); // each column may depend on the next
        Ok(match column_source(&column.generator, self.values, &key, self.seed)? {
            ValueSource::Decimal { units, scale } => {
                let units = Integer::Random(RandomInteger { integers: units, stream });
                Value::Decimal { units, scale }
            }
            source @ ValueSource::Computed { scale: Some(scale), .. } => {
                Value::Decimal { units: self.whole(column, source, depth)?, scale }
            }
            ValueSource::Words { from, words } => {
                Value::Words { number: self.number_of(&from, &format!("{key}.from"))?, words }
            }
            ValueSource::Digits { groups, length } => Value::Digits { stream, groups, length },
            ValueSource::Letters { shortest, longest } => {
                Value::Letters { stream, shortest, longest }
            }
            ValueSource::ConstantInteger(value) => {
                Value::Constant { text: value.to_string().into_bytes(), is_number: true }
            }
            ValueSource::Motifs(motifs) if motifs.options.low < b' ' => {
                let message = "a column's bytes are 32 at least: tabs and newlines end its values";
                return refused(format!("{key}.low"), message);
            }
            ValueSource::Motifs(motifs) => Value::Motifs { motifs, stream },
            ValueSource::ConstantText { text, form } => constant(&text, form, &key)?,
            source => Value::Integer(self.whole(column, source, depth)?),
        })
    }

    /// Return the integer in the column `name`, which is named at `key`.
    fn number_of(&self, name: &str, key: &str) -> Result<Integer, ValidationError> {
        self.other(name, key, self.set.columns.len())
    }

    /// Return the integer of a column; the chain of columns that it depends on may have at most
    /// `depth` more.
    fn whole(
        &self,
        column: &Column,
        source: ValueSource,
        depth: usize,
    ) -> Result<Integer, ValidationError> {
        let key = self.key_of(column);
        Ok(match source {
            ValueSource::Sequence { first, step } => Integer::Row { first, step },
            ValueSource::Computed { expression, from, key: named_in, .. } => {
                let key = format!("{key}.{named_in}");
                let inputs = from.iter().map(|name| self.other(name, &key, depth));
                Integer::Computed { expression, inputs: inputs.collect::<Result<_, _>>()? }
            }
            ValueSource::ConstantInteger(value) => Integer::Row { first: value, step: 0 },
            ValueSource::Parent => Integer::Parent,
            ValueSource::Child => Integer::Child,
            ValueSource::Children => Integer::Children,
            ValueSource::Integer(integers) => {
                Integer::Random(RandomInteger { integers, stream: self.stream_of(column) })
            }
            _ => {
                let message = "is not a kind of column that holds or gives whole numbers";
                return refused(format!("{key}.kind"), message);
            }
        })
    }

    /// Return the integer in another column, `name`, which is named at `key`.
    fn other(&self, name: &str, key: &str, depth: usize) -> Result<Integer, ValidationError> {
        let columns = &self.set.columns;
        let from = columns.iter().find(|column| column.name == name).ok_or_else(|| {
            let names = columns.iter().map(|column| &column.name);
            ValidationError::unknown(key, "column", name, names)
        })?;
        if depth == 0 {
            return refused(key, "it comes from itself");
        }
        let from_key = self.key_of(from);
        let source = column_source(&from.generator, self.values, &from_key, self.seed)?;
        self.whole(from, source, depth - 1)
    }

    fn stream_of(&self, column: &Column) -> Stream {
        Stream::named(self.seed, &format!("tables/{}/{}", self.table, column.name))
    }
}

/// Return a constant text that needs no escapes in a file or a statement, and that no server
/// changes.
fn constant(text: &[u8], form: Form, key: &str) -> Result<Value, ValidationError> {
    if form == Form::Text || text.ends_with(b" ") {
        let message = "a column's constant is made of printable ASCII characters, without quotes \
                       (') and backslashes, and without a space at its end";
        return refused(format!("{key}.value"), message);
    }
    Ok(Value::Constant { text: text.to_vec(), is_number: form == Form::Decimal })
}

#[cfg(test)]
mod tests;
