//! Loops, values that last, and what is computed from them and from answers.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::script_of;
use crate::definition::Definition;
use crate::program::{Program, Protocol};
use protocol::script::{Answer, Observe, Request, RowFormat, Script as _};

/// An order of some lines, each of which may be out of stock; then a look at all of them.
fn definition() -> Json {
    json!({
        "generators": {
            "customer": {"kind": "integer", "low": 1, "high": 1000, "per": "transaction"},
            "lines": {"kind": "integer", "low": 2, "high": 5, "per": "transaction"},
            "line": {"kind": "iteration"},
            "item": {"kind": "integer", "low": 1, "high": 1_000_000, "per": "iteration"},
            "any": {"kind": "integer", "low": 1, "high": 1_000_000},
            "in_stock": {"kind": "answer", "from": "find", "value": "rows"},
            "price": {"kind": "answer", "from": "find", "column": 1, "scale": 2},
            "name": {"kind": "answer", "from": "find", "column": 2, "as": "text", "default": 7},
            "total": {"kind": "computed", "value": "price * if(line > 1, {factor} + 1, 1)", "scale": 2},
            "word": {"kind": "words", "from": "line", "words": ["no", "one", "two"], "digits": 2},
            "found": {"kind": "answer", "from": "list", "value": "rows"},
            "listed": {"kind": "answer", "from": "list", "column": 1, "row": "line"},
        },
        "statements": {
            "begin_order": {"sql": "INSERT INTO o VALUES (?, ?)", "parameters": ["customer", "any"]},
            "find": {"sql": "SELECT price, name FROM i WHERE id = ?", "parameters": ["item"]},
            "sell": {"sql": "INSERT INTO l VALUES (?, ?, ?, ?, ?, ?)",
                     "parameters": ["customer", "line", "item", "total", "name", "word"]},
            "list": {"sql": "SELECT id FROM l"},
            "look": {"sql": "SELECT ?", "parameters": ["listed"]},
        },
        "tests": {
            "order": {"title": "", "transaction": true, "steps": [
                {"statements": ["begin_order"]},
                {"times": "lines", "steps": [
                    {"statements": ["find"]},
                    {"rollback": true, "unless": "in_stock"},
                    {"statements": ["sell"]},
                ]},
                {"statements": ["list"]},
                {"times": "found", "steps": [{"statements": ["look"]}]},
            ]},
        },
    })
}

fn compile(definition: Json, protocol: Protocol) -> Result<Program, String> {
    let definition: Definition =
        serde_json::from_value(definition).map_err(|mistake| mistake.to_string())?;
    let values = BTreeMap::from([("factor".to_owned(), crate::definition::Value::Integer(2))]);
    Program::compile(&definition, &values, &BTreeMap::new(), "order", 1, protocol, 1)
        .map_err(|mistake| mistake.to_string())
}

#[test]
fn an_iteration_outside_of_loops_is_the_first_whatever_the_transaction_before_did() {
    let mut mixed = definition();
    mixed["statements"]["ping"] = json!({"sql": "SELECT ?", "parameters": ["line"]});
    mixed["tests"]["order"] = json!({"title": "", "mix": [
        {"name": "long", "weight": 1, "steps": [{"times": 3, "steps": [{"statements": ["ping"]}]}]},
        {"name": "short", "weight": 1, "steps": [{"statements": ["ping"]}]},
    ]});
    let mut script = script_of(&compile(mixed, Protocol::Text).unwrap(), 0);
    let mut asked = [0, 0];
    let mut expected = 1;
    for _ in 0..200 {
        let mut packet = Vec::new();
        let request = script.next(&mut packet).unwrap();
        let text = String::from_utf8(packet[5..].to_vec()).unwrap();
        assert_eq!(text, format!("SELECT {expected}"));
        asked[usize::from(request.transaction)] += 1;
        expected = if request.last { 1 } else { expected + 1 };
    }
    assert!(asked.iter().all(|&count| count > 20), "{asked:?}");
}

struct Client {
    script: crate::script::Script,
}

impl Client {
    fn new() -> Self {
        Self { script: script_of(&compile(definition(), Protocol::Text).unwrap(), 0) }
    }

    fn ask(&mut self) -> (Request, String) {
        let mut packet = Vec::new();
        let request = self.script.next(&mut packet).unwrap();
        (request, String::from_utf8(packet[5..].to_vec()).unwrap())
    }

    /// Answer the last request with rows of these values.
    fn answer(&mut self, rows: &[&[Option<&str>]]) {
        let mut values = rows.iter().map(|row| row.iter().map(|v| v.map(str::to_owned)).collect());
        let answer = Answer {
            rows: rows.len() as u64,
            row: values.next(),
            more_rows: values.collect(),
            ..Answer::default()
        };
        assert_eq!(self.script.answered(&answer), Ok(false));
    }
}

/// The numbers of an INSERT.
fn values(text: &str) -> Vec<&str> {
    text.split_once('(').unwrap().1.trim_end_matches(')').split(", ").collect()
}

