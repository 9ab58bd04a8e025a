//! Servers whose answers have no end.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;

/// A time by which every test has ended, were it that an answer is read for ever.
const LONG: Duration = Duration::from_secs(60);

const SMALL: Limits = Limits { definitions: 64 << 10, kept_rows: 64 << 10, answer: 1 << 20 };

const EOF: &[u8] = b"\xfe\0\0\x02\0";

/// Ask a server that says `beginning` and then `next` over and over.
fn ask(beginning: &[&[u8]], next: &[u8]) -> (ClientError, u64) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let mut connection = Connection {
        transport: Some(Transport::over(Channel::over_unix(ours).unwrap())),
        takes_commands: true,
        decoder: Decoder::default(),
        received: vec![0; RECEIVE_BYTES].into_boxed_slice(),
        server_version: String::new(),
        limits: SMALL,
        answer_end: u64::MAX,
    };
    connection.decoder.expect_results();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut sequence = 1;
            for message in beginning.iter().copied().chain(std::iter::repeat(next)) {
                let mut packets = Vec::new();
                sequence = packet::put_message(&mut packets, message, sequence);
                if theirs.write_all(&packets).is_err() {
                    return; // the client has gone
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

fn refused(beginning: &[&[u8]], next: &[u8], what: &str) {
    let (error, received) = ask(beginning, next);
    assert_eq!(error.kind(), "protocol", "{error}");
    let expected = format!("bytes of {what}");
    assert!(error.to_string().contains(&expected), "{error}");
    assert!(received <= SMALL.answer + (RECEIVE_BYTES as u64), "{received}");
}

#[test]
fn column_definitions_are_bounded() {
    refused(&[b"\xfc\xff\xff"], &[b'd'; 1000], "column definitions");
}

#[test]
fn rows_that_are_kept_are_bounded() {
    let long = [b"\xfd\x10\x27\0".as_slice(), &[b'r'; 10_000]].concat();
    refused(&[b"\x01", b"d", EOF], &long, "rows to keep");
}

#[test]
fn rows_of_nulls_count_as_what_they_need_in_memory() {
    let mut beginning: Vec<&[u8]> = vec![b"\xfc\xe8\x03"];
    beginning.extend([b"d".as_slice(); 1000]);
    beginning.push(EOF);
    refused(&beginning, &[0xfb; 1000], "rows to keep");
}

#[test]
fn rows_that_nobody_keeps_end() {
    refused(&[b"\x01", b"d", EOF], b"\x01r", "results");
}

#[test]
fn results_that_follow_results_end() {
    refused(&[], b"\0\0\0\x0a\0\0\0", "results");
}

#[test]
fn what_a_server_says_is_quoted_in_part() {
    let error = [b"\xff\x10\x04#HY000".as_slice(), &vec![b'e'; 100_000]].concat();
    let (error, _) = ask(&[&error], b"\0");
    assert!(error.to_string().len() < 2000, "{}", error.to_string().len());
    let file = [b"\xfb".as_slice(), &vec![b'f'; 100_000]].concat();
    let (error, _) = ask(&[&file], b"\0");
    assert!(error.to_string().len() < 2000, "{}", error.to_string().len());
}
