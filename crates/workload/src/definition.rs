//! A workload's definition as it is written (TOML) or sent (JSON): the shape alone.
//!
//! `{name}` in a text stands for a value: a parameter, a level, or one of the built-in names
//! `{table}`, `{n}` (number of the table in its set, from 1), `{clients}`, and, in `client_setup`
//! alone, `{client}` (from 0).
//! A number may be a text too, holding integer arithmetic over such values: `"{table_size}/2+1"`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod generators;

pub use generators::{
    Answer, AnswerValue, Generator, Lifetime, Links, Motifs, RandomNumber, Repetition, TailValue,
};

/// A parameter's value or a factor's level.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Value {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(String),
}

/// A number, or integer arithmetic over values.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(
    untagged,
    expecting = "expected a number, arithmetic over values as text, or a choice by a value"
)]
pub enum Number {
    Integer(i64),
    Float(f64),
    Expression(String),
    /// One of several, which a value chooses: see [`FixedOrByLevel`].
    By {
        by: String,
        #[serde(flatten)]
        levels: BTreeMap<String, Number>,
    },
}

/// One thing, or several of which a value chooses: `{ by = "method", HANDLER = "...", default = "..." }`.
/// The case of levels does not matter.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum FixedOrByLevel<T> {
    Always(T),
    By {
        by: String,
        #[serde(flatten)]
        levels: BTreeMap<String, T>,
    },
}

/// The tables, statements and tests of a workload.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    #[serde(default)]
    pub tables: BTreeMap<String, TableSet>,
    /// Values that statements take as parameters, by name.
    #[serde(default)]
    pub generators: BTreeMap<String, Generator>,
    #[serde(default)]
    pub statements: BTreeMap<String, Statement>,
    #[serde(default)]
    pub tests: BTreeMap<String, Test>,
}

/// Tables of one shape.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TableSet {
    /// The tables' name; it holds `{n}` where there may be several.
    pub name: String,
    /// The number of tables; 1 by default.
    pub count: Option<Number>,
    /// Rows of each table; where it has a fan-out, the parents of its rows.
    pub rows: Number,
    /// The number of rows that each parent has.
    pub fan_out: Option<Generator>,
    /// A parent that has rows has one, however many the fan-out says.
    #[serde(default)]
    pub once: bool,
    /// The statement that makes one table.
    pub create: FixedOrByLevel<String>,
    /// Statements for each table once it is loaded (secondary indexes).
    #[serde(default = "nothing")]
    pub after_load: FixedOrByLevel<Vec<String>>,
    /// Statements that read all of a table and its indexes into memory.
    #[serde(default = "nothing")]
    pub warm: FixedOrByLevel<Vec<String>>,
    /// The columns that are loaded, in their order.
    pub columns: Vec<Column>,
}

fn nothing() -> FixedOrByLevel<Vec<String>> {
    FixedOrByLevel::Always(Vec::new())
}

/// A loaded column. The generator refuses the keys that are of neither.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Column {
    pub name: String,
    /// Compared byte for byte, whatever the character set.
    #[serde(default)]
    pub binary: bool,
    /// Not loaded: others come from it.
    #[serde(default)]
    pub hidden: bool,
    /// A column that holds whole numbers: this one is NULL where that is not 0.
    pub null_if: Option<String>,
    #[serde(flatten)]
    pub generator: Generator,
}

/// A statement with `?` where its parameters go. A parameter that is a list becomes `?, ?, ...`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    pub sql: FixedOrByLevel<String>,
    /// The generators that fill the question marks, in their order.
    #[serde(default)]
    pub parameters: Vec<String>,
    /// The replacement of `{terms}` in the text.
    pub terms: Option<Terms>,
    /// "text" where the statement cannot be prepared, or its peers never prepare it.
    pub protocol: Option<String>,
    /// Remember where a long answer ended.
    pub remember: Option<Remember>,
}

/// The ends of long answers, from which other statements go on: generators of kind `tail` take from
/// them. A client keeps some of them.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Remember {
    /// The rows of an answer that is long: others are not remembered.
    pub rows: Number,
    /// The column of the last row, from 1, that says where the answer ended: a whole number.
    pub column: Number,
    /// Generators of the statement whose values are remembered too.
    pub values: Vec<String>,
    /// The most ends that a client keeps; a new one takes the place of any.
    pub at_most: Number,
}

/// A part of a statement that is repeated; each time its values are generated anew.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    pub sql: String,
    pub join: String,
    pub times: Number,
    #[serde(default)]
    pub parameters: Vec<String>,
}

/// The transactions that clients repeat. Either `steps`, or `mix` with several weighted transactions.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Test {
    pub title: String,
    /// The differences from its published model, or that there are none.
    #[serde(default)]
    pub note: String,
    /// Values for this test that differ from the workload's defaults.
    #[serde(default)]
    pub values: BTreeMap<String, Value>,
    /// BEGIN and COMMIT around the steps. BEGIN is sent as text, for servers do not prepare it.
    #[serde(default = "no")]
    pub transaction: FixedOrByLevel<bool>,
    #[serde(default)]
    pub steps: Vec<Step>,
    #[serde(default)]
    pub mix: Vec<Transaction>,
    /// Statements each client runs before it begins, as text; where they name the table, once for
    /// each table that the client asks (`HANDLER {table} OPEN`).
    #[serde(default)]
    pub client_setup: Vec<String>,
    /// The table set that steps draw their table from; needed where there are several.
    pub tables: Option<String>,
    /// "uniform" (one table is drawn for each step) or "client" (client number modulo tables).
    pub table: Option<String>,
    /// Clients of other tests that work meanwhile.
    #[serde(default)]
    pub background_clients: Vec<BackgroundClients>,
}

/// Clients that repeat a test while those of another one are measured.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct BackgroundClients {
    pub test: String,
    /// As many as of the other test by default.
    pub clients: Option<Number>,
    /// Transactions a second of all of them together, evenly spaced; as fast as they can by default.
    pub rate: Option<Number>,
}

/// One kind of transaction of a mix.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    pub name: String,
    pub weight: Number,
    #[serde(default = "no")]
    pub transaction: FixedOrByLevel<bool>,
    /// False: its latencies are recorded as 0.
    #[serde(default = "yes")]
    pub timed: FixedOrByLevel<bool>,
    pub steps: Vec<Step>,
}

fn yes() -> FixedOrByLevel<bool> {
    FixedOrByLevel::Always(true)
}

fn no() -> FixedOrByLevel<bool> {
    FixedOrByLevel::Always(false)
}

/// Statements that share their values; each repetition generates new ones, all on one table. Or
/// a loop over steps. Or a rollback.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Step {
    #[serde(default)]
    pub statements: Vec<String>,
    #[serde(default)]
    pub steps: Vec<Step>,
    /// The transaction ends here, with ROLLBACK.
    #[serde(default)]
    pub rollback: bool,
    /// The number of repetitions, 1 by default; of a loop also the name of a generator.
    pub times: Option<Number>,
    /// It has the values and the table of the step before it, and makes no new ones.
    #[serde(default)]
    pub same_values: bool,
    /// A generator of a value that lasts: the step is skipped where it is 0.
    pub only_if: Option<String>,
    /// A generator of a value that lasts: the step is skipped where it is not 0.
    pub unless: Option<String>,
}

/// The way statements are sent, but those that say `protocol = "text"`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    #[default]
    Prepared,
    Text,
}
