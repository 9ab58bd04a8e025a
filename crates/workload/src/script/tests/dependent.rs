//! Values that depend on others of the same repetition, lists of random length, and remembered
//! ends.

use serde_json::{Value as Json, json};

use crate::program::{Program, Protocol};
use crate::testing::{self, Client, script_of};
use datagen::goodness::assert_fits;
use protocol::script::{Answer, Observe, RowFormat, Script as _};

fn compile(generators: &Json, parameter: &str, protocol: Protocol) -> Result<Program, String> {
    let definition = json!({
        "generators": generators,
        "statements": {"s": {"sql": "?", "parameters": [parameter]}},
        "tests": {"t": {"title": "", "steps": [{"statements": ["s"]}]}},
    });
    testing::compile(definition, "t", &[], protocol)
}

/// Return the values of `value` in the first statements.
fn values(generators: &Json, count: usize) -> Vec<Vec<i64>> {
    let mut client = Client::of(&compile(generators, "value", Protocol::Text).unwrap());
    let texts = client.texts(count).into_iter();
    texts.map(|text| text.split(", ").map(|number| number.parse().unwrap()).collect()).collect()
}

fn mistake(value: &Json) -> String {
    let generators = json!({"n": {"kind": "integer", "low": 1, "high": 9}, "value": value});
    compile(&generators, "value", Protocol::Prepared).unwrap_err()
}

#[test]
fn values_are_computed_from_others() {
    let value = |generator: Json| {
        let generators = json!({
            "base": {"kind": "constant", "value": 1000},
            "n": {"kind": "constant", "value": 9},
            "value": generator,
        });
        values(&generators, 1)[0][0]
    };
    assert_eq!(value(json!({"kind": "derived", "from": "n"})), 9);
    assert_eq!(value(json!({"kind": "derived", "from": "n", "times": -10, "plus": "4*2"})), -82);
    let computed = "if(n < 3, 3, (n * 10 + 8) / n) + base";
    assert_eq!(value(json!({"kind": "computed", "value": computed})), 1010);
}

#[test]
fn integers_lie_below_another_value() {
    let below = json!({
        "n": {"kind": "integer", "low": 0, "high": 3},
        "value": {"kind": "below", "from": "n", "low": 5, "add": "n"},
    });
    let found = values(&below, 2000);
    let mut counts = [0; 6];
    for value in found {
        counts[usize::try_from(value[0] - 5).unwrap()] += 1;
    }
    // 0 and 1 only give 0, to which they are added.
    let share = [1.0, 1.0, 0.5, 0.5 + 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0];
    assert_fits(&counts, &share.map(|share| share * 500.0));
}

#[test]
fn distinct_values_of_a_list_fill_a_short_range() {
    let list = |n: i64| {
        json!({
            "n": {"kind": "constant", "value": n},
            "value": {"kind": "below", "from": "n", "count": 4, "distinct": true},
        })
    };
    assert_eq!(values(&list(3), 1), [[0, 1, 2, 3]]);
    for mut list in values(&list(6), 300) {
        list.sort_unstable();
        list.dedup();
        assert_eq!(list.len(), 4);
        assert!(list.iter().all(|value| (0..6).contains(value)));
    }
}

#[test]
fn lengths_of_lists_are_geometric() {
    let list = json!({"value": {
        "kind": "integer", "low": 1, "high": 9, "count": 2, "max_count": 6, "stop": 38.2,
    }});
    let mut counts = [0; 7];
    for list in values(&list, 20_000) {
        counts[list.len()] += 1;
    }
    let p = 0.382_f64;
    let expected =
        [0.0, 0.0, p, p * 0.618, p * 0.618_f64.powi(2), p * 0.618_f64.powi(3), 0.618_f64.powi(4)];
    assert_fits(&counts, &expected.map(|share| share * 20_000.0));
    let random =
        json!({"kind": "integer", "low": 1, "high": 9, "count": 1, "max_count": 6, "stop": 50});
    assert!(mistake(&random).starts_with("statements.s: is prepared, but a list"));
    let without = json!({"kind": "integer", "low": 1, "high": 9, "max_count": 6, "stop": 50});
    assert_eq!(
        mistake(&without),
        "generators.value: a list of random length has count, max_count and stop"
    );
}

#[test]
fn one_of_two_generators_gives_the_value() {
    let either = json!({
        "one": {"kind": "constant", "value": 1},
        "two": {"kind": "constant", "value": 2},
        "value": {"kind": "either", "from": "one", "otherwise": "two", "share": 99.5},
    });
    let ones = values(&either, 20_000).iter().filter(|value| value[0] == 1).count();
    assert!((19_850..19_950).contains(&ones), "{ones}");
    let beyond = json!({"kind": "either", "from": "n", "otherwise": "n", "share": 101});
    assert_eq!(mistake(&beyond), "generators.value.share: 101 is not from 0 to 100");
}

