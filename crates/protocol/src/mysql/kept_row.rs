//! The first or the last row of an answer that is otherwise followed without being read.

use super::packet::Decoder;
use super::reply::{self, Reply};
use super::values::{Column, Value, parse_binary_row};
use crate::ProtocolError;
use crate::script::{Row, RowFormat, WhichRow};

/// The longest beginning of an answer that is kept: column definitions and one row of short values; and
/// the longest last row.
const MAX_KEPT: usize = 64 << 10;

/// The number of the packet that follows a command of one packet.
const FIRST_SEQUENCE: u8 = 1;

/// The beginning of an answer, and its last row where that is to be kept.
#[derive(Debug)]
pub struct KeptRow {
    format: RowFormat,
    bytes: Vec<u8>,
    last: Option<Vec<u8>>,
}

impl KeptRow {
    pub fn new(which: WhichRow, format: RowFormat) -> Self {
        let last = (which == WhichRow::Last).then(Vec::new);
        Self { format, bytes: Vec::new(), last }
    }

    /// Begin a row that may be the last one with its first bytes.
    #[inline]
    pub fn begin_last(&mut self, bytes: &[u8]) {
        if let Some(last) = &mut self.last {
            last.clear();
        }
        self.continue_last(bytes);
    }

    /// Add bytes to the row that was begun last. One byte too many is kept of one that is too long.
    #[inline]
    pub fn continue_last(&mut self, bytes: &[u8]) {
        if let Some(last) = &mut self.last {
            let room = MAX_KEPT + 1 - last.len();
            last.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Keep bytes of the answer as far as they may belong to its first row.
    pub fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_KEPT - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Read the row of a whole answer; None where its first result has no row.
    pub fn parse(mut self) -> Result<Option<Row>, ProtocolError> {
        let Some(last) = self.last.take() else {
            return Ok(self.parse_first(1)?.pop());
        };
        let mut messages = Messages::new(&self.bytes);
        let Some(columns) = messages.columns()? else {
            return Ok(None);
        };
        match last.len() {
            0 => Ok(None),
            length if length > MAX_KEPT => Err(too_much("last row")),
            _ => self.row(&last, &columns),
        }
    }

    /// Read the first rows of a whole answer, `most` at most.
    pub fn parse_first(&self, most: usize) -> Result<Vec<Row>, ProtocolError> {
        let mut messages = Messages::new(&self.bytes);
        let mut rows = Vec::new();
        if let Some(columns) = messages.columns()? {
            while rows.len() < most {
                match self.row(&messages.next()?, &columns)? {
                    Some(row) => rows.push(row),
                    None => break,
                }
            }
        }
        Ok(rows)
    }

    /// Read a message as a row; None where it is the end of the rows.
    fn row(&self, message: &[u8], columns: &[Column]) -> Result<Option<Row>, ProtocolError> {
        match reply::parse_end(message)? {
            Ok(Some(_)) | Err(_) => return Ok(None),
            Ok(None) => {}
        }
        Ok(Some(match self.format {
            RowFormat::Text => reply::parse_text_row(message, columns.len())?,
            RowFormat::Binary => {
                let values = parse_binary_row(message, columns)?;
                values.iter().map(Value::text).collect()
            }
        }))
    }
}

/// The messages of the beginning of an answer.
struct Messages(Decoder);

impl Messages {
    fn new(bytes: &[u8]) -> Self {
        let mut decoder = Decoder::default();
        decoder.expect_results();
        decoder.expect(FIRST_SEQUENCE);
        decoder.feed(bytes);
        Self(decoder)
    }

    /// Return the columns of the first result; None where it has no rows.
    fn columns(&mut self) -> Result<Option<Vec<Column>>, ProtocolError> {
        let Ok(Reply::Columns(count)) = reply::parse_reply(&self.next()?)? else {
            return Ok(None);
        };
        let columns = (0..count.get())
            .map(|_| Column::parse(&self.next()?))
            .collect::<Result<Vec<_>, _>>()?;
        self.next()?; // the end of the definitions
        Ok(Some(columns))
    }

    /// Return the next message. Only an answer that is longer than what is kept has none.
    fn next(&mut self) -> Result<Vec<u8>, ProtocolError> {
        self.0.next_message()?.ok_or_else(|| too_much("column definitions and observed rows"))
    }
}

fn too_much(what: &'static str) -> ProtocolError {
    ProtocolError::TooMuch { what, limit: MAX_KEPT as u64 }
}
