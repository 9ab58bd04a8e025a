//! Bytes recorded from real servers, decoded by this crate and by another client library.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use mysql_common::constants::{CapabilityFlags, ColumnType};
use mysql_common::io::ParseBuf;
use mysql_common::packets::{
    Column as TheirColumn, ComStmtExecuteRequestBuilder, CommonOkPacket, ErrPacket,
    HandshakePacket, OkPacketDeserializer, StmtPacket,
};
use mysql_common::proto::{Binary, MySerialize, Text};
use mysql_common::row::{Row, RowDeserializer};
use mysql_common::value::{ServerSide, Value as TheirValue};
use proptest::prelude::*;

use protocol::AnswerReader;
use protocol::ServerError;
use protocol::mysql::MysqlAnswerReader;
use protocol::mysql::binary::{Execute, Kind};
use protocol::mysql::handshake::Greeting;
use protocol::mysql::packet::Decoder;
use protocol::mysql::reply::{self, Reply};
use protocol::mysql::values::{Column, parse_binary_row};
use protocol::mysql::{Parameter, Prepared};

const SERVERS: usize = 8;

/// The capabilities that determine the framing, for both libraries.
const CAPABILITIES: CapabilityFlags = CapabilityFlags::CLIENT_PROTOCOL_41;

/// Return the recorded files of a target whose names end with `name`.
fn recorded(target: &str, name: &str) -> Vec<(String, Vec<u8>)> {
    let place = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let files: Vec<_> = fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(&format!("-{name}")))
        .map(|path| (path.display().to_string(), fs::read(path).unwrap()))
        .collect();
    assert_eq!(files.len(), SERVERS, "{target} {name}");
    files
}

fn messages(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::default();
    decoder.expect(1);
    decoder.feed(bytes);
    std::iter::from_fn(|| decoder.next_message().unwrap()).collect()
}

/// Return the columns and the rows of the only result set of an answer.
fn result_set(bytes: &[u8]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let messages = messages(bytes);
    let count = usize::from(reply::parse_column_count(&messages[0]).unwrap().get());
    let (columns, rest) = messages[1..].split_at(count);
    let (_end_of_columns, rest) = rest.split_first().unwrap();
    let (_end_of_rows, rows) = rest.split_last().unwrap();
    (columns.to_vec(), rows.to_vec())
}

fn their_columns(columns: &[Vec<u8>]) -> Arc<[TheirColumn]> {
    columns.iter().map(|column| ParseBuf(column).parse(()).unwrap()).collect()
}

fn their_error(message: &[u8]) -> ServerError {
    let packet: ErrPacket<'_> = ParseBuf(message).parse(CAPABILITIES).unwrap();
    let error = packet.server_error();
    ServerError {
        code: error.error_code(),
        sqlstate: error.sql_state_ref().unwrap().as_str().into_owned(),
        message: error.message_str().into_owned(),
    }
}

#[test]
fn greetings() {
    for (name, bytes) in recorded("greeting", "greeting") {
        let ours = Greeting::parse(&bytes).unwrap();
        // The other library requires the terminating zero, which MySQL 5.5.9 omits.
        let whole = if bytes.ends_with(&[0]) { bytes } else { [bytes.as_slice(), &[0]].concat() };
        let theirs: HandshakePacket<'_> = ParseBuf(&whole).parse(()).unwrap();
        let version = theirs.server_version_str();
        let version = version.strip_prefix("5.5.5-").unwrap_or(&version);
        assert_eq!(ours.server_version, version, "{name}");
        assert_eq!(ours.nonce, theirs.nonce(), "{name}");
        assert_eq!(ours.capabilities, theirs.capabilities().bits(), "{name}");
        assert_eq!(ours.plugin, theirs.auth_plugin_name_str().unwrap(), "{name}");
    }
}

#[test]
fn changes() {
    for (name, bytes) in recorded("answer", "ok") {
        let message = &messages(&bytes)[0];
        let theirs: OkPacketDeserializer<'_, CommonOkPacket> =
            ParseBuf(message).parse(CAPABILITIES).unwrap();
        let theirs = theirs.into_inner();
        let Reply::Done(ours) = reply::parse_reply(message).unwrap().unwrap() else {
            panic!("{name} is no OK");
        };
        assert_eq!(
            (ours.affected_rows, ours.last_insert_id, ours.warnings),
            (theirs.affected_rows(), theirs.last_insert_id().unwrap_or(0), theirs.warnings())
        );
        let end = MysqlAnswerReader::default().feed(&bytes).unwrap().end.unwrap();
        assert_eq!((end.affected_rows, end.warnings), (theirs.affected_rows(), theirs.warnings()));
        assert_eq!(end.affected_rows, 1, "{name}");
    }
}

#[test]
fn errors() {
    for target in ["answer", "prepared"] {
        for (name, bytes) in recorded(target, "error") {
            let message = &messages(&bytes)[0];
            let theirs = their_error(message);
            assert_eq!(reply::parse_error(message).unwrap(), theirs, "{name}");
            let end = MysqlAnswerReader::default().feed(&bytes).unwrap().end.unwrap();
            assert_eq!(end.error.as_deref(), Some(&theirs), "{name}");
            let expected = if target == "answer" { (1146, "42S02") } else { (1064, "42000") };
            assert_eq!((theirs.code, theirs.sqlstate.as_str()), expected, "{name}");
        }
    }
}

