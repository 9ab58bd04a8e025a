use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::*;
use crate::testing::assert_mistakes;
use datagen::{self, Checksum, Rows};

fn sbtest() -> Json {
    json!({
        "name": "sbtest{n}",
        "count": "{tables}",
        "rows": "{table_size}",
        "create": "CREATE TABLE {table} (id INT) ENGINE={engine}",
        "after_load": ["CREATE INDEX k_{n} ON {table} (k)"],
        "warm": ["SELECT count(k) FROM {table} FORCE INDEX (k_{n})"],
        "columns": [
            {"name": "id", "kind": "sequence", "first": 1},
            {"name": "k", "kind": "integer", "low": 1, "high": "{table_size}", "distribution": "zipf"},
            {"name": "c", "kind": "digits", "groups": 10, "length": 11},
            {"name": "pad", "kind": "digits", "groups": 5, "length": 11},
        ],
    })
}

fn with_columns(columns: Json) -> Json {
    let mut set = sbtest();
    set["columns"] = columns;
    set
}

fn planned(set: &Json, size: i64, seed: u64) -> Result<Vec<Table>, String> {
    let definition = serde_json::from_value(json!({"tables": {"set": set}}))
        .map_err(|mistake| mistake.to_string())?;
    let values: BTreeMap<String, Given> = serde_json::from_value(json!({
        "tables": 2, "table_size": size, "engine": "InnoDB",
    }))
    .unwrap();
    let values = Values::new(&BTreeMap::new(), &BTreeMap::new(), &values);
    plan(&definition, &values, seed).map_err(|mistake| mistake.to_string())
}

fn text(table: &Table) -> String {
    let rows = &table.rows;
    let mut out = vec![0; rows.room_for(usize::try_from(rows.count()).unwrap())];
    let length = rows.write(0, rows.count(), &mut out);
    String::from_utf8(out[..length].to_vec()).unwrap()
}

/// Return the values of the rows of a table with these columns.
fn made(columns: Json) -> Vec<Vec<String>> {
    text(&planned(&with_columns(columns), 1_000, 1).unwrap()[0])
        .lines()
        .map(|row| row.split('\t').map(str::to_owned).collect())
        .collect()
}

fn mistake(columns: Json) -> String {
    planned(&with_columns(columns), 10, 1).err().unwrap()
}

#[test]
fn tables_have_their_numbers_and_names() {
    let tables = planned(&sbtest(), 10, 1).unwrap();
    assert_eq!(tables.len(), 2);
    let second = &tables[1];
    assert_eq!(second.name, "sbtest2");
    assert_eq!(second.create, "CREATE TABLE sbtest2 (id INT) ENGINE=InnoDB");
    assert_eq!(second.after_load, ["CREATE INDEX k_2 ON sbtest2 (k)"]);
    assert_eq!(second.warm, ["SELECT count(k) FROM sbtest2 FORCE INDEX (k_2)"]);
    assert_ne!(text(&tables[0]), text(second));
}

#[test]
fn rows_follow_the_rules_of_sysbench() {
    let table = &planned(&sbtest(), 2_000, 1).unwrap()[0];
    let digits = |text: &str, groups| {
        let found: Vec<&str> = text.split('-').collect();
        assert_eq!(found.len(), groups);
        assert!(found.iter().all(|group| group.len() == 11), "{text}");
        assert!(found.concat().bytes().all(|byte| byte.is_ascii_digit()), "{text}");
    };
    for (number, row) in text(table).lines().enumerate() {
        let columns: Vec<&str> = row.split('\t').collect();
        let [id, k, c, pad] = columns[..] else {
            panic!("{row:?} has {} columns", columns.len());
        };
        assert_eq!(id, (number + 1).to_string());
        assert!((1..=2_000).contains(&k.parse::<u32>().unwrap()), "{k}");
        digits(c, 10);
        digits(pad, 5);
    }
}

