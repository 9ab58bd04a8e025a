//! What a server answers: OK, an error, the request for a local file, or rows of text.

use super::error::{ProtocolError, ServerError};
use super::wire::Reader;

const OK: u8 = 0x00;
const LOCAL_FILE: u8 = 0xfb;
const EOF: u8 = 0xfe;
const ERROR: u8 = 0xff;

/// An EOF message is shorter than any row that starts with the same byte.
const EOF_LIMIT: usize = 9;

const MORE_RESULTS: u16 = 1 << 3;

/// The end of a statement that gave no rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub affected_rows: u64,
    pub warnings: u16,
    /// Another result of the same statement follows.
    pub more_results: bool,
}

/// The first message of an answer to a statement.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    Done(Done),
    /// The server asks for the file of this name.
    LocalFile(Vec<u8>),
    /// This many column definitions follow, then rows.
    Columns(u64),
}

/// One message of a result set's rows.
#[derive(Debug, PartialEq, Eq)]
pub enum Row {
    /// The text of each column; None is NULL.
    Values(Vec<Option<String>>),
    End(Done),
}

/// Reads the first message of an answer. The outer error is the protocol's, the inner the server's.
pub fn parse_reply(message: &[u8]) -> Result<Result<Reply, ServerError>, ProtocolError> {
    let mut reader = Reader::new(message);
    Ok(match message.first() {
        None => return Err(ProtocolError::Truncated("answer")),
        Some(&OK) => Ok(Reply::Done(parse_done(message)?)),
        Some(&ERROR) => Err(parse_error(message)?),
        Some(&LOCAL_FILE) => Ok(Reply::LocalFile(message[1..].to_vec())),
        Some(_) => Ok(Reply::Columns(reader.length("number of columns")?)),
    })
}

/// Reads a row, or what ends the rows.
pub fn parse_row(message: &[u8], columns: u64) -> Result<Result<Row, ServerError>, ProtocolError> {
    match message.first() {
        Some(&ERROR) => return Ok(Err(parse_error(message)?)),
        Some(&EOF) if message.len() < EOF_LIMIT => return Ok(Ok(Row::End(parse_eof(message)?))),
        _ => {}
    }
    let mut reader = Reader::new(message);
    let values = (0..columns)
        .map(|_| {
            let value = reader.string_or_null("column of a row")?;
            Ok(value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
        })
        .collect::<Result<_, ProtocolError>>()?;
    Ok(Ok(Row::Values(values)))
}

/// True for the message that ends the column definitions.
pub fn is_eof(message: &[u8]) -> bool {
    message.first() == Some(&EOF) && message.len() < EOF_LIMIT
}

/// Reads an OK message.
pub fn parse_done(message: &[u8]) -> Result<Done, ProtocolError> {
    let mut reader = Reader::new(message);
    reader.byte("OK message")?;
    let affected_rows = reader.length("number of affected rows")?;
    reader.length("last inserted id")?;
    let status = reader.short("status")?;
    let warnings = reader.short("number of warnings")?;
    Ok(Done {
        affected_rows,
        warnings,
        more_results: status & MORE_RESULTS != 0,
    })
}

fn parse_eof(message: &[u8]) -> Result<Done, ProtocolError> {
    let mut reader = Reader::new(message);
    reader.byte("EOF message")?;
    let warnings = reader.short("number of warnings")?;
    let status = reader.short("status")?;
    Ok(Done {
        affected_rows: 0,
        warnings,
        more_results: status & MORE_RESULTS != 0,
    })
}

/// Reads an error message; before a login has begun it has no SQLSTATE.
pub fn parse_error(message: &[u8]) -> Result<ServerError, ProtocolError> {
    let mut reader = Reader::new(message);
    reader.byte("error message")?;
    let code = reader.short("error code")?;
    let (sqlstate, text) = match reader.rest().strip_prefix(b"#") {
        Some(marked) => marked
            .split_at_checked(5)
            .ok_or(ProtocolError::Truncated("SQLSTATE"))?,
        None => (b"HY000".as_slice(), reader.rest()),
    };
    let sqlstate = String::from_utf8_lossy(sqlstate).into_owned();
    let message = String::from_utf8_lossy(text).into_owned();
    Ok(ServerError {
        code,
        sqlstate,
        message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_ok_message() {
        let message = [0, 0xfc, 0xe8, 0x03, 0, 2, 0, 5, 0];
        let done = Done {
            affected_rows: 1000,
            warnings: 5,
            more_results: false,
        };
        assert_eq!(parse_reply(&message), Ok(Ok(Reply::Done(done))));
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
    fn a_request_for_a_local_file() {
        assert_eq!(
            parse_reply(b"\xfbnodes"),
            Ok(Ok(Reply::LocalFile(b"nodes".to_vec())))
        );
    }

    #[test]
    fn rows_and_their_end() {
        let row = parse_row(b"\x03abc\xfb\x00", 3).unwrap().unwrap();
        assert_eq!(
            row,
            Row::Values(vec![Some("abc".to_owned()), None, Some(String::new())])
        );
        let end = parse_row(&[0xfe, 1, 0, 8, 0], 3).unwrap().unwrap();
        let done = Done {
            affected_rows: 0,
            warnings: 1,
            more_results: true,
        };
        assert_eq!(end, Row::End(done));
        assert!(parse_row(b"\x03abc", 2).is_err());
    }

    #[test]
    fn an_error_in_the_middle_of_rows() {
        let error = parse_row(b"\xff\x25\x05#70100interrupted", 1)
            .unwrap()
            .unwrap_err();
        assert_eq!(error.code, 1317);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, columns in 0u64..5) {
            let _ = parse_reply(&bytes);
            let _ = parse_row(&bytes, columns);
            let _ = parse_error(&bytes);
        }
    }
}