#[test]
fn links_are_those_of_a_node_and_a_type() {
    let links = |parent: i64| {
        json!({
            "parent": {"kind": "constant", "value": parent},
            "value": {"kind": "links", "from": "parent", "high": 1000, "types": 2, "at_most": 7, "split": "fixed"},
        })
    };
    let all: i64 = (0..2000).map(|parent| values(&links(parent), 1)[0][0]).sum();
    assert!((1000..1200).contains(&all), "{all}");
    assert_eq!(mistake(&json!({"kind": "links", "high": 5})), "generators.value.from: is missing");
    assert!(mistake(&json!({"kind": "parent"})).ends_with("is one of columns alone"));
    let unknown =
        mistake(&json!({"kind": "links", "from": "n", "high": 5, "distribution": "2012"}));
    assert!(unknown.contains("unknown distribution of links"), "{unknown}");
}

#[test]
fn payloads_are_bytes_as_digits() {
    let payload = json!({"value": {
        "kind": "motifs", "low": 50, "high": 220, "length": 20, "max_length": 30, "uniqueness": 63,
    }});
    let text = Client::of(&compile(&payload, "value", Protocol::Text).unwrap()).ask().1;
    let digits = text.strip_prefix("x'").and_then(|text| text.strip_suffix('\'')).unwrap();
    assert!(digits.len() <= 60 && digits.len().is_multiple_of(2));
    let prepared = compile(&payload, "value", Protocol::Prepared).unwrap();
    let mut packet = Vec::new();
    script_of(&prepared, 0).next(&mut packet).unwrap();
    assert_eq!(usize::from(packet[packet.len() - 1 - digits.len() / 2]), digits.len() / 2);
}

/// A program in which one transaction begins a list, and the other continues from an end, or also
/// begins a list.
fn lists() -> Program {
    let list = |parameters: [&str; 3]| {
        json!({"sql": "?, ?, ?", "parameters": parameters,
               "remember": {"rows": 3, "column": 2, "values": [parameters[0]], "at_most": 5}})
    };
    let definition = json!({
        "generators": {
            "id": {"kind": "constant", "value": 7},
            "time": {"kind": "constant", "value": 99},
            "none": {"kind": "constant", "value": 0},
            "known": {"kind": "tail", "value": "known"},
            "last_id": {"kind": "tail", "column": 1, "otherwise": "id"},
            "last_time": {"kind": "tail", "value": "end", "otherwise": "time"},
        },
        "statements": {
            "list": list(["id", "time", "none"]),
            "more": list(["last_id", "last_time", "known"]),
        },
        "tests": {"t": {"title": "", "mix": [
            {"name": "list", "weight": 1, "steps": [{"statements": ["list"]}]},
            {"name": "more", "weight": 1, "timed": false, "steps": [{"statements": ["more"]}]},
        ]}},
    });
    testing::compile(definition, "t", &[], Protocol::Text).unwrap()
}

#[test]
fn a_client_goes_on_from_the_end_of_a_long_answer() {
    let mut client = Client::of(&lists());
    let observe = Observe::LastRow { format: RowFormat::Text, of_rows: 3 };
    let mut ends = vec![];
    for time in (0..90).rev() {
        let (request, text) = client.ask();
        assert_eq!((request.observe, request.untimed), (observe, request.transaction == 1));
        let expected = match ends.last() {
            Some(end) if request.transaction == 1 => format!("7, {end}, 1"),
            _ => "7, 99, 0".to_owned(),
        };
        assert_eq!(text, expected);
        let is_long = time % 4 > 0;
        let row = is_long.then(|| vec![Some("1".to_owned()), Some(time.to_string())]);
        assert_eq!(client.script.answered(&Answer { rows: 3, row, ..Answer::default() }), Ok(true));
        match (is_long, request.transaction == 1) {
            (true, true) => ends = vec![time],
            (true, false) if ends.is_empty() => ends = vec![time],
            (false, true) => ends.clear(),
            _ => {}
        }
    }
}

#[test]
fn distinct_values_at_the_end_of_64_bits_have_an_end() {
    for below in [3, 7] {
        let ids = json!({
            "base": {"kind": "constant", "value": i64::MAX - 1},
            "n": {"kind": "constant", "value": below},
            "value": {"kind": "below", "from": "n", "add": "base", "distinct": true, "count": 5},
        });
        let found = std::collections::BTreeSet::from_iter(values(&ids, 1).remove(0));
        assert_eq!(found.len(), 5);
    }
}

#[test]
fn an_end_that_is_not_a_number_is_shown_in_part() {
    let mut client = Client::of(&lists());
    client.ask();
    let message = client.answer(&[&[None, Some(&"x".repeat(60_000))]]).unwrap_err();
    let is_short = message.len() < 200;
    assert!(message.contains("not a whole number of 64 bits") && is_short, "{message}");
}
