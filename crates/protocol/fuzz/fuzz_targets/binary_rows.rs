//! A result set read to the last value, as binary and as text; where every message of it can be
//! read, whoever only follows it must find as many rows.
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::AnswerReader;
use protocol::mysql::MysqlAnswerReader;
use protocol::mysql::packet::Decoder;
use protocol::mysql::reply::{self, Done};
use protocol::mysql::values::{Column, parse_binary_row};

/// The number of rows, and how they ended.
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
        // Empty rows are refused by whoever only follows: no server sends them.
        return;
    };
    let end = fed.end.expect("the answer is over");
    assert_eq!((end.rows, end.warnings), (rows, done.warnings));
});
