//! The definition of a workload as written (TOML) or sent (JSON): only its structure, without
//! validation of values. docs/workloads.md explains each key and its default.
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
    /// One of several alternatives, selected by a value: see [`FixedOrByLevel`].
    By {
        by: String,
        #[serde(flatten)]
        levels: BTreeMap<String, Number>,
    },
}

/// A fixed setting, or one for each level of a value: `{ by = "method", HANDLER = "...", default =
/// "..." }`. The case of levels does not matter.
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

impl<T: Default> Default for FixedOrByLevel<T> {
    fn default() -> Self {
        Self::Always(T::default())
    }
}

/// The tables, statements and tests of a workload.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Definition {
    pub tables: BTreeMap<String, TableSet>,
    /// Generators of the values that statements take as parameters, by name.
    pub generators: BTreeMap<String, Generator>,
    pub statements: BTreeMap<String, Statement>,
    pub tests: BTreeMap<String, Test>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TableSet {
    pub name: String,
    pub count: Option<Number>,
    pub rows: Number,
    pub fan_out: Option<Generator>,
    #[serde(default)]
    pub once: bool,
    pub create: FixedOrByLevel<String>,
    #[serde(default)]
    pub after_load: FixedOrByLevel<Vec<String>>,
    #[serde(default)]
    pub warm: FixedOrByLevel<Vec<String>>,
    pub columns: Vec<Column>,
}

/// A loaded column: keys of the column itself and of its generator. The generator rejects unknown
/// keys.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Column {
    pub name: String,
    #[serde(default)]
    pub binary: bool,
    #[serde(default)]
    pub hidden: bool,
    pub null_if: Option<String>,
    #[serde(flatten)]
    pub generator: Generator,
}

/// A statement with `?` where its parameters go. A parameter that is a list becomes `?, ?, ...`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    pub sql: FixedOrByLevel<String>,
    #[serde(default)]
    pub parameters: Vec<String>,
    pub terms: Option<Terms>,
    pub protocol: Option<String>,
    pub remember: Option<Remember>,
}

/// The rules by which clients remember the ends of long answers; generators of kind `tail` take
/// their values from these ends.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Remember {
    pub rows: Number,
    pub column: Number,
    pub values: Vec<String>,
    pub at_most: Number,
}

/// A repeated part of a statement, with new values for each repetition.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    pub sql: String,
    pub join: String,
    pub times: Number,
    #[serde(default)]
    pub parameters: Vec<String>,
}

/// A transaction that clients repeat: either `steps`, or `mix` with several weighted transactions.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Test {
    pub title: String,
    #[serde(default)]
    pub note: String,
    #[serde(default)]
    pub values: BTreeMap<String, Value>,
    #[serde(default)]
    pub transaction: FixedOrByLevel<bool>,
    #[serde(default)]
    pub steps: Vec<Step>,
    #[serde(default)]
    pub mix: Vec<Transaction>,
    #[serde(default)]
    pub client_setup: Vec<String>,
    pub tables: Option<String>,
    pub table: Option<String>,
    #[serde(default)]
    pub background_clients: Vec<BackgroundClients>,
}

/// Clients that repeat another test in the background during the measurement of this test.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct BackgroundClients {
    pub test: String,
    /// Default: the number of clients of the measured test.
    pub clients: Option<Number>,
    /// Transactions per second of the whole group, evenly spaced. Default: no rate limit.
    pub rate: Option<Number>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    pub name: String,
    pub weight: Number,
    #[serde(default)]
    pub transaction: FixedOrByLevel<bool>,
    /// If false, its latencies are recorded as 0.
    #[serde(default = "yes")]
    pub timed: FixedOrByLevel<bool>,
    pub steps: Vec<Step>,
}

fn yes() -> FixedOrByLevel<bool> {
    FixedOrByLevel::Always(true)
}

/// Statements that share values, which are new for each repetition; or a loop over steps; or a
/// rollback.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Step {
    #[serde(default)]
    pub statements: Vec<String>,
    #[serde(default)]
    pub steps: Vec<Step>,
    #[serde(default)]
    pub rollback: bool,
    pub times: Option<Number>,
    #[serde(default)]
    pub same_values: bool,
    pub only_if: Option<String>,
    pub unless: Option<String>,
}

/// The protocol of statements, except those with `protocol = "text"`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    #[default]
    Prepared,
    Text,
}

