//! A workload's definition as it is written (TOML) or sent (JSON): the shape alone.
//!
//! `{name}` in a text stands for a value: a parameter, a level, or one of the built-in names
//! `{table}`, `{n}` (number of the table in its set, from 1), `{clients}`, and, in `client_setup`
//! alone, `{client}` (from 0).
//! A number may be a text too, holding integer arithmetic over such values: `"{table_size}/2+1"`.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value as Json};

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

/// The generator of a value, by its `kind`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(remote = "Self", rename_all = "snake_case", deny_unknown_fields)]
pub enum Generator {
    /// A whole number from `low` to `high`.
    Integer(RandomNumber),
    Decimal(RandomNumber),
    /// One of as many whole numbers from `low` on as the generator `from` gives, plus the value of `add`.
    Below {
        from: String,
        low: Option<Number>,
        add: Option<String>,
        /// No value of a list comes twice.
        #[serde(default)]
        distinct: bool,
        count: Option<Number>,
        max_count: Option<Number>,
        stop: Option<Number>,
    },
    /// Groups of decimal digits, joined by `-`, as in sysbench's `c` and `pad`.
    Digits {
        groups: Option<Number>,
        length: Number,
        count: Option<Number>,
        per: Option<Lifetime>,
    },
    /// Letters and digits; with `max_length`, of a random length.
    Text {
        length: Number,
        max_length: Option<Number>,
        count: Option<Number>,
        per: Option<Lifetime>,
    },
    Motifs(Motifs),
    Constant {
        value: Value,
    },
    /// first, first + step, ...: a column's row number; as a generator of statements a running number that all
    /// clients share (those of one table, where the client chooses the table), each number once.
    Sequence {
        first: Option<Number>,
        step: Option<Number>,
    },
    /// The same list each time.
    Series {
        count: Number,
        first: Option<Number>,
        step: Option<Number>,
    },
    /// Each value of a range once, over all clients and the whole run, and for each table: it
    /// chooses the table too. A client ends when its share is used up.
    Permutation {
        low: Number,
        high: Number,
    },
    /// Another value times `times`, plus `plus`.
    Derived {
        from: String,
        times: Option<Number>,
        plus: Option<Number>,
    },
    /// Arithmetic over other values; with `scale`, over units of the last digit after the point.
    Computed {
        value: String,
        scale: Option<Number>,
    },
    /// The value of one of two generators; `share` is the percentage of those of `from`.
    Either {
        from: String,
        otherwise: String,
        share: Number,
    },
    /// The last `digits` digits of another value, each as a word.
    Words {
        from: String,
        words: Vec<String>,
        digits: Option<Number>,
    },
    Answer(Answer),
    /// A whole number of a list's end that the client remembers: see [`Remember`].
    Tail {
        value: Option<TailValue>,
        /// One of the remembered values, from 1.
        column: Option<Number>,
        /// The generator of the value where no end is remembered; 0 without it.
        otherwise: Option<String>,
    },
    /// The number of the iteration of the loop that the step is in, from 1.
    Iteration {},
    /// A column's numbers of the row's parent, and of the row among its parent's, both from 0.
    Parent {},
    Child {},
    /// A column's number that the fan-out gives to the row's parent.
    Children {},
    Links(Links),
}

/// integer, decimal: a random number. The distribution determines which of its keys have a meaning.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct RandomNumber {
    pub low: Number,
    pub high: Number,
    /// Uniform by default; the name may be a value (`"{distribution}"`).
    pub distribution: Option<String>,
    /// zipf, zipf-scrambled, zipf-rotated, latest: P(rank) is proportional to rank^-exponent; 0.8 by default.
    /// Popular values lie at the low end, anywhere, or at the high end.
    pub exponent: Option<Number>,
    /// zipf-rotated: the seed of the rotations.
    pub rotation: Option<Number>,
    /// pareto: sysbench's h; 0.2 by default.
    pub h: Option<Number>,
    /// normal: mean and standard deviation as fractions of the range; 0.5 and 0.125 by default.
    pub mean: Option<Number>,
    pub deviation: Option<Number>,
    /// special: the share of values (percent) that fall into the central part (percent of the range);
    /// 75 and 1 by default.
    pub share: Option<Number>,
    pub central: Option<Number>,
    /// decimal: digits after the point.
    pub scale: Option<Number>,
    /// integer: each client draws from its own part of the range.
    pub segment: Option<Segment>,
    /// The number of values of a list, for `IN (?)`.
    pub count: Option<Number>,
    /// The largest number of values of a list of random length. `stop` is the probability (percent) with
    /// which it ends after each value.
    pub max_count: Option<Number>,
    pub stop: Option<Number>,
    /// The part of a transaction for which a statement's value stays the same.
    pub per: Option<Lifetime>,
}

