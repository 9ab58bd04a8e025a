//! Parses the requests of a small workload's scripts.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::super::Script;
use crate::definition::{Definition, Value};
use crate::program::{Program, Protocol};
use crate::testing::script_of;
use protocol::mysql::binary::COM_QUERY;
use protocol::script::{Request, Script as _};

/// A request, as the server sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    Text(String),
    Execution { id: u32, declares: bool, parameters: Vec<u8> },
}

pub fn definition() -> Json {
    json!({
        "tables": {"t": {
            "name": "t{n}", "count": "{tables}", "rows": "{size}", "create": "CREATE TABLE {table} (id INT)",
            "columns": [{"name": "id", "kind": "sequence"}],
        }},
        "generators": {
            "id": {"kind": "integer", "low": 1, "high": "{size}"},
            "end": {"kind": "derived", "from": "id", "plus": "{range}-1"},
            "ids": {"kind": "integer", "low": 1, "high": "{size}", "count": "{range}"},
            "c": {"kind": "digits", "groups": 3, "length": 5},
            "word": {"kind": "text", "length": 2, "max_length": 9},
            "price": {"kind": "decimal", "low": -5, "high": 99.99, "scale": 2},
            "quote": {"kind": "constant", "value": "it's"},
            "flag": {"kind": "constant", "value": true},
            "share": {"kind": "constant", "value": 0.25},
            "each": {"kind": "permutation", "low": 1, "high": "{size}"},
            "new": {"kind": "sequence", "first": 1000, "step": 10},
            "fixed": {"kind": "series", "first": "{size}/2+1", "count": 3},
            "own": {"kind": "integer", "low": 1, "high": "{size}", "segment": "client"},
        },
        "statements": {
            "point": {"sql": "SELECT c FROM {table} WHERE id = ?", "parameters": ["id"]},
            "range": {"sql": "SELECT c FROM {table} WHERE id BETWEEN ? AND ?", "parameters": ["id", "end"]},
            "list": {"sql": "SELECT c FROM {table} WHERE id IN (?)", "parameters": ["ids"]},
            "update": {"sql": "UPDATE {table} SET c = ? WHERE id = ?", "parameters": ["c", "id"]},
            "delete": {"sql": "DELETE FROM {table} WHERE id = ?", "parameters": ["each"]},
            "insert": {"sql": "INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?)",
                       "parameters": ["new", "c", "word", "price", "quote", "flag", "share"]},
            "ranges": {"sql": "SELECT count(*) FROM {table} WHERE ({terms}) AND k = ?", "parameters": ["id"],
                       "terms": {"sql": "k BETWEEN ? AND ?", "join": " OR ", "times": 3, "parameters": ["id", "end"]}},
            "fixed": {"sql": "SELECT c FROM {table} WHERE id IN (?)", "parameters": ["fixed"]},
            "own": {"sql": "SELECT c FROM {table} WHERE id = ?", "parameters": ["own"]},
            "read": {"sql": "HANDLER {table} READ `PRIMARY` = (?)", "parameters": ["id"], "protocol": "text"},
            "one": {"sql": "SELECT 1"},
        },
        "tests": {
            "point": {"title": "", "steps": [{"statements": ["point"]}]},
            "all": {"title": "", "transaction": true, "steps": [
                {"statements": ["point"], "times": "{points}"},
                {"statements": ["range", "update"], "times": 2},
                {"statements": ["one"], "times": 0},
                {"statements": ["list", "insert", "ranges", "fixed"]},
            ]},
            "delete": {"title": "", "steps": [{"statements": ["delete"]}]},
            "delete-own": {"title": "", "table": "client", "steps": [{"statements": ["delete"]}]},
            "delete-two": {"title": "", "transaction": {"by": "wrapped", "no": false, "default": true},
                           "steps": [{"statements": ["delete"], "times": 2}]},
            "insert": {"title": "", "steps": [{"statements": ["insert"]}]},
            "own": {"title": "", "table": "client", "steps": [{"statements": ["own"]}]},
            "read": {"title": "", "steps": [{"statements": ["read", "one"]}],
                     "client_setup": ["SET @client = {client}", "HANDLER {table} OPEN"]},
            "mixed": {"title": "", "mix": [
                {"name": "often", "weight": 3, "steps": [{"statements": ["point"]}]},
                {"name": "never", "weight": 0, "steps": [{"statements": ["one"]}]},
                {"name": "seldom", "weight": "{seldom}", "transaction": true, "steps": [{"statements": ["insert"]}]},
            ]},
        },
    })
}

