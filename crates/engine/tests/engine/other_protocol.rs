//! The engine with a protocol other than MySQL's: requests and answers are lines of text.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::thread;

use engine::{DriveSettings, End};
use protocol::script::{Names, Request, Row, RowFormat, Script, WhichRow};
use protocol::{
    AnswerReader, AnswerSummary, FeedResult, PeerAddress, Protocol, ProtocolError, ServerError,
    Session,
};

use super::settings;

struct Lines;

impl Protocol for Lines {
    type Answers = LineReader;
    const ROLLBACK: &'static [u8] = b"rollback\n";
    const QUIT: &'static [u8] = b"quit\n";
}

#[derive(Default)]
struct LineReader {
    line: Vec<u8>,
}

impl AnswerReader for LineReader {
    fn feed(&mut self, bytes: &[u8]) -> Result<FeedResult, ProtocolError> {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let consumed = end.map_or(bytes.len(), |end| end + 1);
        self.line.extend_from_slice(&bytes[..consumed]);
        let end = end.map(|_| {
            let line = std::mem::take(&mut self.line);
            let refused = || ServerError {
                code: 1213,
                sqlstate: "40001".to_owned(),
                message: "refused".to_owned(),
            };
            AnswerSummary {
                rows: u64::from(line == b"row\n"),
                bytes: line.len() as u64,
                error: (line == b"no\n").then(|| Box::new(refused())),
                ..AnswerSummary::default()
            }
        });
        Ok(FeedResult { consumed, end })
    }

    fn keep_row(&mut self, _: WhichRow, _: RowFormat) {}

    fn forget_row(&mut self) {}

    fn take_row(&mut self) -> Result<Option<Row>, ProtocolError> {
        Ok(None)
    }

    fn take_rows(&mut self) -> Result<Vec<Row>, ProtocolError> {
        Ok(Vec::new())
    }
}

struct LineSession(UnixStream);

impl AsFd for LineSession {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Session for LineSession {
    type Protocol = Lines;

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn wants_write(&self) -> bool {
        false
    }

    fn peer_address(&self) -> io::Result<PeerAddress> {
        Ok(PeerAddress::Unix { inode: 0 })
    }
}

struct LineScript;

impl Script for LineScript {
    fn next(&mut self, out: &mut Vec<u8>) -> Option<Request> {
        out.extend_from_slice(b"get\n");
        Some(Request { first: true, last: true, ..Request::default() })
    }

    fn rollback_needed(&self) -> bool {
        true
    }
}

/// Answer each line; the fifth of each connection fails. Return the lines.
fn serve(stream: UnixStream) -> Vec<String> {
    let mut answers = stream.try_clone().unwrap();
    let mut lines = Vec::new();
    for line in BufReader::new(stream).lines() {
        lines.push(line.unwrap());
        let answer: &[u8] = match (lines.last().unwrap().as_str(), lines.len()) {
            ("quit", _) => break,
            ("rollback", _) => b"done\n",
            (_, 5) => b"no\n",
            _ => b"row\n",
        };
        answers.write_all(answer).unwrap();
    }
    lines
}

#[test]
fn the_engine_speaks_the_protocol_of_its_session() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let server = thread::spawn(move || serve(theirs));
    let names = Names { statements: vec!["get".to_owned()], transactions: vec!["t".to_owned()] };
    let drive = DriveSettings { end: End::Operations(10), ..settings(1, 1) };
    let open = |_| Ok((LineSession(ours.try_clone().unwrap()), LineScript));
    let stop = AtomicBool::new(false);
    let driven = engine::drive(&drive, &names, open, None, &|_| (), &stop).unwrap();
    assert_eq!(driven.transactions[0].count, 10);
    assert_eq!((driven.transactions[0].tally.retries, driven.rollbacks), (1, 1));
    assert_eq!(driven.statements[0].tally.rows, 10);
    let lines = server.join().unwrap();
    assert_eq!((lines[5].as_str(), lines[12].as_str()), ("rollback", "quit"));
}