#[test]
fn prepared_statements() {
    for (name, bytes) in recorded("prepared", "rows") {
        let message = &messages(&bytes)[0];
        let theirs: StmtPacket = ParseBuf(message).parse(()).unwrap();
        let expected = Prepared {
            id: theirs.statement_id(),
            parameters: theirs.num_params(),
            columns: theirs.num_columns(),
        };
        assert_eq!(Prepared::parse(message).unwrap().unwrap(), expected, "{name}");
        assert_eq!((expected.parameters, expected.columns), (1, 15), "{name}");
    }
}

#[test]
fn text_rows() {
    for (name, bytes) in recorded("answer", "rows") {
        let (columns, rows) = result_set(&bytes);
        let columns = their_columns(&columns);
        for row in &rows {
            let theirs: RowDeserializer<ServerSide, Text> =
                ParseBuf(row).parse(Arc::clone(&columns)).unwrap();
            let theirs = their_texts(Row::from(theirs), &columns);
            assert_eq!(reply::parse_text_row(row, columns.len()).unwrap(), theirs, "{name}");
        }
        assert_eq!(rows.len(), 3, "{name}");
        let end = MysqlAnswerReader::default().feed(&bytes).unwrap().end.unwrap();
        assert_eq!((end.rows, end.bytes), (3, bytes.len() as u64), "{name}");
    }
}

#[test]
fn binary_rows() {
    for (name, bytes) in recorded("binary_rows", "rows") {
        let (columns, rows) = result_set(&bytes);
        let ours: Vec<Column> = columns.iter().map(|each| Column::parse(each).unwrap()).collect();
        let theirs = their_columns(&columns);
        for (our, their) in ours.iter().zip(theirs.iter()) {
            assert_eq!((our.kind, our.decimals), (their.column_type() as u8, their.decimals()));
        }
        for row in &rows {
            let expected: RowDeserializer<ServerSide, Binary> =
                ParseBuf(row).parse(Arc::clone(&theirs)).unwrap();
            let values = parse_binary_row(row, &ours).unwrap();
            assert_eq!(values, their_texts(Row::from(expected), &theirs), "{name}");
        }
        let end = MysqlAnswerReader::default().feed(&bytes).unwrap().end.unwrap();
        assert_eq!(end.rows, 3, "{name}");
    }
}

fn their_texts(row: Row, columns: &[TheirColumn]) -> Vec<Option<String>> {
    let values = row.unwrap().into_iter().zip(columns);
    values.map(|(value, column)| text_of(value, column)).collect()
}

/// Return a value of the other library as text.
fn text_of(value: TheirValue, column: &TheirColumn) -> Option<String> {
    let time = |h: u64, m: u8, s: u8, us: u32| {
        let fraction = format!(".{us:06}");
        let digits = match usize::from(column.decimals()) {
            0 => 0,
            decimals => decimals + 1,
        };
        format!("{h:02}:{m:02}:{s:02}{}", &fraction[..digits])
    };
    Some(match value {
        TheirValue::NULL => return None,
        TheirValue::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        TheirValue::Int(number) => number.to_string(),
        TheirValue::UInt(number) => number.to_string(),
        TheirValue::Float(number) => number.to_string(),
        TheirValue::Double(number) => number.to_string(),
        TheirValue::Date(year, month, day, h, m, s, us) => {
            let date = format!("{year:04}-{month:02}-{day:02}");
            let is_date = column.column_type() == ColumnType::MYSQL_TYPE_DATE;
            if is_date { date } else { format!("{date} {}", time(h.into(), m, s, us)) }
        }
        TheirValue::Time(is_negative, days, h, m, s, us) => {
            let sign = if is_negative { "-" } else { "" };
            format!("{sign}{}", time(u64::from(days) * 24 + u64::from(h), m, s, us))
        }
    })
}

fn parameters() -> impl Strategy<Value = Vec<TheirValue>> {
    let value = prop_oneof![
        Just(TheirValue::NULL),
        any::<i64>().prop_map(TheirValue::Int),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(TheirValue::Bytes),
    ];
    proptest::collection::vec(value, 0..40)
}

fn ours(value: &TheirValue) -> Parameter<'_> {
    match value {
        TheirValue::NULL => Parameter::Null,
        TheirValue::Int(value) => Parameter::Integer(*value),
        TheirValue::Bytes(bytes) => Parameter::Text(bytes),
        other => panic!("{other:?} is not made here"),
    }
}

proptest! {
    #[test]
    fn executions(statement: u32, values in parameters()) {
        let kinds: Vec<Kind> = values.iter().map(|value| ours(value).kind()).collect();
        let mut packet = Vec::new();
        let count = u16::try_from(values.len()).unwrap();
        let mut execute = Execute::begin(&mut packet, statement, count, &kinds);
        for value in &values {
            ours(value).put(&mut execute);
        }
        execute.end();

        let mut theirs = Vec::new();
        ComStmtExecuteRequestBuilder::new(statement).build(&values).0.serialize(&mut theirs);
        // The other library declares text as VAR_STRING and NULL as NULL; this crate declares both
        // as STRING.
        let types = 10 + values.len().div_ceil(8) + 1;
        for at in 0..values.len() {
            let declared = &mut theirs[types + 2 * at];
            if [253, 6].contains(declared) {
                *declared = 254;
            }
        }
        prop_assert_eq!(&packet[4..], theirs);
        let mut decoder = Decoder::default();
        decoder.feed(&packet);
        let messages = std::iter::from_fn(|| decoder.next_message().unwrap());
        prop_assert_eq!(messages.count(), 1);
    }
}