/// If this fails, the content has changed: raise `VERSION`. Otherwise stored results of the old
/// content would be compared with results of the new one.
#[test]
fn the_content_is_the_one_its_version_names() {
    assert_eq!(VERSION, "tables-1");
    let one = &planned(&sbtest(), 1, 1).unwrap()[0];
    assert_eq!(
        text(one),
        "1\t1\t57590210121-75288532139-45832316810-01749877150-90448608150-01332348848-57630503461-\
         93969383428-92925746273-66966772007\t46904897516-70731286290-17748898748-83659473274-\
         61824724855\n"
    );
    let many = &planned(&sbtest(), 10_000, 1).unwrap()[0].rows;
    let expected = Checksum { rows: 10_000, bytes: 1_888_879, sum: 21_383_773_194_767 };
    assert_eq!(datagen::checksum(many.as_ref(), &(0..10_000), 2), expected);
}

#[test]
fn values_of_every_kind() {
    let rows = made(json!([
        {"name": "down", "kind": "sequence", "first": -5, "step": -3},
        {"name": "drawn", "kind": "integer", "low": -2, "high": 2},
        {"name": "twice", "kind": "derived", "from": "more", "times": 2},
        {"name": "more", "kind": "derived", "from": "drawn", "plus": 100},
        {"name": "price", "kind": "decimal", "low": -0.05, "high": 0.05, "scale": 2},
        {"name": "word", "kind": "text", "length": 3, "max_length": 12},
        {"name": "fixed", "kind": "constant", "value": "{engine} is it"},
        {"name": "seven", "kind": "constant", "value": 7},
    ]));
    for (number, row) in (0..).zip(&rows) {
        let drawn: i64 = row[1].parse().unwrap();
        assert_eq!(row[0], (-5 - 3 * number).to_string());
        assert!((-2..=2).contains(&drawn));
        assert_eq!(row[3], (drawn + 100).to_string());
        assert_eq!(row[2], (2 * (drawn + 100)).to_string());
        assert!(
            (3..=12).contains(&row[5].len()) && row[5].bytes().all(|b| b.is_ascii_alphanumeric())
        );
        assert_eq!(row[6..], ["InnoDB is it", "7"]);
    }
    let seen = |column: usize| rows.iter().map(|row| row[column].clone()).collect::<HashSet<_>>();
    assert_eq!(seen(1).len(), 5);
    assert!(seen(4).contains("-0.05") && seen(4).contains("0.00") && seen(4).contains("0.05"));
    assert_eq!(seen(4).len(), 11);
    assert_eq!(seen(5).iter().map(String::len).collect::<HashSet<_>>().len(), 10);
    assert_eq!(
        planned(&with_columns(json!([{"name": "a", "kind": "sequence"}, {"name": "b", "kind": "text", "length": 1}])), 1, 1)
            .unwrap()[0].rows.numbers(),
        [true, false]
    );
}

#[test]
fn columns_are_computed_from_others_that_may_be_hidden() {
    let columns = json!([
        {"name": "row", "kind": "sequence", "first": 0, "hidden": true},
        {"name": "cents", "kind": "integer", "low": 0, "high": 999, "hidden": true},
        {"name": "is_odd", "kind": "computed", "value": "row % 2", "hidden": true},
        {"name": "half", "kind": "computed", "value": "row / 2 + {tables} * 0"},
        {"name": "price", "kind": "computed", "value": "if(is_odd, cents, -5)", "scale": 2},
        {"name": "word", "kind": "words", "from": "row", "words": ["a", "bc"], "digits": 3},
        {"name": "maybe", "kind": "text", "length": 4, "null_if": "is_odd"},
    ]);
    let rows = made(columns.clone());
    for (number, row) in rows.iter().enumerate() {
        assert_eq!(row[0], (number / 2).to_string());
        assert_eq!(row[1] == "-0.05", number % 2 == 0);
        assert_eq!(row[3] == "\\N", number % 2 == 1);
        assert_eq!(row.len(), 4);
    }
    let words: Vec<&str> = rows[..4].iter().map(|row| row[2].as_str()).collect();
    assert_eq!(words, ["aaa", "aabc", "abca", "abcbc"]);
    let table = planned(&with_columns(columns), 1, 1).unwrap().remove(0);
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["half", "price", "word", "maybe"]);
    assert_eq!(table.rows.numbers(), [true, true, false, false]);
    assert!(table.columns[3].nullable && !table.columns[2].nullable);
}

