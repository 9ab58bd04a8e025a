use super::*;
use crate::mysql::packet::{self, Decoder};
use crate::mysql::reply::Reply;
use crate::mysql::wire;
use proptest::prelude::*;

mod kept_row;

const EOF_MESSAGE: &[u8] = &[0xfe, 0, 0, 2, 0];
const OK_MESSAGE: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

/// Return messages as the packets of an answer.
fn framed(messages: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    messages.iter().fold(1, |sequence, message| packet::put_message(&mut bytes, message, sequence));
    bytes
}

fn read_whole(bytes: &[u8]) -> Result<AnswerSummary, ProtocolError> {
    let fed = MysqlAnswerReader::default().feed(bytes)?;
    assert_eq!(fed.consumed, bytes.len());
    Ok(fed.end.expect("the bytes are a whole answer"))
}

/// Feed pieces of `cut` bytes, and again the unconsumed rest of a piece; stop at an error.
fn read_cut(bytes: &[u8], cut: usize) -> (Vec<AnswerSummary>, Option<ProtocolError>) {
    let mut reader = MysqlAnswerReader::default();
    let mut ends = Vec::new();
    for piece in bytes.chunks(cut) {
        let mut rest = piece;
        while !rest.is_empty() {
            match reader.feed(rest) {
                Ok(fed) => {
                    assert!(fed.consumed > 0, "no progress");
                    assert!(fed.end.is_some() || fed.consumed == rest.len());
                    rest = &rest[fed.consumed..];
                    ends.extend(fed.end);
                }
                Err(error) => return (ends, Some(error)),
            }
        }
    }
    (ends, None)
}

/// Parse the same bytes packet by packet, with every value, as a reference.
fn reference(bytes: &[u8]) -> Option<AnswerSummary> {
    let mut decoder = Decoder::default();
    decoder.expect_results();
    decoder.expect(1);
    decoder.feed(bytes);
    let mut next = || decoder.next_message().ok().flatten();
    let mut answer = AnswerSummary { bytes: bytes.len() as u64, ..AnswerSummary::default() };
    loop {
        let message = next()?;
        let done = match reply::parse_reply(&message).ok()? {
            Err(error) => {
                answer.error = Some(Box::new(error));
                return Some(answer);
            }
            Ok(Reply::Done(done)) => done,
            Ok(Reply::LocalFile(_)) => return None,
            Ok(Reply::Columns(columns)) => {
                for _ in 0..columns.get() {
                    next()?;
                }
                reply::parse_end(&next()?).ok()?.ok()??;
                loop {
                    let message = next()?;
                    match reply::parse_end(&message).ok()? {
                        Ok(None) => {
                            reply::parse_text_row(&message, usize::from(columns.get())).ok()?;
                            answer.rows += 1;
                        }
                        Ok(Some(done)) => break done,
                        Err(error) => {
                            answer.error = Some(Box::new(error));
                            return Some(answer);
                        }
                    }
                }
            }
        };
        answer.affected_rows += done.affected_rows;
        if done.last_insert_id > 0 {
            answer.last_insert_id = done.last_insert_id;
        }
        answer.warnings = done.warnings;
        if !done.more_results {
            return Some(answer);
        }
    }
}

#[test]
fn an_ok() {
    let bytes = framed(&[&[0, 0xfc, 0xe8, 0x03, 7, 1, 0, 5, 0]]);
    let expected = AnswerSummary {
        affected_rows: 1000,
        last_insert_id: 7,
        warnings: 5,
        bytes: 13,
        ..AnswerSummary::default()
    };
    assert_eq!(read_whole(&bytes), Ok(expected));
}

#[test]
fn text_rows_and_binary_rows_are_counted_alike() {
    let binary = [0, 0, 5, 0, 0, 0];
    for row in [&b"\x03abc"[..], &binary] {
        let bytes = framed(&[b"\x01", b"\x03def", EOF_MESSAGE, row, row, EOF_MESSAGE]);
        let end = read_whole(&bytes).unwrap();
        assert_eq!((end.rows, end.bytes), (2, bytes.len() as u64));
    }
}

#[test]
fn several_results_are_one_answer() {
    let more = [0xfe, 1, 0, 10, 0];
    let head: [&[u8]; 3] = [b"\x01", b"\x03def", EOF_MESSAGE];
    let (one, two): ([&[u8]; 2], [&[u8]; 3]) = ([b"\x01a", &more], [b"\x01b", b"\x01c", &more]);
    let messages = [&head[..], &one, &head, &two, &[&[0, 4, 0, 2, 0, 3, 0]]].concat();
    let bytes = framed(&messages);
    let end = read_whole(&bytes).unwrap();
    assert_eq!((end.rows, end.affected_rows, end.warnings), (3, 4, 3));
}

