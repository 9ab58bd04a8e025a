//! Statements that depend on the answers to earlier ones.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::script_of;
use crate::definition::Definition;
use crate::program::{Program, Protocol};
use protocol::script::{Answer, Observe, Request, RowFormat, Script as _};

/// A test that finds a row, and updates or inserts it, then counts an insert.
fn definition() -> Json {
    json!({
        "generators": {
            "id": {"kind": "integer", "low": 7, "high": 7},
            "version": {"kind": "answer", "from": "find", "column": 2, "default": -1},
            "next_version": {"kind": "derived", "from": "version", "plus": 1},
            "found": {"kind": "answer", "from": "find", "value": "rows"},
            "inserted": {"kind": "answer", "from": "insert", "value": "affected_rows"},
            "new_id": {"kind": "answer", "from": "insert", "value": "last_insert_id"},
        },
        "statements": {
            "find": {"sql": "SELECT id, version FROM t WHERE id = ?", "parameters": ["id"]},
            "update": {"sql": "UPDATE t SET version = ?", "parameters": ["next_version"]},
            "insert": {"sql": "INSERT INTO t (id) VALUES (?)", "parameters": ["id"]},
            "count": {"sql": "UPDATE counts SET n = n + ? WHERE id = ?", "parameters": ["inserted", "new_id"]},
        },
        "tests": {
            "upsert": {"title": "", "steps": [
                {"statements": ["find"]},
                {"statements": ["update"], "only_if": "found"},
                {"statements": ["insert"], "unless": "found"},
                {"statements": ["count"], "only_if": "inserted"},
            ]},
        },
    })
}

fn compile(definition: Json, protocol: Protocol) -> Result<Program, String> {
    let definition: Definition =
        serde_json::from_value(definition).map_err(|mistake| mistake.to_string())?;
    let none = BTreeMap::new();
    Program::compile(&definition, &none, &none, "upsert", 1, protocol, 1)
        .map_err(|mistake| mistake.to_string())
}

fn row(version: Option<&str>) -> Answer {
    Answer {
        rows: 1,
        row: Some(vec![Some("7".to_owned()), version.map(str::to_owned)]),
        ..Answer::default()
    }
}

fn inserted(last_insert_id: u64) -> Answer {
    Answer { affected_rows: 1, last_insert_id, ..Answer::default() }
}

/// A client whose requests are texts.
struct Client {
    script: crate::script::Script,
}

impl Client {
    fn new() -> Self {
        let program = compile(definition(), Protocol::Text).unwrap();
        Self { script: script_of(&program, 0) }
    }

    /// The next request, and its text.
    fn ask(&mut self) -> (Request, String) {
        let mut packet = Vec::new();
        let request = self.script.next(&mut packet).unwrap();
        (request, String::from_utf8(packet[5..].to_vec()).unwrap())
    }
}

#[test]
fn steps_and_values_follow_the_answers() {
    let mut client = Client::new();
    let (request, text) = client.ask();
    assert_eq!(text, "SELECT id, version FROM t WHERE id = 7");
    assert_eq!(request.observe, Observe::FirstRow(RowFormat::Text));
    assert!(request.first && !request.last);
    assert_eq!(client.script.answered(&row(Some("41"))), Ok(false));
    let (request, text) = client.ask();
    assert_eq!(text, "UPDATE t SET version = 42");
    assert!(request.last); // what follows depends on answers that have come
    assert_eq!(request.observe, Observe::Nothing);

    assert!(client.ask().0.first);
    assert_eq!(client.script.answered(&Answer::default()), Ok(false));
    let (request, text) = client.ask();
    assert_eq!(text, "INSERT INTO t (id) VALUES (7)");
    assert_eq!(request.observe, Observe::Counts);
    assert_eq!(client.script.answered(&inserted(9)), Ok(false));
    let (request, text) = client.ask();
    assert_eq!(text, "UPDATE counts SET n = n + 1 WHERE id = 9");
    assert!(request.last);
}

#[test]
fn an_answer_can_end_a_transaction() {
    let mut client = Client::new();
    client.ask();
    assert_eq!(client.script.answered(&Answer::default()), Ok(false));
    client.ask();
    assert_eq!(client.script.answered(&Answer::default()), Ok(true)); // nothing was inserted
    assert!(client.ask().0.first);
}

