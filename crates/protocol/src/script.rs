//! The traits between the engine and the source of its clients' requests.
//!
//! A [`Script`] writes one request after the other. If a later request depends on an answer,
//! [`Request::observe`] of the earlier request says which part of the answer the script needs.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Index into the statements' names.
    pub statement: u16,
    /// Index into the transactions' names.
    pub transaction: u16,
    /// The latencies of the request and of its transaction are recorded as 0.
    pub untimed: bool,
    /// The request begins its transaction.
    pub first: bool,
    /// The request ends its transaction; ignored if the script observes the answer, since
    /// [`Script::answered`] then decides.
    pub last: bool,
    /// The part of the answer that the script needs.
    pub observe: Observe,
}

/// The part of an answer that a script needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Observe {
    /// Nothing: no row is kept, and the script is not called with the answer.
    #[default]
    Nothing,
    /// The counts of the answer's summary.
    Counts,
    /// The counts, and the first row of the first result.
    FirstRow(RowFormat),
    /// The counts, and the last row of the only result if the answer has `of_rows` rows.
    LastRow { format: RowFormat, of_rows: u32 },
    /// The counts, and all rows of the first result.
    Rows(RowFormat),
}

impl Observe {
    /// Return the row that the answer reader has to keep; None if there is none.
    #[inline]
    pub fn kept_row(self) -> Option<(WhichRow, RowFormat)> {
        match self {
            Self::Nothing | Self::Counts => None,
            Self::FirstRow(format) | Self::Rows(format) => Some((WhichRow::First, format)),
            Self::LastRow { format, .. } => Some((WhichRow::Last, format)),
        }
    }
}

/// The format of rows: that of text queries or of prepared statements.
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

/// The observed part of a successful answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub rows: u64,
    pub affected_rows: u64,
    /// The auto-increment value of the first inserted row; 0 if there is none.
    pub last_insert_id: u64,
    /// The first row or the last row; None if there is none, or if no row is observed.
    pub row: Option<Row>,
    /// The rows after the first, if all rows are observed.
    pub more_rows: Vec<Row>,
}

pub trait Script {
    /// Append one command packet to `out`. Return None if the client has no further request.
    fn next(&mut self, out: &mut Vec<u8>) -> Option<Request>;

    /// Process the answer to the last request, and return whether the transaction ends with it.
    /// Called only for successful requests with an observed answer. The error is a message for the
    /// author of the workload.
    fn answered(&mut self, _answer: &Answer) -> Result<bool, String> {
        unreachable!("no request observes its answer")
    }

    /// Return whether the server may have an open transaction; called after an error, before the
    /// next transaction.
    fn rollback_needed(&self) -> bool {
        false
    }

    /// Restart the current transaction, with the same values.
    fn again(&mut self) {}

    /// Give up the current transaction; the next request begins another one.
    fn abandon(&mut self) {}
}

/// The names of statements and transactions, in the order of the indexes of [`Request`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub statements: Vec<String>,
    pub transactions: Vec<String>,
}