#[test]
fn a_constant_whole_number_is_one_of_a_column() {
    let rows = made(json!([
        {"name": "one", "kind": "constant", "value": 1, "hidden": true},
        {"name": "no", "kind": "constant", "value": false, "hidden": true},
        {"name": "never", "kind": "sequence", "null_if": "one"},
        {"name": "always", "kind": "sequence", "null_if": "no"},
        {"name": "sum", "kind": "computed", "value": "one + one"},
        {"name": "after", "kind": "derived", "from": "one", "plus": 5},
        {"name": "word", "kind": "words", "from": "one", "words": ["a", "bc"], "digits": 1},
    ]));
    for (row, number) in rows.iter().zip(1..) {
        assert_eq!(*row, ["\\N", &format!("{number}"), "2", "6", "bc"]);
    }
}

#[test]
fn mistakes_name_their_key() {
    let cases = r#"
/columns = []
    tables.set.columns: there are none
/columns/1 = {"name": "id", "kind": "sequence"}
    tables.set.columns.id: there are two of this name
/columns/0 = {"name": "a", "kind": "derived", "from": "b"}
/columns/1 = {"name": "b", "kind": "derived", "from": "a"}
    tables.set.columns.a.from: it comes from itself
/columns/1 = {"name": "b", "kind": "derived", "from": "ident"}
    tables.set.columns.b.from: unknown column "ident"; there are id, b, c, pad
/columns/0 = {"name": "a", "kind": "derived", "from": "b"}
/columns/1 = {"name": "b", "kind": "text", "length": 1}
    tables.set.columns.b.kind: is not a kind of column that holds or gives whole numbers
/columns/0 = {"name": "a", "kind": "permutation", "low": 1, "high": 9}
    tables.set.columns.a.kind: is not a kind
/columns/0 = {"name": "a", "kind": "integer", "low": 1, "high": 9, "count": 3}
    tables.set.columns.a.count: is of parameters; a column holds one value a row
/columns/0 = {"name": "a", "kind": "constant", "value": "it's"}
    tables.set.columns.a.value: a column's constant is made of printable ASCII
/columns/0 = {"name": "a", "kind": "constant", "value": "space "}
    tables.set.columns.a.value: a column's constant is made of printable ASCII
/columns/0 = {"name": "a", "kind": "integer", "low": 1, "high": "{table_sise}"}
    tables.set.columns.a.high:
/columns/0 = {"name": "a", "kind": "computed", "value": "a + 1"}
    tables.set.columns.a.value: it comes from itself
/columns/0 = {"name": "a", "kind": "constant", "value": 1, "null_if": "b"}
    tables.set.columns.a.null_if: unknown column "b"
/columns/0 = {"name": "a", "kind": "integer", "low": 1, "high": 2, "per": "transaction"}
    tables.set.columns.a.per: is of parameters
/columns/0 = {"name": "a", "kind": "iteration"}
    tables.set.columns.a.kind: is not a kind
/columns = [{"name": "a", "kind": "sequence", "hidden": true}]
    tables.set.columns: there are none
/name = "t"
    tables.set.name: two tables are called "t": put {n} into the name
"#;
    assert_mistakes(&sbtest(), cases, |wrong| planned(&wrong, 10, 1).err().unwrap());
}

