//! Loops, values with a lifetime, and values computed from them and from answers.

use serde_json::{Value as Json, json};

use crate::program::{Program, Protocol};
use crate::testing::{self, Client};
use protocol::script::{Observe, RowFormat, Script as _};

/// A test that orders some lines, each of which may be out of stock, and then reads all of them.
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
    testing::compile(definition, "order", &[("factor", 2)], protocol)
}

fn client() -> Client {
    Client::of(&compile(definition(), Protocol::Text).unwrap())
}

#[test]
fn an_iteration_outside_of_loops_is_the_first_whatever_the_transaction_before_did() {
    let mut mixed = definition();
    mixed["statements"]["ping"] = json!({"sql": "SELECT ?", "parameters": ["line"]});
    mixed["tests"]["order"] = json!({"title": "", "mix": [
        {"name": "long", "weight": 1, "steps": [{"times": 3, "steps": [{"statements": ["ping"]}]}]},
        {"name": "short", "weight": 1, "steps": [{"statements": ["ping"]}]},
    ]});
    let mut client = Client::of(&compile(mixed, Protocol::Text).unwrap());
    let mut asked = [0, 0];
    let mut expected = 1;
    for _ in 0..200 {
        let (request, text) = client.ask();
        assert_eq!(text, format!("SELECT {expected}"));
        asked[usize::from(request.transaction)] += 1;
        expected = if request.last { 1 } else { expected + 1 };
    }
    assert!(asked.iter().all(|&count| count > 20), "{asked:?}");
}

/// Return the numbers of an INSERT.
fn values(text: &str) -> Vec<&str> {
    text.split_once('(').unwrap().1.trim_end_matches(')').split(", ").collect()
}

#[test]
fn a_loop_has_its_iterations_and_values_last() {
    let mut client = client();
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
            client.answer(&[&[Some("1.50"), Some("it's")]]).unwrap();
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
        client.answer(&rows).unwrap();
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
    let mut client = client();
    let first = client.texts(3);
    client.answer(&[]).unwrap();
    let (request, text) = client.ask();
    assert_eq!((request.last, text.as_str()), (true, "ROLLBACK"));
    client.script.again();
    assert_eq!(client.texts(3), first);
    client.answer(&[&[None, None]]).unwrap(); // NULL is replaced by the defaults
    let sold = client.ask().1;
    assert_eq!(values(&sold)[3..5], ["0.00", "'7'"]);
    client.script.abandon();
    client.ask();
    assert_ne!(client.ask().1, first[1]);
}

#[test]
fn a_loop_over_no_rows_is_left_out() {
    let mut client = client();
    while client.ask().1 != "SELECT id FROM l" {
        if client.script.next == crate::script::NextRequest::Answer {
            client.answer(&[&[Some("1"), None]]).unwrap();
        }
    }
    client.answer(&[]).unwrap();
    assert_eq!(client.ask().1, "COMMIT");
}

#[test]
fn mistakes_name_their_key() {
    let cases = r#"
/tests/order/steps/1/times = "any"
    tests.order.steps[1].times: "any" is made anew
/tests/order/steps/1/times = "name"
    tests.order.steps[1].times: "name" is not a single
/tests/order/steps/1 = {"steps": [{"steps": [{"statements": ["list"]}]}]}
    tests.order.steps[1].steps[0].steps: is a loop in a loop
/tests/order/steps/1 = {"steps": [{"statements": ["list"]}], "rollback": true}
    tests.order.steps[1]: has either statements, steps or a rollback
/tests/order/steps/1 = {}
    tests.order.steps[1]: has either statements, steps or a rollback
/tests/order/transaction = false
    tests.order.steps: has a rollback, but no transaction
/tests/order/steps/0 = {"statements": ["sell"]}
    generators.price.from: no earlier step of tests.order asks "find"
/generators/total/value = "price +"
    generators.total.value: "price +": it ends too early
/generators/total/value = "prize"
    generators.total.value: unknown generator "prize"
/generators/total/value = "total"
    generators.total.value: "total" is made from itself
/generators/total/value = "name"
    generators.total.value: "name" is not a single whole
/generators/price/column = null
    generators.price: expected either value
/generators/found = {"kind": "answer", "from": "list", "value": "rows", "scale": 1}
    generators.found.scale: is of a column
/generators/name/as = "words"
    as: unknown variant `words`, expected `text`
/generators/word/words = []
    generators.word.words: there are none
/generators/line = {"kind": "iteration", "per": "iteration"}
    per: unknown field `per`
/generators/item = {"kind": "sequence"}
    tests.order.steps: "item" is a running number, which has no place in a loop
/tests/order/steps = [{"statements": ["list"], "only_if": "customer"}]
/tests/order/transaction = false
    tests.order.steps[0]: may be left out
"#;
    let find = |wrong| compile(wrong, Protocol::Text).unwrap_err();
    testing::assert_mistakes(&definition(), cases, find);
    let mut right = definition();
    right["generators"]["any"] = json!({"kind": "sequence"});
    compile(right, Protocol::Prepared).unwrap();
}
