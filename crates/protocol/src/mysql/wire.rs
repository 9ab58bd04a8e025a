//! The basic types of the protocol: little-endian numbers, and strings with a length or a
//! terminator.

use crate::ProtocolError;
use crate::error::refused;

/// Reads a message from front to back. The `what` of each method names the item in errors.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// Return the bytes that have not been read.
    #[inline]
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub fn bytes(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], ProtocolError> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or(ProtocolError::Truncated(what))?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub fn byte(&mut self, what: &'static str) -> Result<u8, ProtocolError> {
        Ok(self.bytes(1, what)?[0])
    }

    /// Return an unsigned number of `width` bytes (at most 8).
    #[inline]
    pub fn number(&mut self, width: usize, what: &'static str) -> Result<u64, ProtocolError> {
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(self.bytes(width, what)?);
        Ok(u64::from_le_bytes(bytes))
    }

    pub fn long(&mut self, what: &'static str) -> Result<u32, ProtocolError> {
        let bytes = self.bytes(4, what)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    #[inline]
    pub fn short(&mut self, what: &'static str) -> Result<u16, ProtocolError> {
        let bytes = self.bytes(2, what)?;
        Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    /// Return a length-encoded number; None is the NULL of a text row.
    #[inline]
    pub fn number_or_null(&mut self, what: &'static str) -> Result<Option<u64>, ProtocolError> {
        let width = match self.byte(what)? {
            small @ ..=0xfa => return Ok(Some(u64::from(small))),
            0xfb => return Ok(None),
            0xfc => 2,
            0xfd => 3,
            0xfe => 8,
            0xff => return refused(format!("the {what} starts with 0xff, which is not a number")),
        };
        self.number(width, what).map(Some)
    }

    /// Return a length-encoded number that cannot be NULL.
    #[inline]
    pub fn length(&mut self, what: &'static str) -> Result<u64, ProtocolError> {
        self.number_or_null(what)?
            .ok_or_else(|| ProtocolError::Unexpected(format!("the {what} is NULL")))
    }

    /// Return a length-prefixed string; None is NULL.
    pub fn string_or_null(
        &mut self,
        what: &'static str,
    ) -> Result<Option<&'a [u8]>, ProtocolError> {
        let Some(length) = self.number_or_null(what)? else {
            return Ok(None);
        };
        let length = usize::try_from(length).map_err(|_| ProtocolError::Truncated(what))?;
        self.bytes(length, what).map(Some)
    }

    /// Return a string up to a zero byte, which is skipped, or up to the end: MySQL before 5.5.10
    /// omits one zero.
    pub fn string_to_zero(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|&byte| byte == 0);
        let string = &self.rest[..end.unwrap_or(self.rest.len())];
        self.rest = end.map_or(&[], |end| &self.rest[end + 1..]);
        string
    }
}

#[inline]
pub fn put_string(out: &mut Vec<u8>, string: &[u8]) {
    put_length(out, string.len() as u64);
    out.extend_from_slice(string);
}

pub fn put_string_and_zero(out: &mut Vec<u8>, string: &[u8]) {
    out.extend_from_slice(string);
    out.push(0);
}

/// Append a length-encoded number.
#[inline]
pub fn put_length(out: &mut Vec<u8>, length: u64) {
    let bytes = length.to_le_bytes();
    let (mark, width) = match length {
        0..=0xfa => return out.push(bytes[0]),
        0xfb..=0xffff => (0xfc, 2),
        0x1_0000..=0xff_ffff => (0xfd, 3),
        _ => (0xfe, 8),
    };
    out.push(mark);
    out.extend_from_slice(&bytes[..width]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_zero_may_be_missing_at_the_end() {
        let mut reader = Reader::new(b"first\0second");
        assert_eq!(reader.string_to_zero(), b"first");
        assert_eq!(reader.string_to_zero(), b"second");
        assert!(reader.rest().is_empty());
    }

    #[test]
    fn null_and_nonsense_are_told_apart() {
        assert_eq!(Reader::new(&[0xfb]).number_or_null("x"), Ok(None));
        assert!(Reader::new(&[0xff]).number_or_null("x").is_err());
        assert!(Reader::new(&[0xfb]).length("x").is_err());
        assert_eq!(Reader::new(&[3, b'a']).string_or_null("x"), Err(ProtocolError::Truncated("x")));
        assert_eq!(Reader::new(&[]).byte("x"), Err(ProtocolError::Truncated("x")));
    }

    proptest! {
        #[test]
        fn lengths_come_back(length: u64) {
            let mut bytes = Vec::new();
            put_length(&mut bytes, length);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.length("x"), Ok(length));
            prop_assert!(reader.rest().is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            while !reader.rest().is_empty() && reader.string_or_null("x").is_ok() {}
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))] // fewer cases, because the strings take long to generate

        #[test]
        fn strings_come_back(string in proptest::collection::vec(any::<u8>(), 0..70_000)) {
            let mut bytes = Vec::new();
            put_string(&mut bytes, &string);
            prop_assert_eq!(Reader::new(&bytes).string_or_null("x"), Ok(Some(string.as_slice())));
        }
    }
}