pub fn defaults() -> BTreeMap<String, Value> {
    let number = |(name, value): (&str, i64)| (name.to_owned(), Value::Integer(value));
    let numbers = [("tables", 3), ("size", 100), ("range", 4), ("points", 2), ("seldom", 1)];
    let mut values: BTreeMap<String, Value> = numbers.into_iter().map(number).collect();
    values.insert("wrapped".to_owned(), Value::Text("yes".to_owned()));
    values
}

pub fn program_with(
    test: &str,
    protocol: Protocol,
    clients: u32,
    seed: u64,
    values: &[(&str, i64)],
) -> Program {
    let definition: Definition = serde_json::from_value(definition()).unwrap();
    let values = values.iter().map(|(name, value)| ((*name).to_owned(), Value::Integer(*value)));
    let values = values.collect();
    Program::compile(&definition, &defaults(), &values, test, clients, protocol, seed).unwrap()
}

pub fn program(test: &str, protocol: Protocol, clients: u32) -> Program {
    program_with(test, protocol, clients, 1, &[])
}

/// Return the next request, and what it asks for; assert that the packet is valid.
pub fn ask(program: &Program, script: &mut Script, client: u32) -> Option<(Request, Asked)> {
    let mut packet = b"before".to_vec();
    let request = script.next(&mut packet)?;
    let packet = packet.strip_prefix(b"before").unwrap();
    let length =
        usize::from(packet[0]) | usize::from(packet[1]) << 8 | usize::from(packet[2]) << 16;
    assert_eq!((length, packet[3]), (packet.len() - 4, 0));
    if packet[4] == COM_QUERY {
        let text = String::from_utf8(packet[5..].to_vec()).unwrap();
        return Some((request, Asked::Text(text)));
    }
    assert_eq!(packet[4], 23);
    assert_eq!(packet[9..14], [0, 1, 0, 0, 0]);
    let id = u32::from_le_bytes(packet[5..9].try_into().unwrap());
    let marks = program.texts_to_prepare(client)[id as usize].matches('?').count();
    let mut parameters = &packet[14..];
    let mut declares = false;
    if marks > 0 {
        let (nulls, rest) = parameters.split_at(marks.div_ceil(8));
        assert!(nulls.iter().all(|&byte| byte == 0));
        declares = rest[0] == 1;
        parameters = &rest[1..];
    }
    let parameters = parameters.to_vec();
    Some((request, Asked::Execution { id, declares, parameters }))
}

/// Return the text of an execution with its values; `types` are the types declared for each
/// statement.
pub fn as_text(asked: &Asked, texts: &[&str], types: &mut BTreeMap<u32, Vec<u8>>) -> String {
    let Asked::Execution { id, declares, parameters } = asked else {
        let Asked::Text(text) = asked else { unreachable!() };
        return text.clone();
    };
    let text = texts[*id as usize];
    let marks = text.matches('?').count();
    let mut bytes = &parameters[..];
    if *declares {
        types.insert(*id, bytes[..2 * marks].iter().step_by(2).copied().collect());
        bytes = &bytes[2 * marks..];
    }
    let mut pieces = text.split('?');
    let mut filled = pieces.next().unwrap().to_owned();
    let none = Vec::new();
    for (kind, piece) in types.get(id).unwrap_or(&none).iter().zip(pieces) {
        if *kind == 8 {
            let (value, rest) = bytes.split_at(8);
            filled += &i64::from_le_bytes(value.try_into().unwrap()).to_string();
            bytes = rest;
        } else {
            let (value, rest) = bytes[1..].split_at(usize::from(bytes[0]));
            let value = std::str::from_utf8(value).unwrap();
            match (kind, value.contains('\'')) {
                (246, _) => filled += value,
                (254, false) => filled.extend(["'", value, "'"]),
                (254, true) => {
                    let digits: Vec<String> = value.bytes().map(|b| format!("{b:02X}")).collect();
                    filled.extend(["_utf8mb4 x'", &digits.concat(), "'"]);
                }
                other => panic!("type {other:?}"),
            }
            bytes = rest;
        }
        filled += piece;
    }
    assert!(bytes.is_empty(), "{bytes:?} is left of {text}");
    filled
}

/// Return this many requests of a client, as text.
pub fn texts(program: &Program, client: u32, requests: usize) -> Vec<(Request, String)> {
    let mut script = script_of(program, client);
    let to_prepare = program.texts_to_prepare(client);
    let mut types = BTreeMap::new();
    (0..requests)
        .map_while(|_| ask(program, &mut script, client))
        .map(|(request, asked)| (request, as_text(&asked, &to_prepare, &mut types)))
        .collect()
}
