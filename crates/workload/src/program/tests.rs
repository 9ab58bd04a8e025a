use serde_json::{Value as Json, json};

use super::*;
use crate::testing;

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
    let values = [("tables", 2), ("size", 100)];
    testing::compile(definition, test, &values, Protocol::Prepared)
}

#[test]
fn tests_compile() {
    for test in ["x", "y"] {
        compiled(good(), test).unwrap();
    }
    let mistake = compiled(good(), "z").unwrap_err();
    assert_eq!(mistake, r#"tests: unknown test "z"; there are x, y"#);
}

/// Assert the first error of one of the tests.
fn assert_mistakes(cases: &str) {
    testing::assert_mistakes(&good(), cases, |wrong| {
        compiled(wrong.clone(), "x").and_then(|_| compiled(wrong, "y")).unwrap_err()
    });
}

#[test]
fn mistakes_in_tests_name_their_key() {
    assert_mistakes(
        r#"
/tests/x/steps/0/statements/1 = "foo"
    tests.x.steps[0].statements[1]: unknown statement "foo"; did you mean "food"?
/tests/x/steps = []
    tests.x: has either steps or a mix
/tests/x/steps/0/times = 0
    tests.x.steps: has nothing to do at these values
/tests/x/steps/0/times = "1-{tables}"
    tests.x.steps[0].times: -1 (1-{tables}) is not 0 to 1000000
/tests/x/steps/0/statements = []
    tests.x.steps[0]: has either statements, steps or a rollback
/tests/x/table = "clients"
    tests.x.table: unknown choice of tables "clients"; did you mean "client"?
/tests/x/tables = "s"
    tests.x.tables: unknown table set "s"; there are t
/tables/u = {"name": "u", "rows": 1, "create": "", "columns": []}
    tests.x.tables: is missing; there are t, u
/tables/t/count = "{tables}-2"
    tables.t.count: 0 ({tables}-2) is not 1 to 1000000
/tests/x/client_setup = ["SET @a = {b}"]
    tests.x.client_setup[0]: unknown value "b"
/tests/x/transaction = {"by": "skip", "on": false}
    tests.x.transaction.by: unknown value "skip"
/tests/y/mix/0/weight = 0
    tests.y.mix: has no weight above 0
/tests/y/mix = [{"name": "a", "weight": 1, "steps": [{"statements": ["terms"]}]}, {"name": "a", "weight": 1, "steps": []}]
    tests.y.mix[1].name: is there twice
"#,
    );
}

#[test]
fn mistakes_in_statements_name_their_key() {
    assert_mistakes(
        r#"
/statements/food/parameters/0 = "idd"
    statements.food.parameters[0]: unknown generator "idd"; did you mean "id"?
/statements/food/parameters = []
    statements.food.parameters: names 0 generators, but sql has 1 question marks
/statements/food/sql = "SELECT {client}, ?"
    statements.food.sql: unknown value "client"; did you mean "clients"?
/statements/food/protocol = "binary"
    statements.food.protocol: "binary" is not known, expected "text"
/statements/food/sql = "SELECT {terms}, ?"
    statements.food.sql: has {terms}, but there are none
/statements/terms/sql = "SELECT 1"
    statements.terms.sql: has no {terms}
/statements/terms/terms/parameters/0 = "each"
    statements.terms.terms.parameters[0]: "each" is a permutation
/statements/terms/terms/times = 0
    statements.terms.terms.times: 0 is not 1 to 65535
"#,
    );
}

#[test]
fn mistakes_in_generators_name_their_key() {
    assert_mistakes(
        r#"
/generators/id = {"kind": "derived", "from": "end"}
    generators.end.from: "end" is made from itself
/generators/end/from = "c"
    generators.end.from: "c" is not a single whole number
/generators/end/from = "ids"
    generators.end.from: "ids" is not a single whole number
/statements/food/sql = "SELECT ?, ?"
/statements/food/parameters = ["each", "other"]
    statements.food.parameters[1]: "other" is the second permutation of its step
/generators/id/high = 0
    generators.id.high: 0 is less than low, 1
/generators/id/length = 5
    length: unknown field `length`, expected one of `low`, `high`,
/generators/id = {"kind": "text"}
    missing field `length`
/generators/id = {"kind": "text", "length": 5, "max_length": 4}
    generators.id.max_length: 4 is less than length, 5
/generators/id = {"kind": "decimal", "low": 0, "high": 1, "scale": 16}
    generators.id.scale: 16 is not 0 to 15
/generators/id = {"kind": "decimal", "low": 0, "high": 1e10, "scale": 9}
    generators.id.high: has more than 15 digits
/generators/id/segment = "table"
    segment: unknown variant `table`, expected `client`
/generators/id/count = 70000
    generators.id.count: 70000 is not 1 to 65535
/generators/ids/count = 40000
/statements/terms/terms/parameters/0 = "ids"
    statements.terms: has 80000 parameters, a prepared statement at most 65535
/generators/end = {"kind": "digits", "length": 10000}
/statements/terms/terms/times = 2000
    statements.terms: may be 20
/tables = {}
/statements/food = {"sql": "DO ?", "parameters": ["each"]}
    generators.each.kind: is permutation, which goes through the rows of the test's tables
"#,
    );
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
