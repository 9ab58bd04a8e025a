//! Scripts that observe answers.

use std::sync::atomic::AtomicBool;

use engine::{DriveResult, DriveSettings, End, Failed};
use protocol::script::{Answer, Names, Observe, Request, RowFormat, Script};

use super::server::{self, OK, Server, TWO_ROWS};
use super::settings;

/// A script that reads until an answer has no row, which ends its transaction.
struct Reader {
    observe: Observe,
    is_first: bool,
    answers: Vec<Answer>,
}

impl Script for Reader {
    fn next(&mut self, out: &mut Vec<u8>) -> Option<Request> {
        out.extend_from_slice(b"\x09\0\0\0\x03SELECT 1");
        Some(Request { first: self.is_first, observe: self.observe, ..Request::default() })
    }

    fn answered(&mut self, answer: &Answer) -> Result<bool, String> {
        self.is_first = answer.rows == 0;
        self.answers.push(answer.clone());
        let row = |value: &str| vec![Some(value.to_owned())];
        let expected = match self.observe {
            Observe::FirstRow(_) if answer.rows > 0 => (Some(row("a")), vec![]),
            Observe::Rows(_) if answer.rows > 0 => (Some(row("a")), vec![row("b")]),
            _ => (None, vec![]),
        };
        if (&answer.row, &answer.more_rows) == (&expected.0, &expected.1) {
            Ok(self.is_first)
        } else {
            Err(format!("{answer:?}"))
        }
    }
}

fn drive(observe: Observe, server: &Server) -> Result<DriveResult, Failed> {
    let names = Names { statements: vec!["s".to_owned()], transactions: vec!["t".to_owned()] };
    let open = |client| {
        let script = Reader { observe, is_first: true, answers: Vec::new() };
        Ok((server.connect(client), script))
    };
    let drive = DriveSettings { end: End::Operations(20), ..settings(2, 1) };
    engine::drive(&drive, &names, open, None, &|_| (), &AtomicBool::new(false))
}

/// Return a server whose every third answer has no rows.
fn third_is_empty() -> Server {
    Server::new(|asked| {
        let bytes = if asked.number % 3 == 2 { OK } else { TWO_ROWS };
        server::Answer::Bytes(bytes.to_vec())
    })
}

#[test]
fn answers_decide_how_long_a_transaction_is() {
    let text = RowFormat::Text;
    for observe in [Observe::Counts, Observe::FirstRow(text), Observe::Rows(text)] {
        let driven = drive(observe, &third_is_empty()).unwrap();
        assert_eq!(driven.transactions[0].count, 20);
        assert_eq!(driven.statements[0].count, 60);
    }
}

#[test]
fn an_answer_that_a_script_cannot_use_ends_the_drive() {
    // Text rows begin differently from binary rows, so this is a protocol error ...
    let observe = Observe::FirstRow(RowFormat::Binary);
    let failed = drive(observe, &third_is_empty()).unwrap_err();
    assert_eq!(failed.error.kind(), "protocol");
    // ... and an error of the script is a workload error.
    let server = Server::answering(
        b"\x01\0\0\x01\x01\
        \x17\0\0\x02\x03def\0\0\0\x01c\0\x0c\x08\0\x01\0\0\0\xfe\0\0\0\0\0\
        \x05\0\0\x03\xfe\0\0\x02\0\
        \x02\0\0\x04\x01z\
        \x05\0\0\x05\xfe\0\0\x02\0",
    );
    let failed = drive(Observe::FirstRow(RowFormat::Text), &server).unwrap_err();
    assert_eq!(failed.error.kind(), "workload");
    assert!(failed.error.to_string().contains("Some(\"z\")"), "{}", failed.error);
}
