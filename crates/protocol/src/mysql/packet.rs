//! Packets: three bytes of length, one byte of sequence number, then the payload. A message that is
//! too long for one packet is split; the last packet is shorter than the maximum, possibly empty.

use crate::ProtocolError;

/// The maximum payload; a packet of this length is continued in the next packet.
pub const MAX_PAYLOAD: usize = 0xff_ffff;

/// The length of the header before a payload.
pub const HEADER: usize = 4;

/// The maximum length of an accepted message; the results read here are small.
const MAX_MESSAGE: usize = 64 << 20;

/// The maximum length of an accepted message before a login has succeeded.
const MAX_GREETING: usize = 64 << 10;

/// The first byte of an error. It is accepted with any sequence number, because a server that gives
/// up early may count differently.
const ERROR: u8 = 0xff;

/// Return the header of a packet; `length` is at most [`MAX_PAYLOAD`].
pub fn header(length: usize, sequence: u8) -> [u8; HEADER] {
    debug_assert!(length <= MAX_PAYLOAD);
    let [a, b, c, ..] = length.to_le_bytes();
    [a, b, c, sequence]
}

/// Return the length of a packet's payload and its sequence number.
#[inline]
pub fn parse_header(header: [u8; HEADER]) -> (usize, u8) {
    let [a, b, c, number] = header;
    (u32::from_le_bytes([a, b, c, 0]) as usize, number)
}

/// Append a message as packets numbered from `sequence` on; return the number after the last one.
pub fn put_message(out: &mut Vec<u8>, message: &[u8], mut sequence: u8) -> u8 {
    let mut rest = message;
    loop {
        let (payload, next) = rest.split_at(rest.len().min(MAX_PAYLOAD));
        out.extend_from_slice(&header(payload.len(), sequence));
        out.extend_from_slice(payload);
        sequence = sequence.wrapping_add(1);
        rest = next;
        if payload.len() < MAX_PAYLOAD {
            return sequence;
        }
    }
}

/// Splits a byte stream into messages; accepts only short messages until `expect_results` is
/// called.
#[derive(Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    consumed: usize,
    message: Vec<u8>,
    /// The sequence number that the next packet must have.
    sequence: u8,
    /// Accept messages as long as results can be.
    has_results: bool,
}

impl Decoder {
    /// Accept messages as long as results can be.
    pub fn expect_results(&mut self) {
        self.has_results = true;
    }

    /// Return the sequence number of the next packet in either direction.
    pub fn sequence(&self) -> u8 {
        self.sequence
    }

    /// Set the sequence number of the next packet to arrive, after packets were sent.
    pub fn expect(&mut self, sequence: u8) {
        self.sequence = sequence;
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.consumed);
        self.consumed = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Return whether a packet or a message has arrived only in part.
    pub fn is_incomplete(&self) -> bool {
        self.consumed < self.buffer.len() || !self.message.is_empty()
    }