#[test]
fn an_error_at_once_and_in_the_middle_of_rows() {
    let deadlock = b"\xff\xbd\x04#40001Deadlock found";
    for before in [vec![], vec![&b"\x01"[..], b"\x03def", EOF_MESSAGE, b"\x01a"]] {
        let messages = [before.as_slice(), &[deadlock]].concat();
        let end = read_whole(&framed(&messages)).unwrap();
        let error = end.error.unwrap();
        assert_eq!((error.code, error.sqlstate.as_str()), (1213, "40001"));
        assert_eq!(error.message, "Deadlock found");
        assert_eq!(end.rows, u64::from(!before.is_empty()));
    }
}

#[test]
fn it_stops_at_the_end_of_an_answer() {
    let one = framed(&[OK_MESSAGE]);
    let two = [one.as_slice(), &one].concat();
    let mut reader = MysqlAnswerReader::default();
    assert_eq!(reader.answer.bytes, 0);
    let fed = reader.feed(&two).unwrap();
    assert_eq!((fed.consumed, fed.end.is_some()), (one.len(), true));
    assert_eq!(reader.answer.bytes, 0);
    let fed = reader.feed(&two[fed.consumed..two.len() - 1]).unwrap();
    assert_eq!((fed.consumed, fed.end.is_some()), (one.len() - 1, false));
    assert_ne!(reader.answer.bytes, 0);
}

#[test]
fn rows_larger_than_a_packet_are_one_row() {
    let large = [&[0xfd, 0xff, 0xff, 0xff][..], &vec![b'x'; MAX_PAYLOAD]].concat();
    // A row that fills its packet exactly is followed by an empty packet.
    let exact = [&[0xfd, 0xfb, 0xff, 0xff][..], &vec![0xfe; MAX_PAYLOAD - 4]].concat();
    let bytes = framed(&[b"\x01", b"\x03def", EOF_MESSAGE, &large, b"\x01a", &exact, EOF_MESSAGE]);
    for cut in [bytes.len(), 64 << 10, MAX_PAYLOAD + 3] {
        let (ends, error) = read_cut(&bytes, cut);
        assert_eq!(error, None);
        assert_eq!((ends.len(), ends[0].rows), (1, 3));
        assert_eq!(ends[0].bytes, bytes.len() as u64);
    }
}

#[test]
fn endless_messages_are_refused() {
    let mut reader = MysqlAnswerReader::default();
    let start = framed(&[b"\x01", b"\x03def", EOF_MESSAGE]);
    reader.feed(&start).unwrap();
    let payload = vec![b'x'; MAX_PAYLOAD];
    let error = (4..=255).find_map(|number| {
        reader
            .feed(&packet::header(MAX_PAYLOAD, number))
            .err()
            .or_else(|| reader.feed(&payload).err())
    });
    assert_eq!(error, Some(ProtocolError::TooLarge { limit: MAX_MESSAGE }));
}

#[test]
fn what_no_server_sends_is_refused_with_a_reason() {
    let long_error = [&b"\xff\xbd\x04#40001"[..], &vec![b'x'; MAX_ERROR]].concat();
    let many_columns = [0xfd, 0, 0, 1];
    let long_first = vec![0; MAX_PAYLOAD];
    for (messages, reason) in [
        (vec![&b"\xfbnodes"[..]], "a request for a local file"),
        (vec![b""], "in the middle of its answer"),
        (vec![b"\0\0"], "in the middle of its last inserted id"),
        (vec![b"\xff\x01"], "in the middle of its error code"),
        (vec![&long_error], "more than 65536 bytes"),
        (vec![&many_columns], "65536 columns were announced"),
        (vec![&[0xfc, 0, 0]], "0 columns were announced"),
        (vec![&long_first], "the first message of an answer has 16 MB"),
        (vec![b"\x02", b"\x03def", EOF_MESSAGE], "ended 1 too early"),
        (vec![b"\x01", b"\x03def", b"\x03def"], "more column definitions"),
        (vec![b"\x01", b"\x03def", EOF_MESSAGE, b""], "in the middle of its answer"),
        (vec![b"\x01", b"\x03def", EOF_MESSAGE, b"\xfe\0"], "number of warnings"),
    ] {
        let error = MysqlAnswerReader::default().feed(&framed(&messages)).unwrap_err();
        assert!(error.to_string().contains(reason), "{error} | {reason}");
    }
}

