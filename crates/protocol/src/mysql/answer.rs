//! Follows a server's answers without parsing values: counts rows and bytes, and finds the end.
//!
//! Measuring clients need no values, so only the first bytes of each packet are examined; rows are
//! counted and skipped in place. Only the first bytes of a packet that is split between two reads
//! are copied. Memory is allocated only if the server reports an error.

use super::packet::{Decoder, HEADER, MAX_PAYLOAD, parse_header};
use super::reply::{self, Done, EOF, ERROR, LOCAL_FILE, OK, Reply};
use super::values::{Column, parse_binary_row};
use crate::error::refused;
use crate::script::{Row, RowFormat, WhichRow};
use crate::{AnswerReader, AnswerSummary, FeedResult, Protocol, ProtocolError};

/// The length of the examined part of a payload: an OK message up to its number of warnings.
const PREFIX: usize = 1 + 9 + 9 + 2 + 2;

/// The largest message that a server can send: the highest `max_allowed_packet`.
const MAX_MESSAGE: usize = 1 << 30;

/// The maximum length of an error message, far above that of any server.
const MAX_ERROR: usize = 64 << 10;

/// The maximum length of the kept beginning of an answer (column definitions, short values), and of
/// a row.
const MAX_KEPT: usize = 64 << 10;

/// The sequence number of the first packet of an answer to a command of one packet.
const FIRST_SEQUENCE: u8 = 1;

#[derive(Debug)]
pub struct Mysql;

impl Protocol for Mysql {
    type Answers = MysqlAnswerReader;

    /// `COM_QUERY` with the text `ROLLBACK`.
    const ROLLBACK: &'static [u8] = b"\x09\0\0\0\x03ROLLBACK";

    /// `COM_QUIT`.
    const QUIT: &'static [u8] = b"\x01\0\0\0\x01";
}

/// The part of an answer that the next packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The first message of a result.
    Result,
    /// This many column definitions, and then their end.
    Columns(u16),
    Rows,
    /// The last packet of the answer.
    Over,
    /// The last packet of the answer, which is an error.
    Failed,
}

/// Reads the answers of one connection: text and binary rows, without `CLIENT_DEPRECATE_EOF`.
#[derive(Debug)]
pub struct MysqlAnswerReader {
    stage: Stage,
    /// The sequence number that the next packet must have.
    sequence: u8,
    /// The current message continues in the next packet.
    continued: bool,
    /// Bytes of the current packet that have not arrived and need no examination.
    skip: usize,
    /// Bytes of the current message that have arrived.
    message_bytes: usize,
    /// The beginning of a packet that was split too early to be interpreted.
    held: [u8; HEADER + PREFIX],
    held_bytes: usize,
    /// The part of an error message that has arrived.
    error: Vec<u8>,
    answer: AnswerSummary,
    /// The kept row of the current answer; nearly always None.
    kept_row: Option<Box<KeptRow>>,
}

impl Default for MysqlAnswerReader {
    fn default() -> Self {
        Self {
            stage: Stage::Result,
            sequence: FIRST_SEQUENCE,
            continued: false,
            skip: 0,
            message_bytes: 0,
            held: [0; HEADER + PREFIX],
            held_bytes: 0,
            error: Vec::new(),
            answer: AnswerSummary::default(),
            kept_row: None,
        }
    }
}

impl AnswerReader for MysqlAnswerReader {
    #[inline]
    fn feed(&mut self, bytes: &[u8]) -> Result<FeedResult, ProtocolError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.skip > 0 {
                rest = self.skip_bytes(rest);
            } else {
                if self.stage == Stage::Rows && self.held_bytes == 0 && !self.continued {
                    rest = self.whole_rows(rest);
                }
                rest = self.begin_packet(rest)?;
            }
            if self.skip == 0 && matches!(self.stage, Stage::Over | Stage::Failed) {
                let consumed = bytes.len() - rest.len();
                self.answer.bytes += consumed as u64;
                if let Some(kept_row) = &mut self.kept_row {
                    kept_row.keep(&bytes[..consumed]);
                }
                let end = Some(self.finish()?);
                return Ok(FeedResult { consumed, end });
            }
        }
        self.answer.bytes += bytes.len() as u64;
        if let Some(kept_row) = &mut self.kept_row {
            kept_row.keep(bytes);
        }
        Ok(FeedResult { consumed: bytes.len(), end: None })
    }

    fn keep_row(&mut self, which: WhichRow, format: RowFormat) {
        self.kept_row = Some(Box::new(KeptRow::new(which, format)));
    }

    fn take_row(&mut self) -> Result<Option<Row>, ProtocolError> {
        let kept = self.kept_row.take();
        kept.map_or(Ok(None), |row| row.parse())
    }

    fn take_rows(&mut self) -> Result<Vec<Row>, ProtocolError> {
        let kept = self.kept_row.take();
        kept.map_or(Ok(Vec::new()), |row| row.parse_first(usize::MAX))
    }

    fn forget_row(&mut self) {
        self.kept_row = None;
    }
}