fn children(fan_out: Json, once: bool) -> Json {
    let mut set = with_columns(json!([
        {"name": "parent", "kind": "parent", "hidden": true},
        {"name": "id", "kind": "computed", "value": "parent / 2 + 1"},
        {"name": "type", "kind": "computed", "value": "100 + parent % 2"},
        {"name": "place", "kind": "child"},
        {"name": "sum", "kind": "computed", "value": "id + place"},
        {"name": "all", "kind": "children"},
    ]));
    set["fan_out"] = fan_out;
    set["once"] = json!(once);
    set
}

#[test]
fn rows_of_parents() {
    let links = json!({"kind": "links", "high": "{table_size}/2", "types": 2, "at_most": 9});
    let tables = planned(&children(links.clone(), false), 1000, 1).unwrap();
    let rows: Vec<Vec<i64>> = text(&tables[0])
        .lines()
        .map(|row| row.split('\t').map(|value| value.parse().unwrap()).collect())
        .collect();
    let mut parents = BTreeMap::new();
    for row in &rows {
        let [id, kind, place, sum, all] = row[..] else { panic!("{row:?}") };
        assert!((1..=500).contains(&id) && (100..=101).contains(&kind) && place < all);
        assert_eq!(sum, id + place);
        parents.entry((id, kind)).or_insert_with(Vec::new).push((place, all));
    }
    for places in parents.values() {
        let all = places[0].1;
        let expected: Vec<(i64, i64)> = (0..all).map(|place| (place, all)).collect();
        assert_eq!(places, &expected);
    }
    let once = planned(&children(links, true), 1000, 1).unwrap();
    assert_eq!(once[0].rows.count(), parents.len() as u64);
}

#[test]
fn mistakes_of_fan_outs() {
    let cases = r#"
/fan_out = {"kind": "links", "high": 700}
    tables.set.fan_out: gives links of 700 nodes and types, and there are 1000 parents
/fan_out = {"kind": "text", "length": 3}
    tables.set.fan_out.kind: a fan-out is of kind integer or links
"#;
    let find = |wrong| planned(&wrong, 1000, 1).err().unwrap();
    assert_mistakes(&children(json!(null), false), cases, find);
}

#[test]
fn keys_are_those_of_the_kind() {
    let cases = r#"
/columns/0 = {"name": "a", "low": 1, "high": 2}
    missing field `kind`
/columns/0 = {"name": "a", "kind": 1}
    kind: expected a text
/columns/0 = {"name": "a", "kind": "sequense"}
    kind: unknown variant `sequense`, expected one of `integer`,
/columns/0 = {"lenght": 3, "name": "a", "kind": "text"}
    lenght: unknown field `lenght`, expected one of `length`,
/columns/0 = {"name": "a", "kind": "integer", "low": 1}
    missing field `high`
/columns/0 = {"name": "a", "kind": "children", "step": 2}
    step: unknown field `step`
/columns/0 = {"name": "a", "kind": "integer", "low": [1], "high": 2}
    low: expected a number, arithmetic over values as text, or a choice by a value
/columns/0 = {"name": "a", "kind": "answer", "from": "s", "value": "row"}
    value: unknown variant `row`, expected one of `rows`,
/columns/0 = {"name": "a", "kind": "decimal", "low": 1, "high": 2, "segment": "client"}
    tables.set.columns.a.segment: is of the kind integer
"#;
    assert_mistakes(&sbtest(), cases, |wrong| planned(&wrong, 10, 1).err().unwrap());
}

#[test]
fn bytes_of_columns_end_no_row() {
    let motifs = |low: i64| json!([{"name": "c", "kind": "motifs", "low": low, "high": 100, "uniqueness": 50, "max_length": 40}]);
    assert_eq!(made(motifs(32)).len(), 1000);
    assert!(mistake(motifs(31)).starts_with("tables.set.columns.c.low: a column's bytes are 32"));
    let mut set = with_columns(motifs(32));
    set["columns"][0]["kind"] = json!("children");
    assert!(planned(&set, 10, 1).is_err());
}
