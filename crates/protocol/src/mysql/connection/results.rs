//! Results that are read whole, within limits.

use super::{Connection, Deadline, KEPT_ROWS, Outcome, Rows, unexpected, within};
use crate::ClientError;
use crate::mysql::reply::{self, Done, Reply};
use crate::mysql::values::{self, Column, Value};

impl Connection {
    /// Read everything a statement gives; the last result counts.
    pub(in crate::mysql) fn results(
        &mut self,
        rows: Rows,
        deadline: &Deadline,
    ) -> Result<Outcome, ClientError> {
        let mut outcome = Outcome::default();
        self.answer_end = self.bytes_received() + self.limits.answer;
        loop {
            let done = match reply::parse_reply(&self.receive_of_answer(deadline)?)?? {
                Reply::Done(done) => done,
                Reply::Columns(columns) => {
                    let definitions = self.columns(columns.get(), deadline)?;
                    let (rows, done) = self.rows(&definitions, rows, deadline)?;
                    outcome.rows = Some(rows);
                    done
                }
                Reply::LocalFile(name) => {
                    // No file is ever read from this host: say that it is empty, and fail.
                    self.send(&[], deadline)?;
                    let name = String::from_utf8_lossy(&name).into_owned();
                    return Err(unexpected(&format!("a request for the local file {name:?}")));
                }
            };
            outcome.affected_rows = done.affected_rows;
            outcome.warnings = done.warnings;
            if !done.more_results {
                return Ok(outcome);
            }
        }
    }

    /// Receive column definitions and their end.
    pub(in crate::mysql) fn columns(
        &mut self,
        count: u16,
        deadline: &Deadline,
    ) -> Result<Vec<Vec<u8>>, ClientError> {
        let mut columns = Vec::new();
        let mut bytes = 0;
        for _ in 0..count {
            let message = self.receive(deadline)?;
            if reply::parse_end(&message)??.is_some() {
                let got = columns.len();
                return Err(unexpected(&format!("{got} columns where {count} were due")));
            }
            bytes += message.len() + size_of::<Vec<u8>>();
            within(self.limits.definitions, bytes, "column definitions")?;
            columns.push(message);
        }
        reply::parse_end(&self.receive(deadline)?)??
            .ok_or_else(|| unexpected(&format!("a column after the {count} that were due")))?;
        Ok(columns)
    }

    #[allow(clippy::type_complexity)] // rows of values, and how they ended
    fn rows(
        &mut self,
        definitions: &[Vec<u8>],
        rows: Rows,
        deadline: &Deadline,
    ) -> Result<(Vec<Vec<Option<String>>>, Done), ClientError> {
        let columns: Vec<Column> = match rows {
            Rows::Text => Vec::new(), // text needs no types
            Rows::Binary => definitions
                .iter()
                .map(|definition| Column::parse(definition))
                .collect::<Result<_, _>>()?,
        };
        let mut kept = Vec::new();
        let mut bytes = 0;
        let row_bytes = definitions.len() * size_of::<Option<String>>();
        loop {
            let message = self.receive_of_answer(deadline)?;
            if let Some(done) = reply::parse_end(&message)?? {
                return Ok((kept, done));
            }
            if kept.len() < KEPT_ROWS {
                bytes += message.len() + row_bytes;
                within(self.limits.kept_rows, bytes, "rows to keep")?;
                kept.push(match rows {
                    Rows::Text => reply::parse_text_row(&message, definitions.len())?,
                    Rows::Binary => values::parse_binary_row(&message, &columns)?
                        .iter()
                        .map(Value::text)
                        .collect(),
                });
            }
        }
    }
}
