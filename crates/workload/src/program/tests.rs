use serde_json::{Value as Json, json};

use super::*;

fn good() -> Json {
    json!({
        "tables": {"t": {
            "name": "t{n}", "count": "{tables}", "rows": 1, "create": "CREATE TABLE {table} (id INT)",
            "columns": [{"name": "id", "kind": "sequence"}],
        }},
        "generators": {
            "id": {"kind": "integer", "low": 1, "high": "{size}"},
            "end": {"kind": "derived", "from": "id", "plus": 1},
            "c": {"kind": "digits", "groups": 3, "length": 5},
            "ids": {"kind": "series", "count": 2},
            "each": {"kind": "permutation", "low": 1, "high": 9},
            "other": {"kind": "permutation", "low": 1, "high": 9},
        },
        "statements": {
            "food": {"sql": "SELECT c FROM {table} WHERE id = ?", "parameters": ["id"]},
            "terms": {"sql": "SELECT {terms}", "terms": {"sql": "?", "join": "+", "times": 2, "parameters": ["end"]}},
        },
        "tests": {
            "x": {"title": "", "steps": [{"statements": ["food", "food"], "times": 2}]},
            "y": {"title": "", "mix": [{"name": "a", "weight": 1, "steps": [{"statements": ["terms"]}]}]},
        },
    })
}

fn compiled(definition: Json, test: &str) -> Result<Program, String> {
    let definition: Definition =
        serde_json::from_value(definition).map_err(|mistake| mistake.to_string())?;
    let integer = |(name, value): (&str, i64)| (name.to_owned(), Value::Integer(value));
    let defaults = [("tables", 2), ("size", 100)].map(integer).into();
    let values = BTreeMap::new();
    Program::compile(&definition, &defaults, &values, test, 1, Protocol::Prepared, 1)
        .map_err(|mistake| mistake.to_string())
}

#[test]
fn the_good_ones_compile() {
    for test in ["x", "y"] {
        compiled(good(), test).unwrap();
    }
}

/// A test's name, what is changed, and how the mistake begins.
type Case = (&'static str, fn(&mut Json), &'static str);

fn assert_mistakes(cases: &[Case]) {
    for (test, change, expected) in cases {
        let mut definition = good();
        change(&mut definition);
        let message = compiled(definition, test).unwrap_err();
        assert!(message.starts_with(expected), "{message:?} should start with {expected:?}");
    }
}

