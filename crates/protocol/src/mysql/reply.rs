//! Parses replies of the server: OK, errors, requests for a local file, and text rows.

use std::num::NonZeroU16;

use super::wire::Reader;
use crate::error::refused;
use crate::script::Row;
use crate::shown::excerpt;
use crate::{ProtocolError, ServerError};

/// The first byte of a message identifies its type.
pub const OK: u8 = 0x00;
pub const LOCAL_FILE: u8 = 0xfb;
pub const EOF: u8 = 0xfe;
pub const ERROR: u8 = 0xff;

/// An EOF message is shorter than any row that starts with the same byte.
const EOF_LIMIT: usize = 9;

/// The flag in a status that another result follows.
const MORE_RESULTS: u16 = 1 << 3;

/// The end of a result, or of a statement without rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub affected_rows: u64,
    pub last_insert_id: u64,
    pub warnings: u16,
    /// Another result of the same statement follows.
    pub more_results: bool,
}

impl Done {
    #[inline]
    fn of(status: u16, warnings: u16) -> Self {
        Self { warnings, more_results: status & MORE_RESULTS != 0, ..Self::default() }
    }
}

/// The first message of the answer to a statement.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    Done(Done),
    /// The server requests the file with this name.
    LocalFile(Vec<u8>),
    /// This number of column definitions follows, and then rows.
    Columns(NonZeroU16),
}

/// Parse the first message of an answer. The outer error is a protocol violation, the inner error
/// the server's.
pub fn parse_reply(message: &[u8]) -> Result<Result<Reply, ServerError>, ProtocolError> {
    Ok(match message.first() {
        None => return Err(ProtocolError::Truncated("answer")),
        Some(&OK) => Ok(Reply::Done(parse_done(message)?)),
        Some(&ERROR) => Err(parse_error(message)?),
        Some(&LOCAL_FILE) => Ok(Reply::LocalFile(message[1..].to_vec())),
        Some(_) => Ok(Reply::Columns(parse_column_count(message)?)),
    })
}

/// Parse the number of columns at the start of a result set.
#[inline]
pub fn parse_column_count(message: &[u8]) -> Result<NonZeroU16, ProtocolError> {
    let columns = Reader::new(message).length("number of columns")?;
    match u16::try_from(columns).ok().and_then(NonZeroU16::new) {
        Some(fitting) => Ok(fitting),
        None => refused(format!("{columns} columns were announced; a result has 1 to 65535")),
    }
}

/// Parse the end of column definitions or rows; None if the message is a definition or a row. The
/// inner error is the server's.
pub fn parse_end(message: &[u8]) -> Result<Result<Option<Done>, ServerError>, ProtocolError> {
    Ok(match message.first() {
        Some(&ERROR) => Err(parse_error(message)?),
        Some(&first) if is_eof_packet(first, message.len()) => Ok(Some(parse_eof(message)?)),
        _ => Ok(None),
    })
}

/// Parse a row of the text protocol: the text of each column, None for NULL.
pub fn parse_text_row(message: &[u8], columns: usize) -> Result<Row, ProtocolError> {
    let mut reader = Reader::new(message);
    let values = (0..columns).map(|_| {
        let value = reader.string_or_null("column of a row")?;
        Ok(value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    });
    values.collect()
}

/// Return whether a message ends column definitions or rows, by its first byte and its length.
#[inline]
pub fn is_eof_packet(first: u8, length: usize) -> bool {
    first == EOF && length < EOF_LIMIT
}

#[inline]
pub fn parse_done(message: &[u8]) -> Result<Done, ProtocolError> {
    let mut reader = Reader::new(message);
    reader.byte("OK message")?;
    let affected_rows = reader.length("number of affected rows")?;
    let last_insert_id = reader.length("last inserted id")?;
    let status = reader.short("status")?;
    let warnings = reader.short("number of warnings")?;
    Ok(Done { affected_rows, last_insert_id, ..Done::of(status, warnings) })
}

#[inline]
pub fn parse_eof(message: &[u8]) -> Result<Done, ProtocolError> {
    let mut reader = Reader::new(message);
    reader.byte("EOF message")?;
    let warnings = reader.short("number of warnings")?;
    let status = reader.short("status")?;
    Ok(Done::of(status, warnings))
}

/// Parse an error message; an error before the login has no SQLSTATE.
pub fn parse_error(message: &[u8]) -> Result<ServerError, ProtocolError> {
    let mut reader = Reader::new(message);
    reader.byte("error message")?;
    let code = reader.short("error code")?;
    let (sqlstate, text) = match reader.rest().strip_prefix(b"#") {
        Some(marked) => marked.split_at_checked(5).ok_or(ProtocolError::Truncated("SQLSTATE"))?,
        None => (b"HY000".as_slice(), reader.rest()),
    };
    let sqlstate = String::from_utf8_lossy(sqlstate).into_owned();
    let message = excerpt(&String::from_utf8_lossy(text));
    Ok(ServerError { code, sqlstate, message })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_ok_message_and_a_request_for_a_file() {
        let message = [0, 0xfc, 0xe8, 0x03, 7, 2, 0, 5, 0];
        let done = Done { affected_rows: 1000, last_insert_id: 7, warnings: 5, ..Done::default() };
        assert_eq!(parse_reply(&message), Ok(Ok(Reply::Done(done))));
        assert_eq!(parse_reply(b"\xfbnodes"), Ok(Ok(Reply::LocalFile(b"nodes".to_vec()))));
    }

    #[test]
    fn error_messages_with_and_without_sqlstate() {
        let error = |code, sqlstate: &str, message: &str| ServerError {
            code,
            sqlstate: sqlstate.to_owned(),
            message: message.to_owned(),
        };
        assert_eq!(
            parse_reply(b"\xff\x15\x04#28000Access denied"),
            Ok(Err(error(1045, "28000", "Access denied")))
        );
        assert_eq!(
            parse_error(b"\xff\x10\x04Too many connections"),
            Ok(error(1040, "HY000", "Too many connections"))
        );
    }

    #[test]
    fn rows_and_their_end() {
        let row = b"\x03abc\xfb\x00";
        assert_eq!(parse_end(row), Ok(Ok(None)));
        assert_eq!(
            parse_text_row(row, 3),
            Ok(vec![Some("abc".to_owned()), None, Some(String::new())])
        );
        let done = Done { warnings: 1, more_results: true, ..Done::default() };
        assert_eq!(parse_end(&[0xfe, 1, 0, 8, 0]), Ok(Ok(Some(done))));
        assert!(parse_text_row(b"\x03abc", 2).is_err());
        let error = parse_end(b"\xff\x25\x05#70100interrupted").unwrap().unwrap_err();
        assert_eq!(error.code, 1317);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, columns in 0usize..5) {
            let _ = parse_reply(&bytes);
            let _ = parse_end(&bytes);
            let _ = parse_text_row(&bytes, columns);
            let _ = parse_error(&bytes);
        }
    }
}