impl MysqlAnswerReader {
    /// Return the summary of the answer, and reset the reader for the next answer.
    #[inline]
    fn finish(&mut self) -> Result<AnswerSummary, ProtocolError> {
        let mut end = std::mem::take(&mut self.answer);
        let has_failed = self.stage == Stage::Failed;
        self.stage = Stage::Result;
        self.sequence = FIRST_SEQUENCE;
        if has_failed {
            self.kept_row = None;
            let message = std::mem::take(&mut self.error);
            end.error = Some(Box::new(reply::parse_error(&message)?));
        }
        Ok(end)
    }

    /// Skip bytes of a packet that has been interpreted; return the rest.
    #[inline]
    fn skip_bytes<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (passed, rest) = bytes.split_at(bytes.len().min(self.skip));
        if self.stage == Stage::Failed {
            self.error.extend_from_slice(passed);
        }
        if self.stage == Stage::Rows
            && let Some(kept_row) = &mut self.kept_row
        {
            kept_row.continue_last(passed);
        }
        self.skip -= passed.len();
        rest
    }

    /// The hot path: count ordinary rows that are whole in `bytes`, and return the rest. Everything
    /// else (an end, an error, a split or continued packet, a wrong number) is left to
    /// `begin_packet`.
    #[inline]
    fn whole_rows<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let mut rest = bytes;
        let mut sequence = self.sequence;
        let mut rows = 0;
        while let Some((header, payload)) = rest.split_first_chunk() {
            let (length, number) = parse_header(*header);
            let is_plain = payload.first().is_some_and(|&first| first < EOF)
                && (1..MAX_PAYLOAD).contains(&length)
                && number == sequence;
            let Some(next) = payload.get(length..).filter(|_| is_plain) else {
                break;
            };
            rest = next;
            sequence = sequence.wrapping_add(1);
            rows += 1;
        }
        self.sequence = sequence;
        self.answer.rows += rows;
        if rows > 0
            && let Some(kept_row) = &mut self.kept_row
        {
            kept_row.begin_last(payload_of(bytes, rows));
        }
        rest
    }

    /// Interpret the header and the first bytes of a packet; keep them if they are too few. Return
    /// the rest.
    #[inline]
    fn begin_packet<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], ProtocolError> {
        if self.held_bytes == 0
            && let Some((header, payload)) = bytes.split_first_chunk()
            && let Some((prefix, rest)) = payload.split_at_checked(self.wanted(*header))
        {
            self.parse_packet(*header, prefix)?;
            return Ok(rest);
        }
        let bytes = self.hold(bytes, HEADER);
        let Some(header) = self.held[..self.held_bytes].first_chunk().copied() else {
            return Ok(bytes);
        };
        let whole = HEADER + self.wanted(header);
        let rest = self.hold(bytes, whole);
        if self.held_bytes == whole {
            let held = self.held;
            self.held_bytes = 0;
            self.parse_packet(header, &held[HEADER..whole])?;
        }
        Ok(rest)
    }

    /// Keep bytes until there are `limit` of them; return the rest.
    fn hold<'a>(&mut self, bytes: &'a [u8], limit: usize) -> &'a [u8] {
        let missing = limit.saturating_sub(self.held_bytes);
        let (taken, rest) = bytes.split_at(bytes.len().min(missing));
        self.held[self.held_bytes..][..taken.len()].copy_from_slice(taken);
        self.held_bytes += taken.len();
        rest
    }

    /// Return the number of payload bytes that are needed to interpret the packet.
    #[inline]
    fn wanted(&self, header: [u8; HEADER]) -> usize {
        if self.continued { 0 } else { parse_header(header).0.min(PREFIX) }
    }

    /// Interpret a packet from its header and the first bytes of its payload.
    #[inline]
    fn parse_packet(&mut self, header: [u8; HEADER], prefix: &[u8]) -> Result<(), ProtocolError> {
        let (length, number) = parse_header(header);
        let begins = !self.continued;
        let first = prefix.first().copied();
        // An error is accepted with any sequence number: see `packet::Decoder`.
        if number != self.sequence && !(begins && first == Some(ERROR)) {
            let (expected, got) = (self.sequence, number);
            return Err(ProtocolError::OutOfOrder { expected, got });
        }
        self.sequence = number.wrapping_add(1);
        self.continued = length == MAX_PAYLOAD;
        self.skip = length - prefix.len();
        self.message_bytes = if begins { 0 } else { self.message_bytes } + length;
        if self.message_bytes > MAX_MESSAGE {
            return Err(ProtocolError::TooLarge { limit: MAX_MESSAGE });
        }
        if begins {
            let first = first.ok_or(ProtocolError::Truncated("answer"))?;
            self.begin_message(first, prefix, length)?;
        }
        Ok(())
    }

    #[inline]
    fn begin_message(
        &mut self,
        first: u8,
        prefix: &[u8],
        length: usize,
    ) -> Result<(), ProtocolError> {
        if first == ERROR {
            if length > MAX_ERROR {
                return Err(ProtocolError::TooLarge { limit: MAX_ERROR });
            }
            self.error.extend_from_slice(prefix);
            self.stage = Stage::Failed;
            return Ok(());
        }
        match (self.stage, reply::is_eof_packet(first, length)) {
            (Stage::Result, _) if length == MAX_PAYLOAD => {
                return refused("the first message of an answer has 16 MB");
            }
            (Stage::Result, _) => self.begin_result(first, prefix)?,
            (Stage::Columns(0), true) => self.stage = Stage::Rows,
            (Stage::Columns(0), false) => {
                return refused("more column definitions came than were announced");
            }
            (Stage::Columns(left), true) => {
                return refused(format!("the column definitions ended {left} too early"));
            }
            (Stage::Columns(left), false) => self.stage = Stage::Columns(left - 1),
            (Stage::Rows, true) => self.end_result(reply::parse_eof(prefix)?),
            (Stage::Rows, false) => {
                self.answer.rows += 1;
                if let Some(kept_row) = &mut self.kept_row {
                    kept_row.begin_last(prefix);
                }
            }
            (Stage::Over | Stage::Failed, _) => unreachable!("an answer that is over is finished"),
        }
        Ok(())
    }

    #[inline]
    fn begin_result(&mut self, first: u8, prefix: &[u8]) -> Result<(), ProtocolError> {
        match first {
            OK => self.end_result(reply::parse_done(prefix)?),
            LOCAL_FILE => {
                return refused("a request for a local file came, where none is ever sent");
            }
            _ => self.stage = Stage::Columns(reply::parse_column_count(prefix)?.get()),
        }
        Ok(())
    }

    #[inline]
    fn end_result(&mut self, done: Done) {
        let affected = self.answer.affected_rows;
        self.answer.affected_rows = affected.saturating_add(done.affected_rows);
        if done.last_insert_id > 0 {
            self.answer.last_insert_id = done.last_insert_id;
        }
        self.answer.warnings = done.warnings;
        self.stage = if done.more_results { Stage::Result } else { Stage::Over };
    }
}