/// Bytes with a given share of repetition, as LinkBench's payloads.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Motifs {
    /// The least and the greatest byte.
    pub low: Number,
    pub high: Number,
    /// The median of the lengths, and the standard deviation of their logarithms.
    pub length: Option<Number>,
    pub deviation: Option<Number>,
    pub max_length: Option<Number>,
    /// The share of random chunks (percent), and the length of the motif.
    pub uniqueness: Number,
    pub motif_length: Option<Number>,
}

/// A value of the answer to a statement of an earlier step of the transaction.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The statement.
    pub from: String,
    pub value: Option<AnswerValue>,
    /// In place of `value`: a column of the first row, from 1.
    pub column: Option<Number>,
    /// The generator of the row's number, from 1; the first row by default.
    pub row: Option<String>,
    /// The column's number of digits after the point, or text where it is none of numbers.
    pub scale: Option<Number>,
    #[serde(rename = "as")]
    pub form: Option<ColumnForm>,
    /// The value where there is no row or it holds NULL, and where the statement was skipped; 0 by default.
    pub default: Option<Number>,
}

/// The number of links of a node and a type, by LinkBench's distributions.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Links {
    /// The generator of the number of the node and type: of a parameter.
    pub from: Option<String>,
    /// The number of nodes.
    pub high: Number,
    pub distribution: Option<String>,
    /// Types of links, the most links of a node, and how they are split between types: "faithful" to
    /// LinkBench, which counts some of them twice, or "fixed".
    pub types: Option<Number>,
    pub at_most: Option<Number>,
    pub split: Option<String>,
}

/// The part of a transaction for which a value stays the same.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Lifetime {
    /// An iteration of the loop that its step is in.
    Iteration,
    Transaction,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Segment {
    Client,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum AnswerValue {
    Rows,
    AffectedRows,
    LastInsertId,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ColumnForm {
    Text,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum TailValue {
    /// 1 where an end is remembered.
    Known,
    /// The value of the last row.
    End,
}

impl<'de> Deserialize<'de> for Generator {
    /// The kind may stand behind its keys. So all are read before it is known, as plain values: read from
    /// those, a mistake still names its key.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys = Map::deserialize(deserializer)?;
        let kind = match keys.remove("kind") {
            Some(Json::String(kind)) => kind,
            Some(_) => return Err(D::Error::custom("kind: expected a text")),
            None => return Err(D::Error::missing_field("kind")),
        };
        let mut track = serde_path_to_error::Track::new();
        let written = Json::Object(Map::from_iter([(kind.clone(), Json::Object(keys))]));
        let reader = serde_path_to_error::Deserializer::new(written, &mut track);
        Self::deserialize(reader).map_err(|error| {
            let path = track.path().to_string();
            let message = error.to_string();
            D::Error::custom(match path.strip_prefix(&format!("{kind}.")) {
                Some(key) => format!("{key}: {message}"),
                None if message.starts_with("unknown variant") => format!("kind: {message}"),
                None => message,
            })
        })
    }
}

/// The number of a generator's values, and how long they last.
pub struct Repetition<'a> {
    pub count: Option<&'a Number>,
    pub max_count: Option<&'a Number>,
    pub stop: Option<&'a Number>,
    pub per: Option<Lifetime>,
}

impl Generator {
    pub fn repetition(&self) -> Repetition<'_> {
        let (count, max_count, stop, per) = match self {
            Self::Integer(random) | Self::Decimal(random) => {
                let RandomNumber { count, max_count, stop, per, .. } = random;
                (count.as_ref(), max_count.as_ref(), stop.as_ref(), *per)
            }
            Self::Below { count, max_count, stop, .. } => {
                (count.as_ref(), max_count.as_ref(), stop.as_ref(), None)
            }
            Self::Digits { count, per, .. } | Self::Text { count, per, .. } => {
                (count.as_ref(), None, None, *per)
            }
            Self::Series { count, .. } => (Some(count), None, None, None),
            _ => (None, None, None, None),
        };
        Repetition { count, max_count, stop, per }
    }
}
