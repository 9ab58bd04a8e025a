//! The traits between the engine and what its clients ask.
//!
//! A [`Script`] writes one request after the other. Where a request depends on an earlier answer, the
//! earlier one says in [`Request::observe`] which part of its answer the script has to see.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Index into the statements' names.
    pub statement: u16,
    /// Index into the transactions' names.
    pub transaction: u16,
    /// Its latencies, and those of its transaction, are recorded as 0.
    pub untimed: bool,
    /// It begins its transaction.
    pub first: bool,
    /// It ends its transaction; ignored where the script observes the answer, and says it then.
    pub last: bool,
    /// The part of its answer that the script sees.
    pub observe: Observe,
}

/// The part of an answer that a script sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Observe {
    /// Nothing: the script is not asked about this answer, and nothing of it is kept.
    #[default]
    Nothing,
    /// The counts of the answer's summary.
    Counts,
    /// The counts, and the first row of the first result.
    FirstRow(RowFormat),
    /// The counts, and the last row of the only result, where the answer has `of_rows` rows.
    LastRow { format: RowFormat, of_rows: u32 },
    /// The counts, and all rows of the first result.
    Rows(RowFormat),
}

impl Observe {
    /// Return the row that the reader of the answer has to keep, if any.
    #[inline]
    pub fn kept_row(self) -> Option<(WhichRow, RowFormat)> {
        match self {
            Self::Nothing | Self::Counts => None,
            Self::FirstRow(format) | Self::Rows(format) => Some((WhichRow::First, format)),
            Self::LastRow { format, .. } => Some((WhichRow::Last, format)),
        }
    }
}

/// The format of rows: that of statements sent as text, or of prepared ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    Text,
    Binary,
}

/// The row of an answer's first result that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhichRow {
    First,
    Last,
}

/// The values of a row as text; None is NULL.
pub type Row = Vec<Option<String>>;

/// A successful answer, as far as its request observes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub rows: u64,
    pub affected_rows: u64,
    /// The number that the server gave to an inserted row; 0 where it gave none.
    pub last_insert_id: u64,
    /// The first row or the last one; None where no row came, or it is not observed.
    pub row: Option<Row>,
    /// The rows after the first, where all are observed.
    pub more_rows: Vec<Row>,
}

pub trait Script {
    /// Append one command packet to `out`. None where the client has nothing left to ask.
    fn next(&mut self, out: &mut Vec<u8>) -> Option<Request>;

    /// Take the answer to the last request and return true where the transaction ends with it. Called
    /// for requests that observe their answers, after a success only. An error is for the
    /// workload's author.
    fn answered(&mut self, _answer: &Answer) -> Result<bool, String> {
        unreachable!("no request observes its answer")
    }

    /// Return true where the server may have an open transaction; called between an error and the
    /// next begin.
    fn rollback_needed(&self) -> bool {
        false
    }

    /// Begin the current transaction again, with the same values.
    fn again(&mut self) {}

    /// Give the current transaction up: the next request begins another.
    fn abandon(&mut self) {}
}

/// The names of what scripts ask, in the order of the indexes of [`Request`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub statements: Vec<String>,
    pub transactions: Vec<String>,
}