#[test]
fn a_loop_has_its_iterations_and_values_last() {
    let mut client = Client::new();
    for _ in 0..20 {
        assert_eq!(client.ask().1, "BEGIN");
        let order = client.ask().1;
        let mut items = Vec::new();
        loop {
            let (request, text) = client.ask();
            if text == "SELECT id FROM l" {
                assert_eq!(request.observe, Observe::Rows(RowFormat::Text));
                break;
            }
            let item = text.rsplit_once(' ').unwrap().1.to_owned();
            client.answer(&[&[Some("1.50"), Some("it's")]]);
            let sold = client.ask().1;
            let total = if items.is_empty() { "1.50" } else { "4.50" };
            let line = items.len() + 1;
            let word = ["", "noone", "notwo", "oneno", "oneone", "onetwo"][line];
            let expected = [values(&order)[0], &line.to_string(), &item, total];
            assert_eq!(values(&sold)[..4], expected);
            assert_eq!(values(&sold)[4..], ["_utf8mb4 x'69742773'", &format!("'{word}'")]);
            items.push(item);
        }
        assert!((2..=5).contains(&items.len()));
        let looked: Vec<Vec<Option<&str>>> = items.iter().map(|item| vec![Some(&**item)]).collect();
        let rows: Vec<&[Option<&str>]> = looked.iter().map(Vec::as_slice).collect();
        client.answer(&rows);
        for item in &items {
            assert_eq!(client.ask().1, format!("SELECT {item}"));
        }
        let (request, text) = client.ask();
        assert_eq!((request.last, text.as_str()), (true, "COMMIT"));
        items.sort_unstable();
        items.dedup();
        assert!(items.len() > 1, "each iteration makes new values");
    }
}

#[test]
fn a_rollback_ends_a_transaction_and_what_is_begun_again_is_the_same() {
    let mut client = Client::new();
    let first: Vec<String> = (0..3).map(|_| client.ask().1).collect();
    client.answer(&[]);
    let (request, text) = client.ask();
    assert_eq!((request.last, text.as_str()), (true, "ROLLBACK"));
    client.script.again();
    assert_eq!((0..3).map(|_| client.ask().1).collect::<Vec<_>>(), first);
    client.answer(&[&[None, None]]); // the defaults stand for NULL
    let sold = client.ask().1;
    assert_eq!(values(&sold)[3..5], ["0.00", "'7'"]);
    client.script.abandon();
    client.ask();
    assert_ne!(client.ask().1, first[1]);
}

#[test]
fn a_loop_over_no_rows_is_left_out() {
    let mut client = Client::new();
    while client.ask().1 != "SELECT id FROM l" {
        if client.script.next == crate::script::NextRequest::Answer {
            client.answer(&[&[Some("1"), None]]);
        }
    }
    client.answer(&[]);
    assert_eq!(client.ask().1, "COMMIT");
}

#[test]
fn mistakes_name_their_key() {
    let mistake = |pointer: &str, value: Json| {
        let mut wrong = definition();
        *wrong.pointer_mut(pointer).unwrap() = value;
        compile(wrong, Protocol::Text).unwrap_err()
    };
    let loop_key = "/tests/order/steps/1";
    let cases = [
        (
            "/tests/order/steps/1/times",
            json!("any"),
            r#"tests.order.steps[1].times: "any" is made anew"#,
        ),
        (
            "/tests/order/steps/1/times",
            json!("name"),
            r#"tests.order.steps[1].times: "name" is not a single"#,
        ),
        (
            loop_key,
            json!({"steps": [{"steps": [{"statements": ["list"]}]}]}),
            "tests.order.steps[1].steps[0].steps: is a loop in a loop",
        ),
        (
            loop_key,
            json!({"steps": [{"statements": ["list"]}], "rollback": true}),
            "tests.order.steps[1]: has either statements, steps or a rollback",
        ),
        (loop_key, json!({}), "tests.order.steps[1]: has either statements, steps or a rollback"),
        (
            "/tests/order/transaction",
            json!(false),
            "tests.order.steps: has a rollback, but no transaction",
        ),
        (
            "/tests/order/steps/0",
            json!({"statements": ["sell"]}),
            r#"generators.price.from: no earlier step of tests.order asks "find""#,
        ),
        (
            "/generators/total/value",
            json!("price +"),
            r#"generators.total.value: "price +": it ends too early"#,
        ),
        (
            "/generators/total/value",
            json!("prize"),
            r#"generators.total.value: there is no generator "prize""#,
        ),
        (
            "/generators/total/value",
            json!("total"),
            r#"generators.total.value: "total" is made from itself"#,
        ),
        (
            "/generators/total/value",
            json!("name"),
            r#"generators.total.value: "name" is not a single whole"#,
        ),
        ("/generators/price/column", json!(null), "generators.price: expected either value"),
        (
            "/generators/found",
            json!({"kind": "answer", "from": "list", "value": "rows", "scale": 1}),
            "generators.found.scale: is of a column",
        ),
        ("/generators/name/as", json!("words"), "as: unknown variant `words`, expected `text`"),
        ("/generators/word/words", json!([]), "generators.word.words: there are none"),
        (
            "/generators/line",
            json!({"kind": "iteration", "per": "iteration"}),
            "per: unknown field `per`, there are no fields",
        ),
        ("/generators/any", json!({"kind": "sequence"}), ""),
        (
            "/generators/item",
            json!({"kind": "sequence"}),
            r#"tests.order.steps: "item" is a running number, which has no place in a loop"#,
        ),
    ];
    for (pointer, value, expected) in cases {
        if expected.is_empty() {
            let mut right = definition();
            *right.pointer_mut(pointer).unwrap() = value;
            compile(right, Protocol::Prepared).unwrap();
            continue;
        }
        let found = mistake(pointer, value);
        assert!(found.starts_with(expected), "{found:?} should start with {expected:?}");
    }
    let first = json!([{"statements": ["list"], "only_if": "customer"}]);
    let mut wrong = definition();
    wrong["tests"]["order"]["steps"] = first;
    wrong["tests"]["order"]["transaction"] = json!(false);
    let found = compile(wrong, Protocol::Text).unwrap_err();
    assert!(found.starts_with("tests.order.steps[0]: may be left out"), "{found}");
}
