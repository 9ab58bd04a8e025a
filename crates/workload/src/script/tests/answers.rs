//! Statements that depend on the answers to earlier statements.

use serde_json::{Value as Json, json};

use crate::program::{Program, Protocol};
use crate::testing::{self, Client, script_of};
use protocol::script::{Answer, Observe, RowFormat, Script as _};

/// A test that reads a row, updates or inserts it, and then counts the insert.
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
    testing::compile(definition, "upsert", &[], protocol)
}

fn client() -> Client {
    Client::of(&compile(definition(), Protocol::Text).unwrap())
}

/// Answer the last request with a row that has this version.
fn give(client: &mut Client, version: Option<&str>) -> Result<bool, String> {
    client.answer(&[&[Some("7"), version]])
}

#[test]
fn steps_and_values_follow_the_answers() {
    let mut client = client();
    let (request, text) = client.ask();
    assert_eq!(text, "SELECT id, version FROM t WHERE id = 7");
    assert_eq!(request.observe, Observe::FirstRow(RowFormat::Text));
    assert!(request.first && !request.last);
    assert_eq!(give(&mut client, Some("41")), Ok(false));
    let (request, text) = client.ask();
    assert_eq!(text, "UPDATE t SET version = 42");
    assert!(request.last); // what follows depends on the answer
    assert_eq!(request.observe, Observe::Nothing);

    assert!(client.ask().0.first);
    assert_eq!(client.answer(&[]), Ok(false));
    let (request, text) = client.ask();
    assert_eq!(text, "INSERT INTO t (id) VALUES (7)");
    assert_eq!(request.observe, Observe::Counts);
    let inserted = Answer { affected_rows: 1, last_insert_id: 9, ..Answer::default() };
    assert_eq!(client.script.answered(&inserted), Ok(false));
    let (request, text) = client.ask();
    assert_eq!(text, "UPDATE counts SET n = n + 1 WHERE id = 9");
    assert!(request.last);
}

#[test]
fn an_answer_can_end_a_transaction() {
    let mut client = client();
    client.ask();
    assert_eq!(client.answer(&[]), Ok(false));
    client.ask();
    assert_eq!(client.answer(&[]), Ok(true)); // nothing was inserted
    assert!(client.ask().0.first);
}

#[test]
fn a_null_is_the_default_and_no_answer_outlives_its_transaction() {
    let mut client = client();
    client.ask();
    give(&mut client, None).unwrap();
    assert_eq!(client.ask().1, "UPDATE t SET version = 0");

    client.ask();
    give(&mut client, Some("3")).unwrap();
    client.script.again();
    client.ask();
    give(&mut client, None).unwrap();
    assert_eq!(client.ask().1, "UPDATE t SET version = 0");
}

#[test]
fn without_answers_scripts_go_by_the_defaults() {
    let mut client = client();
    let texts = client.texts(3);
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
fn answers_without_the_value_are_refused() {
    let mut client = client();
    client.ask();
    let message = client.answer(&[&[None]]).unwrap_err();
    assert_eq!(message, "statement find gave 1 columns, and not 2");
    let message = give(&mut client, Some("4.5")).unwrap_err();
    assert!(message.contains(r#"gave "4.5""#), "{message}");
}

#[test]
fn mistakes_name_their_key() {
    let cases = r#"
/tests/upsert/steps = [{"statements": ["update"]}, {"statements": ["find"]}]
    generators.version.from: no earlier step of tests.upsert asks "find"
/tests/upsert/steps = [{"statements": ["find"]}, {"statements": ["insert"], "only_if": "id"}]
    tests.upsert.steps[1].only_if: "id" is made anew for each repetition of a step; expected one made from an answer, or with per = "transaction"
/tests/upsert/steps = [{"statements": ["find"]}, {"statements": ["insert"], "only_if": "found", "unless": "found"}]
    tests.upsert.steps[1]: has both only_if and unless
/generators/found/value = "row"
    value: unknown variant `row`, expected one of `rows`
/generators/version/column = 0
    generators.version.column
/tests/upsert/steps = [{"statements": ["find"], "same_values": true}]
    tests.upsert.steps[0].same_values: has the values of the step before it, and there is none
"#;
    let find = |wrong| compile(wrong, Protocol::Text).unwrap_err();
    testing::assert_mistakes(&definition(), cases, find);
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
    let mut client = Client::of(&compile(definition, Protocol::Text).unwrap());
    let (_, find) = client.ask();
    give(&mut client, None).unwrap();
    let texts = client.texts(3);
    let id = find.rsplit(' ').next().unwrap();
    assert!(texts[0].ends_with(&format!("WHERE id = {id}")), "{texts:?}");
    assert_eq!(texts[0], texts[1]);
    assert_ne!(texts[1], texts[2]);
}