    /// Return the next whole message; None if more bytes are needed.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, ProtocolError> {
        let limit = if self.has_results { MAX_MESSAGE } else { MAX_GREETING };
        loop {
            let rest = &self.buffer[self.consumed..];
            let Some((header, rest)) = rest.split_first_chunk() else {
                return Ok(None);
            };
            let (length, number) = parse_header(*header);
            if self.message.len() + length > limit {
                return Err(ProtocolError::TooLarge { limit });
            }
            if length > 0 && rest.is_empty() {
                return Ok(None); // the first byte decides whether the number matters
            }
            let is_error = length > 0 && self.message.is_empty() && rest[0] == ERROR;
            if number != self.sequence && !is_error {
                let (expected, got) = (self.sequence, number);
                return Err(ProtocolError::OutOfOrder { expected, got });
            }
            let Some(payload) = rest.get(..length) else {
                return Ok(None);
            };
            self.sequence = number.wrapping_add(1);
            self.message.extend_from_slice(payload);
            self.consumed += HEADER + length;
            if length < MAX_PAYLOAD {
                return Ok(Some(std::mem::take(&mut self.message)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ready() -> Decoder {
        let mut decoder = Decoder::default();
        decoder.expect_results();
        decoder
    }

    #[test]
    fn a_message_is_framed_as_the_protocol_says() {
        let mut out = Vec::new();
        assert_eq!(put_message(&mut out, b"\x03SELECT 1", 0), 1);
        assert_eq!(out, b"\x09\0\0\0\x03SELECT 1");
    }

    #[test]
    fn messages_at_and_above_the_limit_of_a_packet() {
        for (length, packets) in [(MAX_PAYLOAD - 1, 1), (MAX_PAYLOAD, 2), (MAX_PAYLOAD + 1, 2)] {
            let message = vec![7; length];
            let mut out = Vec::new();
            assert_eq!(put_message(&mut out, &message, 255), 255u8.wrapping_add(packets));
            assert_eq!(out.len(), length + HEADER * usize::from(packets));
            let mut decoder = ready();
            decoder.expect(255);
            decoder.feed(&out);
            assert!(decoder.next_message().unwrap().unwrap() == message);
            assert_eq!(decoder.sequence(), 255u8.wrapping_add(packets));
            assert!(!decoder.is_incomplete());
        }
    }

    #[test]
    fn a_wrong_number_is_refused_unless_it_carries_an_error() {
        let mut decoder = ready();
        decoder.feed(&[1, 0, 0, 5, 0]);
        let expected = ProtocolError::OutOfOrder { expected: 0, got: 5 };
        assert_eq!(decoder.next_message(), Err(expected));
        let mut decoder = ready();
        decoder.feed(&[1, 0, 0, 5, 0xff]);
        assert_eq!(decoder.next_message(), Ok(Some(vec![0xff])));
    }

    #[test]
    fn endless_messages_are_refused() {
        let mut decoder = ready();
        let packet = vec![0; MAX_PAYLOAD];
        let outcome = (0..=4u8).find_map(|number| {
            decoder.feed(&header(MAX_PAYLOAD, number));
            decoder.feed(&packet);
            decoder.next_message().err()
        });
        assert_eq!(outcome, Some(ProtocolError::TooLarge { limit: MAX_MESSAGE }));
    }

    #[test]
    fn a_long_greeting_is_refused() {
        let mut decoder = Decoder::default();
        decoder.feed(b"SSH-2.0");
        let limit = MAX_GREETING;
        assert_eq!(decoder.next_message(), Err(ProtocolError::TooLarge { limit }));
    }

    #[test]
    fn a_cut_packet_is_incomplete_and_a_wrong_number_noticed() {
        let mut decoder = ready();
        decoder.feed(&[5, 0, 0, 0, 1, 2]);
        assert_eq!(decoder.next_message(), Ok(None));
        assert!(decoder.is_incomplete());
        let mut decoder = ready();
        decoder.feed(&[9, 0, 0, 5]);
        assert_eq!(decoder.next_message(), Ok(None));
        decoder.feed(&[0]);
        assert!(decoder.next_message().is_err());
    }

    proptest! {
        #[test]
        fn messages_come_back_however_they_are_cut(
            messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..20),
            cut in 1usize..200,
        ) {
            let mut bytes = Vec::new();
            let mut sequence = 0;
            for message in &messages {
                sequence = put_message(&mut bytes, message, sequence);
            }
            let mut decoder = ready();
            let mut received = Vec::new();
            for piece in bytes.chunks(cut) {
                decoder.feed(piece);
                while let Some(message) = decoder.next_message().unwrap() {
                    received.push(message);
                }
            }
            prop_assert_eq!(received, messages);
            prop_assert!(!decoder.is_incomplete());
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            let mut decoder = ready();
            decoder.feed(&bytes);
            while let Ok(Some(_)) = decoder.next_message() {}
        }
    }
}
