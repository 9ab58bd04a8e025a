//! Rows that are kept on request.

use super::*;

const DEFINITION: &[u8] = b"\x03def\0\0\0\x01c\0\x0c\x08\0\x01\0\0\0\xfd\0\0\0\0\0";
const INSERTED: &[u8] = &[0, 1, 42, 2, 0, 0, 0];

/// A text row with one value that is longer than the kept part of an answer.
fn long_row() -> Vec<u8> {
    [&[0xfd, 0, 0, 2][..], &vec![b'x'; 2 << 16]].concat()
}

fn reader_of(which: WhichRow, format: RowFormat) -> MysqlAnswerReader {
    let mut reader = MysqlAnswerReader::default();
    reader.keep_row(which, format);
    reader
}

#[test]
fn the_first_row_is_kept_on_request_however_reads_cut_it() {
    let long = long_row();
    let rows: [&[u8]; 6] = [&[1], DEFINITION, EOF_MESSAGE, b"\x0212", &long, EOF_MESSAGE];
    let bytes = framed(&rows);
    for cut in [1, 7, 60, 4096, bytes.len()] {
        let mut reader = reader_of(WhichRow::First, RowFormat::Text);
        let ends = bytes.chunks(cut).map(|piece| reader.feed(piece).unwrap().end);
        assert_eq!(ends.last().unwrap().unwrap().rows, 2);
        let row = reader.take_row().unwrap();
        assert_eq!(row, Some(vec![Some("12".to_owned())]), "{cut}");
        reader.feed(&bytes).unwrap();
        assert_eq!(reader.take_row(), Ok(None)); // no row of this answer was requested
    }
}

#[test]
fn answers_without_rows_have_no_first_row() {
    for messages in [&[INSERTED][..], &[&[1], DEFINITION, EOF_MESSAGE, EOF_MESSAGE]] {
        let mut reader = reader_of(WhichRow::First, RowFormat::Binary);
        reader.feed(&framed(messages)).unwrap();
        assert_eq!(reader.take_row(), Ok(None));
    }
}

#[test]
fn a_first_row_that_is_too_long_to_keep_is_an_error() {
    let mut reader = reader_of(WhichRow::First, RowFormat::Text);
    let long = long_row();
    let bytes = framed(&[&[1], DEFINITION, EOF_MESSAGE, &long, EOF_MESSAGE]);
    reader.feed(&bytes).unwrap();
    let error = reader.take_row().unwrap_err();
    assert!(matches!(error, ProtocolError::TooMuch { .. }), "{error}");
}

#[test]
fn the_last_row_is_kept_however_reads_cut_it() {
    let rows: [&[u8]; 7] =
        [&[1], DEFINITION, EOF_MESSAGE, b"\x0212", b"\x0234", b"\x0e0123456789abcd", EOF_MESSAGE];
    let bytes = framed(&rows);
    for cut in 1..=bytes.len() {
        let mut reader = reader_of(WhichRow::Last, RowFormat::Text);
        bytes.chunks(cut).for_each(|piece| _ = reader.feed(piece).unwrap());
        let row = reader.take_row().unwrap();
        assert_eq!(row, Some(vec![Some("0123456789abcd".to_owned())]), "{cut}");
    }
    let mut reader = reader_of(WhichRow::Last, RowFormat::Text);
    reader.feed(&bytes).unwrap();
    reader.forget_row();
    assert_eq!(reader.take_row(), Ok(None));
    let last = |rows: &[&[u8]]| {
        let mut reader = reader_of(WhichRow::Last, RowFormat::Text);
        reader.feed(&framed(&[&[&[1], DEFINITION, EOF_MESSAGE], rows].concat())).unwrap();
        reader.take_row()
    };
    assert_eq!(last(&[EOF_MESSAGE]), Ok(None));
    assert!(matches!(last(&[&long_row(), EOF_MESSAGE]), Err(ProtocolError::TooMuch { .. })));
}

#[test]
fn all_rows_are_read_as_far_as_they_are_short() {
    let mut reader = MysqlAnswerReader::default();
    let two: [&[u8]; 2] = [b"\x011", b"\x012"];
    for (rows, expected) in [(&[][..], &[][..]), (&two, &["1", "2"])] {
        let head: [&[u8]; 3] = [&[1], DEFINITION, EOF_MESSAGE];
        let messages = [&head, rows, &[EOF_MESSAGE]].concat();
        reader.keep_row(WhichRow::First, RowFormat::Text);
        reader.feed(&framed(&messages)).unwrap();
        let found = reader.take_rows().unwrap();
        let found: Vec<&str> = found.iter().filter_map(|row| row[0].as_deref()).collect();
        assert_eq!(found, expected);
    }
    reader.keep_row(WhichRow::First, RowFormat::Text);
    reader
        .feed(&framed(&[&[1], DEFINITION, EOF_MESSAGE, b"\x011", &long_row(), EOF_MESSAGE]))
        .unwrap();
    assert!(matches!(reader.take_rows(), Err(ProtocolError::TooMuch { .. })));
}

#[test]
fn nothing_is_kept_of_an_answer_after_an_error() {
    let mut reader = reader_of(WhichRow::First, RowFormat::Text);
    reader.feed(&framed(&[b"\xff\x15\x04#28000no"])).unwrap();
    reader.feed(&framed(&[&[1], DEFINITION, EOF_MESSAGE, b"\x0212", EOF_MESSAGE])).unwrap();
    assert_eq!(reader.take_row(), Ok(None));
}
