//! A result set whose values are all parsed, as binary rows and as text. If every message can be
//! parsed, the answer reader must count as many rows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::AnswerReader;
use protocol::mysql::MysqlAnswerReader;
use protocol::mysql::packet::Decoder;
use protocol::mysql::reply::{self, Done};
use protocol::mysql::values::{Column, parse_binary_row};

/// Return the number of rows, and the message after the last row; None if a message is not valid.
fn read(bytes: &[u8]) -> Option<(u64, Done)> {
    let mut decoder = Decoder::default();
    decoder.expect(1);
    decoder.feed(bytes);
    let mut next = || decoder.next_message().ok().flatten();
    let first = next()?;
    if matches!(first.first(), None | Some(&(reply::OK | reply::ERROR | reply::LOCAL_FILE))) {
        return None;
    }
    let count = reply::parse_column_count(&first).ok()?;
    let mut columns = Vec::new();
    for _ in 0..count.get() {
        let message = next()?;
        if reply::parse_end(&message).ok()?.ok()?.is_some() {
            return None;
        }
        columns.push(Column::parse(&message).ok()?);
    }
    reply::parse_end(&next()?).ok()?.ok()??;
    let mut rows = 0;
    loop {
        let message = next()?;
        if let Some(done) = reply::parse_end(&message).ok()?.ok()? {
            return Some((rows, done));
        }
        rows += 1;
        let _ = reply::parse_text_row(&message, columns.len());
        if let Ok(values) = parse_binary_row(&message, &columns) {
            assert_eq!(values.len(), columns.len());
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((rows, done)) = read(bytes) else {
        return;
    };
    if done.more_results {
        return;
    }
    let Ok(fed) = MysqlAnswerReader::default().feed(bytes) else {
        // The answer reader rejects empty rows, which no server sends.
        return;
    };
    let end = fed.end.expect("the answer is over");
    assert_eq!((end.rows, end.warnings), (rows, done.warnings));
});