/// Return the payload of packet `count` of `bytes`. Searching for it is cheaper than storing the
/// position of every packet.
fn payload_of(bytes: &[u8], count: u64) -> &[u8] {
    let mut rest = bytes;
    for _ in 1..count {
        rest = split_payload(rest).1;
    }
    split_payload(rest).0
}

/// Return the payload of the first packet, and the bytes after it.
fn split_payload(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (header, rest) = bytes.split_first_chunk().expect("a whole packet");
    rest.split_at(parse_header(*header).0)
}

/// The beginning of an answer, and its last row if that is requested.
#[derive(Debug)]
struct KeptRow {
    format: RowFormat,
    bytes: Vec<u8>,
    last: Option<Vec<u8>>,
}

impl KeptRow {
    fn new(which: WhichRow, format: RowFormat) -> Self {
        let last = (which == WhichRow::Last).then(Vec::new);
        Self { format, bytes: Vec::new(), last }
    }

    /// Start a row, which may be the last one, with its first bytes.
    #[inline]
    fn begin_last(&mut self, bytes: &[u8]) {
        if let Some(last) = &mut self.last {
            last.clear();
        }
        self.continue_last(bytes);
    }

    /// Append bytes to the current row. Of a row that is too long, one byte more than allowed is
    /// kept.
    #[inline]
    fn continue_last(&mut self, bytes: &[u8]) {
        if let Some(last) = &mut self.last {
            let room = MAX_KEPT + 1 - last.len();
            last.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Append bytes that may belong to the first row.
    fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_KEPT - self.bytes.len();
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Parse the kept row of a complete answer; None if its first result has no row.
    fn parse(mut self) -> Result<Option<Row>, ProtocolError> {
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

    /// Parse the first rows of a complete answer, at most `most`.
    fn parse_first(&self, most: usize) -> Result<Vec<Row>, ProtocolError> {
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

    /// Parse a message as a row; None if it is the end of the rows.
    fn row(&self, message: &[u8], columns: &[Column]) -> Result<Option<Row>, ProtocolError> {
        if !matches!(reply::parse_end(message)?, Ok(None)) {
            return Ok(None);
        }
        Ok(Some(match self.format {
            RowFormat::Text => reply::parse_text_row(message, columns.len())?,
            RowFormat::Binary => parse_binary_row(message, columns)?,
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

    /// Return the columns of the first result; None if it has no rows.
    fn columns(&mut self) -> Result<Option<Vec<Column>>, ProtocolError> {
        let Ok(Reply::Columns(count)) = reply::parse_reply(&self.next()?)? else {
            return Ok(None);
        };
        let columns = (0..count.get()).map(|_| Column::parse(&self.next()?));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        self.next()?; // the end of the definitions
        Ok(Some(columns))
    }

    /// Return the next message. There is none only if the answer is longer than the kept part.
    fn next(&mut self) -> Result<Vec<u8>, ProtocolError> {
        self.0.next_message()?.ok_or_else(|| too_much("column definitions and observed rows"))
    }
}

fn too_much(what: &'static str) -> ProtocolError {
    ProtocolError::TooMuch { what, limit: MAX_KEPT as u64 }
}

#[cfg(test)]
mod tests;
