//! The answer reader, fed whole answers and pieces of them: it must not panic, and both must give
//! the same result.
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::ProtocolError;
use protocol::mysql::MysqlAnswerReader;
use protocol::{AnswerReader, AnswerSummary};

fn follow(bytes: &[u8], cut: usize) -> (Vec<AnswerSummary>, Option<ProtocolError>) {
    let mut reader = MysqlAnswerReader::default();
    let mut ends = Vec::new();
    for piece in bytes.chunks(cut) {
        let mut rest = piece;
        while !rest.is_empty() {
            match reader.feed(rest) {
                Ok(fed) => {
                    assert!(fed.consumed > 0);
                    assert!(fed.consumed == rest.len() || fed.end.is_some());
                    ends.extend(fed.end);
                    rest = &rest[fed.consumed..];
                }
                Err(error) => return (ends, Some(error)),
            }
        }
    }
    (ends, None)
}

fuzz_target!(|bytes: &[u8]| {
    let whole = follow(bytes, bytes.len().max(1));
    assert_eq!(whole, follow(bytes, 1));
    assert_eq!(whole, follow(bytes, 2 + bytes.len() % 61));
});
