//! Prepared statements of one connection: prepare, execute and wait, close.

use super::binary::{Execute, Kind};
use super::connection::{Connection, Outcome};
use super::deadline::Deadline;
use super::reply::{self, ERROR, OK};
use super::wire::Reader;
use crate::error::refused;
use crate::script::RowFormat;
use crate::{ClientError, ProtocolError, ServerError};

const COM_STMT_PREPARE: u8 = 22;
const COM_STMT_CLOSE: u8 = 25;

/// A prepared statement of this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    pub id: u32,
    pub parameters: u16,
    pub columns: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter<'a> {
    Null,
    Integer(i64),
    Decimal(&'a str),
    Text(&'a [u8]),
}

impl Prepared {
    /// Parse the first message of the answer. The outer error is a protocol violation, the inner
    /// error the server's.
    pub fn parse(message: &[u8]) -> Result<Result<Self, ServerError>, ProtocolError> {
        let mut reader = Reader::new(message);
        match reader.byte("answer")? {
            OK => {}
            ERROR => return Ok(Err(reply::parse_error(message)?)),
            first => {
                return refused(format!(
                    "the answer to a statement to prepare starts with {first}"
                ));
            }
        }
        Ok(Ok(Self {
            id: reader.long("statement's id")?,
            columns: reader.short("number of columns")?,
            parameters: reader.short("number of parameters")?,
        }))
    }
}

impl Parameter<'_> {
    pub fn kind(self) -> Kind {
        match self {
            Self::Integer(_) => Kind::Integer,
            Self::Decimal(_) => Kind::Decimal,
            Self::Text(_) | Self::Null => Kind::Text,
        }
    }

    /// Append the value to an execution.
    pub fn put(self, execute: &mut Execute<'_>) {
        match self {
            Self::Null => execute.null(),
            Self::Integer(value) => execute.integer(value),
            Self::Decimal(value) => execute.text(value.as_bytes()),
            Self::Text(value) => execute.text(value),
        }
    }
}

impl Connection {
    pub fn prepare(&mut self, sql: &str, deadline: &Deadline) -> Result<Prepared, ClientError> {
        self.send_command(COM_STMT_PREPARE, sql.as_bytes(), deadline)?;
        let prepared = Prepared::parse(&self.receive(deadline)?)??;
        for definitions in [prepared.parameters, prepared.columns] {
            if definitions > 0 {
                self.columns(definitions, deadline)?;
            }
        }
        Ok(prepared)
    }

    /// Execute the statement and read all its results; the last result counts.
    ///
    /// # Panics
    /// If the number of parameters is wrong, or they need more than one packet (16 MB).
    pub fn execute(
        &mut self,
        prepared: &Prepared,
        parameters: &[Parameter<'_>],
        deadline: &Deadline,
    ) -> Result<Outcome, ClientError> {
        let kinds: Vec<Kind> = parameters.iter().map(|value| value.kind()).collect();
        let mut packet = Vec::new();
        let mut execute = Execute::begin(&mut packet, prepared.id, prepared.parameters, &kinds);
        for parameter in parameters {
            parameter.put(&mut execute);
        }
        execute.end();
        self.send_packet(&packet, deadline)?;
        self.results(RowFormat::Binary, deadline)
    }

    /// Close the statement on the server, which sends no answer.
    pub fn close(&mut self, prepared: Prepared, deadline: &Deadline) -> Result<(), ClientError> {
        self.send_command(COM_STMT_CLOSE, &prepared.id.to_le_bytes(), deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_answer_to_a_statement_to_prepare() {
        let message = [0, 1, 2, 3, 4, 5, 0, 6, 0, 0, 0, 0];
        let prepared = Prepared { id: 0x0403_0201, parameters: 6, columns: 5 };
        assert_eq!(Prepared::parse(&message), Ok(Ok(prepared)));
        let error = Prepared::parse(b"\xff\x28\x04#42000syntax").unwrap();
        assert_eq!(error.unwrap_err().code, 1064);
        assert!(Prepared::parse(&message[..8]).is_err());
        let error = Prepared::parse(&[0xfe]).unwrap_err().to_string();
        assert!(error.contains("starts with 254"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Prepared::parse(&bytes);
        }
    }
}
