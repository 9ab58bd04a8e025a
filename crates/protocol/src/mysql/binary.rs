//! Encodes the parameters of prepared statements directly into a send buffer.

use super::packet::{self, HEADER, MAX_PAYLOAD};
use super::wire::put_string;

pub const COM_QUERY: u8 = 3;
const COM_STMT_EXECUTE: u8 = 23;

/// The type of a parameter. The server remembers the types: only the first execution of a statement
/// sends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A signed integer of 64 bits.
    Integer = 8,
    /// A decimal number, sent as text.
    Decimal = 246,
    /// Bytes without a character set.
    Bytes = 252,
    /// Bytes, or text in the character set of the connection.
    Text = 254,
}

/// One execution of a prepared statement, appended to a buffer as one packet with its header.
/// Append the values in the order of the parameters; [`Self::end`] completes the packet.
#[must_use = "the packet has no length before its end"]
pub struct Execute<'a> {
    out: &'a mut Vec<u8>,
    packet: usize,
    nulls: usize,
    parameters: usize,
    next: usize,
}

impl<'a> Execute<'a> {
    /// Append everything before the values. `declared` has the type of every parameter; it is empty
    /// if an earlier execution on this connection declared them.
    ///
    /// # Panics
    /// If `declared` is not empty and does not have one type for each parameter.
    #[inline]
    pub fn begin(out: &'a mut Vec<u8>, statement: u32, parameters: u16, declared: &[Kind]) -> Self {
        let parameters = usize::from(parameters);
        assert!(declared.is_empty() || declared.len() == parameters);
        let packet = out.len();
        out.extend_from_slice(&[0; HEADER]);
        out.push(COM_STMT_EXECUTE);
        out.extend_from_slice(&statement.to_le_bytes());
        out.extend_from_slice(&[0, 1, 0, 0, 0]); // flags (no cursor), and an iteration count of 1
        let nulls = out.len();
        if parameters > 0 {
            out.resize(nulls + parameters.div_ceil(8), 0);
            out.push(u8::from(!declared.is_empty()));
            out.extend(declared.iter().flat_map(|&kind| [kind as u8, 0]));
        }
        Self { out, packet, nulls, parameters, next: 0 }
    }

    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.out.extend_from_slice(&value.to_le_bytes());
        self.next += 1;
    }

    /// Append the value of a parameter declared as text or decimal.
    #[inline]
    pub fn text(&mut self, value: &[u8]) {
        put_string(self.out, value);
        self.next += 1;
    }

    /// Append NULL, for a parameter of any type.
    #[inline]
    pub fn null(&mut self) {
        self.out[self.nulls + self.next / 8] |= 1 << (self.next % 8);
        self.next += 1;
    }

    /// Write the length into the header.
    ///
    /// # Panics
    /// If a parameter has no value, or the values need more than one packet (16 MB).
    #[inline]
    pub fn end(self) {
        assert_eq!(self.next, self.parameters, "a value for each parameter");
        end_command(self.out, self.packet);
    }
}

/// Append a statement as a text query in one packet; `put_text` appends the text.
///
/// # Panics
/// If the statement needs more than one packet (16 MB).
#[inline]
pub fn put_query(out: &mut Vec<u8>, put_text: impl FnOnce(&mut Vec<u8>)) {
    let packet = out.len();
    out.extend_from_slice(&[0; HEADER]);
    out.push(COM_QUERY);
    put_text(out);
    end_command(out, packet);
}

/// Return the text in a packet that [`put_query`] wrote.
///
/// # Panics
/// If the packet is shorter than a command.
#[must_use]
pub fn query_text(packet: &[u8]) -> &[u8] {
    &packet[HEADER + 1..]
}

#[inline]
fn end_command(out: &mut [u8], packet: usize) {
    let length = out.len() - packet - HEADER;
    assert!(length < MAX_PAYLOAD, "a command of more than a packet");
    out[packet..packet + HEADER].copy_from_slice(&packet::header(length, 0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_byte_by_byte() {
        let mut out = vec![0xaa];
        let kinds = [Kind::Integer, Kind::Text, Kind::Decimal];
        let mut execute = Execute::begin(&mut out, 0x0403_0201, 3, &kinds);
        execute.integer(-2);
        execute.null();
        execute.text(b"1.50");
        execute.end();
        let expected = [
            &[0xaa, 31, 0, 0, 0, 23, 1, 2, 3, 4, 0, 1, 0, 0, 0][..],
            &[0b010, 1, 8, 0, 254, 0, 246, 0],
            &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            b"\x041.50",
        ]
        .concat();
        assert_eq!(out, expected);
    }

    #[test]
    fn types_are_declared_once_and_not_without_parameters() {
        let mut out = Vec::new();
        let mut execute = Execute::begin(&mut out, 1, 1, &[]);
        execute.integer(5);
        execute.end();
        assert_eq!(out[HEADER + 10..], [0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        out.clear();
        Execute::begin(&mut out, 7, 0, &[]).end();
        assert_eq!(out, [10, 0, 0, 0, 23, 7, 0, 0, 0, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn commands_follow_one_another() {
        let mut out = Vec::new();
        put_query(&mut out, |out| out.extend_from_slice(b"COMMIT"));
        put_query(&mut out, |_| ());
        assert_eq!(out, b"\x07\0\0\0\x03COMMIT\x01\0\0\0\x03");
    }

    #[test]
    #[should_panic(expected = "a value for each parameter")]
    fn a_missing_value_is_noticed() {
        let mut out = Vec::new();
        let mut execute = Execute::begin(&mut out, 1, 2, &[]);
        execute.null();
        execute.end();
    }
}
