//! Servers that send answers without an end.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;

/// A limit that every test stays below, unless an answer is read forever.
const LONG: Duration = Duration::from_secs(60);

const SMALL: Limits = Limits { definitions: 64 << 10, kept_rows: 64 << 10, answer: 1 << 20 };

const EOF: &[u8] = b"\xfe\0\0\x02\0";

/// Query a server that sends `beginning`, and then `next` over and over.
fn ask(beginning: &[&[u8]], next: &[u8]) -> (ClientError, u64) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut connection = Connection::new(Transport::over(Channel::over_unix(ours).unwrap()));
    connection.takes_commands = true;
    connection.limits = SMALL;
    connection.decoder.expect_results();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut sequence = 1;
            for message in beginning.iter().copied().chain(std::iter::repeat(next)) {
                let mut packets = Vec::new();
                sequence = packet::put_message(&mut packets, message, sequence);
                if theirs.write_all(&packets).is_err() {
                    return; // the client has disconnected
                }
            }
        });
        let deadline = Deadline::start(&Arc::new(AtomicBool::new(false)), Some(LONG));
        let error = connection.query("SELECT 1", &deadline).unwrap_err();
        let received = connection.bytes_received();
        drop(connection);
        (error, received)
    })
}

#[test]
fn answers_without_end_are_refused() {
    let long = [b"\xfd\x10\x27\0".as_slice(), &[b'r'; 10_000]].concat();
    let one_column: [&[u8]; 3] = [b"\x01", b"d", EOF];
    let many_columns =
        [&[b"\xfc\xe8\x03".as_slice()][..], &[b"d".as_slice(); 1000], &[EOF]].concat();
    for (beginning, next, what) in [
        (&[b"\xfc\xff\xff".as_slice()][..], &[b'd'; 1000][..], "column definitions"),
        (&one_column, &long, "rows to keep"),
        (&many_columns, &[0xfb; 1000], "rows to keep"), // a NULL counts as its size in memory
        (&one_column, b"\x01r", "results"),
        (&[], b"\0\0\0\x0a\0\0\0", "results"),
    ] {
        let (error, received) = ask(beginning, next);
        assert_eq!(error.kind(), "protocol", "{error}");
        assert!(error.to_string().contains(&format!("bytes of {what}")), "{error}");
        assert!(received <= SMALL.answer + (RECEIVE_BYTES as u64), "{received}");
    }
}

#[test]
fn long_words_of_a_server_are_quoted_in_part() {
    for beginning in [b"\xff\x10\x04#HY000".as_slice(), b"\xfb"] {
        let (error, _) = ask(&[&[beginning, &vec![b'e'; 100_000]].concat()], b"\0");
        assert!(error.to_string().len() < 2000, "{}", error.to_string().len());
    }
}