#[test]
fn every_mistake_in_tests_names_its_key() {
    assert_mistakes(&[
        ("z", |_| (), r#"tests: there is no test "z"; there are x, y"#),
        (
            "x",
            |d| d["tests"]["x"]["steps"][0]["statements"][1] = json!("foo"),
            r#"tests.x.steps[0].statements[1]: there is no statement "foo"; did you mean "food"?"#,
        ),
        ("x", |d| d["tests"]["x"]["steps"] = json!([]), "tests.x: has either steps or a mix"),
        (
            "x",
            |d| d["tests"]["x"]["steps"][0]["times"] = json!(0),
            "tests.x.steps: has nothing to do at these values",
        ),
        (
            "x",
            |d| d["tests"]["x"]["steps"][0]["times"] = json!("1-{tables}"),
            "tests.x.steps[0].times: -1 (1-{tables}) is not 0 to 1000000",
        ),
        (
            "x",
            |d| d["tests"]["x"]["steps"][0]["statements"] = json!([]),
            "tests.x.steps[0]: has either statements, steps or a rollback",
        ),
        (
            "x",
            |d| d["tests"]["x"]["table"] = json!("clients"),
            r#"tests.x.table: there is no choice of tables "clients"; did you mean "client"?"#,
        ),
        (
            "x",
            |d| d["tests"]["x"]["tables"] = json!("s"),
            r#"tests.x.tables: there is no table set "s"; there are t"#,
        ),
        (
            "x",
            |d| d["tables"]["u"] = d["tables"]["t"].clone(),
            "tests.x.tables: is missing; there are t, u",
        ),
        (
            "x",
            |d| d["tables"]["t"]["count"] = json!("{tables}-2"),
            "tables.t.count: 0 ({tables}-2) is not 1 to 1000000",
        ),
        (
            "x",
            |d| d["tests"]["x"]["client_setup"] = json!(["SET @a = {b}"]),
            r#"tests.x.client_setup[0]: there is no value "b""#,
        ),
        (
            "x",
            |d| d["tests"]["x"]["transaction"] = json!({"by": "skip", "on": false}),
            r#"tests.x.transaction.by: there is no value "skip""#,
        ),
        (
            "y",
            |d| d["tests"]["y"]["mix"][0]["weight"] = json!(0),
            "tests.y.mix: has no weight above 0",
        ),
        (
            "y",
            |d| {
                d["tests"]["y"]["mix"] =
                    json!([d["tests"]["y"]["mix"][0], d["tests"]["y"]["mix"][0]]);
            },
            "tests.y.mix[1].name: is there twice",
        ),
    ]);
}

#[test]
fn every_mistake_in_statements_names_its_key() {
    assert_mistakes(&[
        (
            "x",
            |d| d["statements"]["food"]["parameters"][0] = json!("idd"),
            r#"statements.food.parameters[0]: there is no generator "idd"; did you mean "id"?"#,
        ),
        (
            "x",
            |d| d["statements"]["food"]["parameters"] = json!([]),
            "statements.food.parameters: names 0 generators, but sql has 1 question marks",
        ),
        (
            "x",
            |d| d["statements"]["food"]["sql"] = json!("SELECT {client}, ?"),
            r#"statements.food.sql: there is no value "client"; did you mean "clients"?"#,
        ),
        (
            "x",
            |d| d["statements"]["food"]["protocol"] = json!("binary"),
            r#"statements.food.protocol: "binary" is not known, expected "text""#,
        ),
        (
            "x",
            |d| d["statements"]["food"]["sql"] = json!("SELECT {terms}, ?"),
            "statements.food.sql: has {terms}, but there are none",
        ),
        (
            "y",
            |d| d["statements"]["terms"]["sql"] = json!("SELECT 1"),
            "statements.terms.sql: has no {terms}",
        ),
        (
            "y",
            |d| d["statements"]["terms"]["terms"]["parameters"][0] = json!("each"),
            r#"statements.terms.terms.parameters[0]: "each" is a permutation"#,
        ),
        (
            "y",
            |d| d["statements"]["terms"]["terms"]["times"] = json!(0),
            "statements.terms.terms.times: 0 is not 1 to 65535",
        ),
    ]);
}

#[test]
fn every_mistake_in_draws_names_its_key() {
    assert_mistakes(&[
        (
            "x",
            |d| d["generators"]["id"] = json!({"kind": "derived", "from": "end"}),
            r#"generators.end.from: "end" is made from itself"#,
        ),
        (
            "y",
            |d| d["generators"]["end"]["from"] = json!("c"),
            r#"generators.end.from: "c" is not a single whole number"#,
        ),
        (
            "y",
            |d| d["generators"]["end"]["from"] = json!("ids"),
            r#"generators.end.from: "ids" is not a single whole number"#,
        ),
        (
            "x",
            |d| {
                d["statements"]["food"]["sql"] = json!("SELECT ?, ?");
                d["statements"]["food"]["parameters"] = json!(["each", "other"]);
            },
            r#"statements.food.parameters[1]: "other" is the second permutation of its step"#,
        ),
        (
            "x",
            |d| d["generators"]["id"]["high"] = json!(0),
            "generators.id.high: 0 is less than low, 1",
        ),
        (
            "x",
            |d| d["generators"]["id"]["length"] = json!(5),
            "length: unknown field `length`, expected one of `low`, `high`, ",
        ),
        ("x", |d| d["generators"]["id"] = json!({"kind": "text"}), "missing field `length`"),
        (
            "x",
            |d| d["generators"]["id"] = json!({"kind": "text", "length": 5, "max_length": 4}),
            "generators.id.max_length: 4 is less than length, 5",
        ),
        (
            "x",
            |d| {
                d["generators"]["id"] =
                    json!({"kind": "decimal", "low": 0, "high": 1, "scale": 16});
            },
            "generators.id.scale: 16 is not 0 to 15",
        ),
        (
            "x",
            |d| {
                d["generators"]["id"] =
                    json!({"kind": "decimal", "low": 0, "high": 1e10, "scale": 9});
            },
            "generators.id.high: has more than 15 digits",
        ),
        (
            "x",
            |d| d["generators"]["id"]["segment"] = json!("table"),
            "segment: unknown variant `table`, expected `client`",
        ),
        (
            "x",
            |d| d["generators"]["id"]["count"] = json!(70_000),
            "generators.id.count: 70000 is not 1 to 65535",
        ),
        (
            "y",
            |d| {
                d["generators"]["ids"]["count"] = json!(40_000);
                d["statements"]["terms"]["terms"]["parameters"][0] = json!("ids");
            },
            "statements.terms: has 80000 parameters, a prepared statement at most 65535",
        ),
        (
            "y",
            |d| {
                d["generators"]["end"] = json!({"kind": "digits", "length": 10_000});
                d["statements"]["terms"]["terms"]["times"] = json!(2_000);
            },
            "statements.terms: may be 20",
        ),
    ]);
}

#[test]
fn a_permutation_without_tables_is_refused() {
    assert_mistakes(&[(
        "x",
        |d| {
            d["tables"] = json!({});
            d["statements"]["food"] = json!({"sql": "DO ?", "parameters": ["each"]});
        },
        "generators.each.kind: is permutation, which goes through the rows of the test's tables",
    )]);
}

#[test]
fn unknown_keys_are_refused_where_they_stand() {
    for place in
        ["/generators/id", "/tables/t/columns/0", "/tables/t", "/tests/x", "/statements/food"]
    {
        let mut definition = good();
        definition.pointer_mut(place).unwrap()["lenght"] = json!(1);
        let error = serde_json::from_value::<Definition>(definition).unwrap_err().to_string();
        assert!(error.contains("lenght"), "{place}: {error}");
    }
}