/// The generator of a value, by its `kind`; docs/generators.md explains the keys.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(remote = "Self", rename_all = "snake_case", deny_unknown_fields)]
pub enum Generator {
    /// An integer from `low` to `high`.
    Integer(RandomNumber),
    /// A number with digits after the decimal point.
    Decimal(RandomNumber),
    /// A random integer of `low`, `low` + 1, ...: `from` gives how many there are to draw from; the
    /// value of `add` is added.
    Below {
        from: String,
        low: Option<Number>,
        add: Option<String>,
        #[serde(default)]
        distinct: bool,
        count: Option<Number>,
        max_count: Option<Number>,
        stop: Option<Number>,
    },
    /// Groups of decimal digits, joined by `-`, as in sysbench's `c` and `pad`.
    Digits { groups: Option<Number>, length: Number, count: Option<Number>, per: Option<Lifetime> },
    /// Letters and digits; with `max_length`, of a random length.
    Text {
        length: Number,
        max_length: Option<Number>,
        count: Option<Number>,
        per: Option<Lifetime>,
    },
    /// Bytes that compress to some degree.
    Motifs(Motifs),
    /// A constant.
    Constant { value: Value },
    /// first, first + step, ...: by row, or as a running number that all clients share.
    Sequence { first: Option<Number>, step: Option<Number> },
    /// The list first, first + step, ..., the same each time.
    Series { count: Number, first: Option<Number>, step: Option<Number> },
    /// Each value of a range once, over all clients and the whole run; separately for each table.
    Permutation { low: Number, high: Number },
    /// The value of another generator, multiplied by `times`, plus `plus`.
    Derived { from: String, times: Option<Number>, plus: Option<Number> },
    /// Arithmetic over other generators. With `scale`, the numbers are units of the last digit
    /// after the decimal point.
    Computed { value: String, scale: Option<Number> },
    /// The value of `from` with a probability of `share` percent, else the value of `otherwise`.
    Either { from: String, otherwise: String, share: Number },
    /// The last `digits` digits of another value, each as a word.
    Words { from: String, words: Vec<String>, digits: Option<Number> },
    /// A value of the answer to an earlier statement.
    Answer(Answer),
    /// A value of the remembered end of a long answer: see [`Remember`].
    Tail { value: Option<TailValue>, column: Option<Number>, otherwise: Option<String> },
    /// The number of the loop iteration that the step is in, from 1.
    Iteration {},
    /// The number of the row's parent, from 0.
    Parent {},
    /// The number of the row within its parent, from 0.
    Child {},
    /// The number of rows that the fan-out gives to the row's parent.
    Children {},
    /// The number of links of a node in LinkBench's graph.
    Links(Links),
}

/// A random number (kinds `integer` and `decimal`). The distribution determines which of the keys
/// apply.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct RandomNumber {
    pub low: Number,
    pub high: Number,
    pub distribution: Option<String>,
    pub exponent: Option<Number>,
    pub rotation: Option<Number>,
    pub h: Option<Number>,
    pub mean: Option<Number>,
    pub deviation: Option<Number>,
    pub share: Option<Number>,
    pub central: Option<Number>,
    pub scale: Option<Number>,
    pub segment: Option<Segment>,
    pub count: Option<Number>,
    pub max_count: Option<Number>,
    pub stop: Option<Number>,
    pub per: Option<Lifetime>,
}

/// Bytes with a given share of repetition, as in LinkBench's payloads.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Motifs {
    pub low: Number,
    pub high: Number,
    pub length: Option<Number>,
    pub deviation: Option<Number>,
    pub max_length: Option<Number>,
    pub uniqueness: Number,
    pub motif_length: Option<Number>,
}

/// A value of the answer to a statement of an earlier step of the same transaction.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    pub from: String,
    pub value: Option<AnswerValue>,
    pub column: Option<Number>,
    pub row: Option<String>,
    pub scale: Option<Number>,
    #[serde(rename = "as")]
    pub form: Option<ColumnForm>,
    pub default: Option<Number>,
}

/// The number of links of a node and a type, by LinkBench's distributions.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Links {
    pub from: Option<String>,
    pub high: Number,
    pub distribution: Option<String>,
    pub types: Option<Number>,
    pub at_most: Option<Number>,
    pub split: Option<String>,
}

/// The time for which a generated value stays the same.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Lifetime {
    /// For an iteration of the loop that the step is in.
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
    /// 1 if an end is remembered, else 0.
    Known,
    /// The value of the last row, in the column that the statement remembers.
    End,
}

impl<'de> Deserialize<'de> for Generator {
    /// `kind` may follow the other keys, so all keys are first read as plain values; errors still
    /// name the key.
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

/// The keys for the number of a generator's values, and for their lifetime.
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