#[test]
fn a_null_is_the_default_and_no_answer_outlives_its_transaction() {
    let mut client = Client::new();
    client.ask();
    client.script.answered(&row(None)).unwrap();
    assert_eq!(client.ask().1, "UPDATE t SET version = 0");

    client.ask();
    client.script.answered(&row(Some("3"))).unwrap();
    client.script.again();
    client.ask();
    client.script.answered(&row(None)).unwrap();
    assert_eq!(client.ask().1, "UPDATE t SET version = 0");
}

#[test]
fn without_answers_scripts_go_by_the_defaults() {
    let mut client = Client::new();
    let texts: Vec<String> = (0..3).map(|_| client.ask().1).collect();
    assert!(texts[1].starts_with("INSERT") && texts[2].starts_with("SELECT"), "{texts:?}");
}

#[test]
fn prepared_statements_are_observed_in_their_format() {
    let program = compile(definition(), Protocol::Prepared).unwrap();
    let mut script = script_of(&program, 0);
    let request = script.next(&mut Vec::new()).unwrap();
    assert_eq!(request.observe, Observe::FirstRow(RowFormat::Binary));
}

#[test]
fn answers_that_do_not_fit_say_what_is_missing() {
    let mut client = Client::new();
    client.ask();
    let narrow = Answer { row: Some(vec![None]), ..row(None) };
    let said = client.script.answered(&narrow).unwrap_err();
    assert_eq!(said, "statement find gave 1 columns, and not 2");
    let said = client.script.answered(&row(Some("4.5"))).unwrap_err();
    assert!(said.contains(r#"gave "4.5""#), "{said}");
}

#[test]
fn mistakes_name_their_key() {
    let mistake = |pointer: &str, value: Json| {
        let mut wrong = definition();
        *wrong.pointer_mut(pointer).unwrap() = value;
        compile(wrong, Protocol::Text).unwrap_err()
    };
    let steps = "/tests/upsert/steps";
    let first = json!([{"statements": ["update"]}, {"statements": ["find"]}]);
    assert_eq!(
        mistake(steps, first),
        r#"generators.version.from: no earlier step of tests.upsert asks "find""#
    );
    let generated = json!([{"statements": ["find"]}, {"statements": ["insert"], "only_if": "id"}]);
    assert_eq!(
        mistake(steps, generated),
        "tests.upsert.steps[1].only_if: \"id\" is made anew for each repetition of a step; expected one \
         made from an answer, or with per = \"transaction\""
    );
    let both = json!([{"statements": ["find"]},
                      {"statements": ["insert"], "only_if": "found", "unless": "found"}]);
    assert_eq!(mistake(steps, both), "tests.upsert.steps[1]: has both only_if and unless");
    assert!(
        mistake("/generators/found/value", json!("row"))
            .starts_with("value: unknown variant `row`, expected one of `rows`")
    );
    assert!(
        mistake("/generators/version/column", json!(0)).starts_with("generators.version.column")
    );
}

#[test]
fn a_step_may_keep_the_values_of_the_one_before() {
    let mut definition = definition();
    definition["generators"]["id"]["high"] = json!(1_000_000);
    definition["statements"]["touch"] =
        json!({"sql": "UPDATE t SET n = ? WHERE id = ?", "parameters": ["other", "id"]});
    definition["generators"]["other"] = json!({"kind": "integer", "low": 1, "high": 1_000_000});
    definition["tests"]["upsert"]["steps"] = json!([
        {"statements": ["find"]},
        {"statements": ["touch"], "only_if": "found", "same_values": true},
        {"statements": ["touch"], "same_values": true},
        {"statements": ["touch"]},
    ]);
    let program = compile(definition.clone(), Protocol::Text).unwrap();
    let mut client = Client { script: script_of(&program, 0) };
    let (_, find) = client.ask();
    client.script.answered(&row(None)).unwrap();
    let texts: Vec<String> = (0..3).map(|_| client.ask().1).collect();
    let id = find.rsplit(' ').next().unwrap();
    assert!(texts[0].ends_with(&format!("WHERE id = {id}")), "{texts:?}");
    assert_eq!(texts[0], texts[1]);
    assert_ne!(texts[1], texts[2]);
    definition["tests"]["upsert"]["steps"] = json!([{"statements": ["find"], "same_values": true}]);
    assert_eq!(
        compile(definition, Protocol::Text).unwrap_err(),
        "tests.upsert.steps[0].same_values: has the values of the step before it, and there is none"
    );
}