#[test]
fn a_wrong_number_is_refused_unless_it_carries_an_error() {
    let mut bytes = framed(&[b"\x01", b"\x03def", EOF_MESSAGE, b"\x01a", EOF_MESSAGE]);
    let number_of_row = bytes.len() - (HEADER + EOF_MESSAGE.len()) - b"\x01a".len() - 1;
    bytes[number_of_row] = 9;
    let expected = ProtocolError::OutOfOrder { expected: 4, got: 9 };
    assert_eq!(MysqlAnswerReader::default().feed(&bytes), Err(expected));
    let mut failed = framed(&[b"\xff\xbd\x04#40001Deadlock found"]);
    failed[3] = 77;
    assert!(read_whole(&failed).unwrap().error.is_some());
}

fn message_of_an_end(more: bool) -> impl Strategy<Value = Vec<u8>> {
    let ok = (any::<u64>(), any::<u64>(), any::<[u8; 4]>(), "[a-z]{0,40}");
    ok.prop_map(move |(affected, id, [mut status, high, w1, w2], info)| {
        status = if more { status | 8 } else { status & !8 };
        let mut message = vec![OK];
        wire::put_length(&mut message, affected >> 8);
        wire::put_length(&mut message, id);
        message.extend_from_slice(&[status, high, w1, w2]);
        message.extend_from_slice(info.as_bytes());
        message
    })
}

fn messages_of_a_result_set(more: bool) -> impl Strategy<Value = Vec<Vec<u8>>> {
    let value = proptest::collection::vec(any::<u8>(), 0..300);
    let row = proptest::collection::vec(proptest::option::of(value), 3);
    (proptest::collection::vec(row, 0..20), any::<[u8; 4]>()).prop_map(
        move |(rows, [w1, w2, mut status, high])| {
            status = if more { status | 8 } else { status & !8 };
            let mut messages = vec![vec![3]];
            messages.extend(vec![b"\x03def\x01d\x01t".to_vec(); 3]);
            messages.push(EOF_MESSAGE.to_vec());
            messages.extend(rows.into_iter().map(|values| {
                let mut row = Vec::new();
                for value in values {
                    match value {
                        None => row.push(0xfb),
                        Some(value) => wire::put_string(&mut row, &value),
                    }
                }
                row
            }));
            messages.push(vec![EOF, w1, w2, status, high]);
            messages
        },
    )
}

fn messages_of_a_result(more: bool) -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop_oneof![
        message_of_an_end(more).prop_map(|message| vec![message]),
        messages_of_a_result_set(more),
    ]
}

/// Generate a complete answer of some results; an error may end the last result early.
fn answer() -> impl Strategy<Value = Vec<u8>> {
    let results = proptest::collection::vec(messages_of_a_result(true), 0..3);
    let error = proptest::option::weighted(0.3, "[ -~]{0,200}");
    (results, messages_of_a_result(false), error).prop_map(|(results, last, error)| {
        let mut messages: Vec<Vec<u8>> = results.into_iter().flatten().collect();
        messages.extend(last);
        if let Some(text) = error {
            messages.pop();
            messages.push([b"\xff\x28\x04#42000", text.as_bytes()].concat());
        }
        framed(&messages.iter().map(Vec::as_slice).collect::<Vec<_>>())
    })
}

proptest! {
    #[test]
    fn answers_are_what_reading_everything_says(bytes in answer()) {
        let expected = reference(&bytes).expect("answers are made by the rules");
        prop_assert_eq!(read_whole(&bytes), Ok(expected));
    }

    #[test]
    fn any_cut_gives_the_same(
        answers in proptest::collection::vec(answer(), 1..4),
        cut in prop_oneof![1usize..40, 1usize..3000],
    ) {
        let bytes = answers.concat();
        let whole = read_cut(&bytes, bytes.len());
        prop_assert_eq!(whole.0.len(), answers.len());
        prop_assert_eq!(&read_cut(&bytes, cut), &whole);
        prop_assert_eq!(&read_cut(&bytes, 1), &whole);
    }

    #[test]
    fn a_changed_byte_is_followed_or_refused_alike_however_it_is_cut(
        bytes in answer(),
        at: prop::sample::Index,
        value: u8,
        cut in 1usize..200,
    ) {
        let mut bytes = bytes;
        let at = at.index(bytes.len());
        bytes[at] = value;
        prop_assert_eq!(read_cut(&bytes, cut), read_cut(&bytes, bytes.len()));
    }

    #[test]
    fn any_bytes_are_followed_or_refused(bytes: Vec<u8>, more: Vec<u8>) {
        let mut reader = MysqlAnswerReader::default();
        let _ = reader.feed(&bytes);
        let _ = reader.feed(&more); // not useful after an error, but must not panic
    }
}
