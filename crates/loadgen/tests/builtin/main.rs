//! The workload files that ship with millrace: every test of each compiles, and does what its
//! model does.

mod linkbench;

use std::collections::{BTreeMap, BTreeSet};

use datagen::Rows;
use millrace_load::builtin::{self, Builtin};
use protocol::script::{Request, Script as _};
use workload::definition::{Answer, Definition, Generator, Links, Number, Step, Value};
use workload::program::{Program, Protocol};
use workload::tables;
use workload::values::Values;

/// The workloads that have tables, by name, with as few nodes of large graphs as there may be: sums
/// over ten million ranks take minutes here.
fn workloads() -> BTreeMap<String, Builtin> {
    let small = |mut builtin: Builtin| {
        builtin.defaults.insert("table_options".to_owned(), Value::Text(String::new()));
        if let Some(nodes) = builtin.defaults.get_mut("nodes") {
            *nodes = Value::Integer(20_000);
        }
        (builtin.name.clone(), builtin)
    };
    let with_tables = builtin::shipped().filter(|builtin| !builtin.definition.tables.is_empty());
    with_tables.map(small).collect()
}

fn program(of: &Builtin, test: &str, protocol: Protocol, values: &[(&str, Value)]) -> Program {
    let values = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    Program::compile(&of.definition, &of.defaults, &values.collect(), test, 2, protocol, 1)
        .unwrap_or_else(|mistake| panic!("{mistake}"))
}

/// The names of the statements of a client's first transaction, and the first that are drawn.
fn first_transaction(program: &Program) -> Vec<String> {
    let texts = u32::try_from(program.texts_to_prepare(1).len()).unwrap();
    let mut script = program.client(1, (0..texts).collect());
    let mut names = Vec::new();
    let mut out = Vec::new();
    loop {
        let Request { statement, last, .. } = script.next(&mut out).unwrap();
        names.push(program.names().statements[usize::from(statement)].clone());
        if last {
            return names;
        }
    }
}

#[test]
fn every_test_of_every_workload_compiles_at_its_defaults() {
    let workloads = workloads();
    let names: Vec<&str> = workloads.keys().map(String::as_str).collect();
    let expected = "bulk-insert drop-table full-disk insert-benchmark insert-methods linkbench mysqlslap \
        one-row replication-writes sysbench tpcc-like updates";
    assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
    for workload in workloads.values() {
        for test in workload.definition.tests.keys() {
            for protocol in [Protocol::Prepared, Protocol::Text] {
                first_transaction(&program(workload, test, protocol, &[]));
            }
        }
        if let Some(default) = &workload.default_test {
            assert!(workload.definition.tests.contains_key(default));
        }
    }
}

#[test]
fn every_choice_of_every_workload_compiles() {
    for workload in workloads().values() {
        for (name, variable) in &workload.variables {
            for choice in &variable.choices {
                let values = BTreeMap::from([(name.clone(), choice.clone())]);
                for test in workload.definition.tests.keys() {
                    program(workload, test, Protocol::Prepared, &[(name, choice.clone())]);
                }
                let values = Values::new(&workload.defaults, &BTreeMap::new(), &values)
                    .with("clients", Value::Integer(2));
                tables::plan(&workload.definition, &values, 1).unwrap();
            }
        }
    }
}

#[test]
fn nothing_that_is_defined_is_left_unused() {
    for (name, workload) in workloads() {
        let Definition { generators, statements, tests, .. } = &workload.definition;
        let steps: Vec<&Step> = tests
            .values()
            .flat_map(|test| test.steps.iter().chain(test.mix.iter().flat_map(|kind| &kind.steps)))
            .flat_map(|step| std::iter::once(step).chain(&step.steps))
            .collect();
        let used: BTreeSet<&String> = steps.iter().flat_map(|step| &step.statements).collect();
        assert_eq!(used, statements.keys().collect(), "statements of {name}");
        let parameters = statements.values().flat_map(|statement| {
            let terms = statement.terms.iter().flat_map(|terms| &terms.parameters);
            let remembered = statement.remember.iter().flat_map(|remember| &remember.values);
            statement.parameters.iter().chain(terms).chain(remembered).map(String::as_str)
        });
        let sources = generators.values().flat_map(|generator| {
            let (computed, named) = match generator {
                Generator::Computed { value, .. } => (value.as_str(), [None, None]),
                Generator::Below { from, add, .. } => ("", [Some(from), add.as_ref()]),
                Generator::Either { from, otherwise, .. } => ("", [Some(from), Some(otherwise)]),
                Generator::Derived { from, .. } | Generator::Words { from, .. } => {
                    ("", [Some(from), None])
                }
                Generator::Links(Links { from: named, .. })
                | Generator::Answer(Answer { row: named, .. })
                | Generator::Tail { otherwise: named, .. } => ("", [named.as_ref(), None]),
                _ => ("", [None, None]),
            };
            let words = computed.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            words.chain(named.into_iter().flatten().map(String::as_str))
        });
        let conditions = steps.iter().flat_map(|step| {
            let times = match &step.times {
                Some(Number::Expression(text)) => Some(text),
                _ => None,
            };
            [step.only_if.as_ref(), step.unless.as_ref(), times].into_iter().flatten()
        });
        let used = parameters.chain(sources).chain(conditions.map(String::as_str));
        let used: BTreeSet<&str> = used.filter(|name| generators.contains_key(*name)).collect();
        assert_eq!(used, generators.keys().map(String::as_str).collect(), "generators of {name}");
    }
}

#[test]
fn loaded_orders_have_the_lines_that_they_say() {
    let workload = &workloads()["tpcc-like"];
    let one = BTreeMap::from([("warehouses".to_owned(), Value::Integer(1))]);
    let values = Values::new(&workload.defaults, &BTreeMap::new(), &one);
    let tables = tables::plan(&workload.definition, &values, 1).unwrap();
    let rows = |name: &str, visit: &mut dyn FnMut(&[&str])| {
        let table = tables.iter().find(|table| table.name == name).unwrap();
        let mut from = 0;
        while from < table.rows.count() {
            let to = table.rows.count().min(from + 1000);
            let mut text = vec![0; table.rows.room_for(1000)];
            let length = table.rows.write(from, to, &mut text);
            for row in std::str::from_utf8(&text[..length]).unwrap().lines() {
                visit(&row.split('\t').collect::<Vec<_>>());
            }
            from = to;
        }
    };
    let mut ordered = BTreeMap::new();
    let mut customers = BTreeSet::new();
    let mut lengths = BTreeMap::new();
    rows("orders", &mut |row| {
        let lines: u32 = row[6].parse().unwrap();
        let (order, district) = (row[0].parse::<u32>().unwrap(), row[1].to_owned());
        assert_eq!(row[5] == "\\N", order > 2100);
        customers.insert((district.clone(), row[3].to_owned()));
        *lengths.entry(lines).or_insert(0) += 1;
        ordered.insert((district, row[0].to_owned()), lines);
    });
    assert_eq!((ordered.len(), customers.len()), (30_000, 30_000));
    assert_eq!(lengths.keys().copied().collect::<Vec<_>>(), (5..=15).collect::<Vec<_>>());
    assert!(lengths.values().all(|&count| (2700..2760).contains(&count)), "{lengths:?}");
    let mut found = BTreeMap::new();
    rows("order_line", &mut |row| {
        let lines = found.entry((row[1].to_owned(), row[0].to_owned())).or_insert(0);
        *lines += 1;
        assert_eq!(row[3], lines.to_string());
        assert_eq!(row[6] == "\\N", row[0].parse::<u32>().unwrap() > 2100);
    });
    assert_eq!(found, ordered);
}

#[test]
fn transactions_are_sysbenchs() {
    let workloads = workloads();
    let sysbench = &workloads["sysbench"];
    let of = |test: &str| first_transaction(&program(sysbench, test, Protocol::Prepared, &[]));
    let ranges = ["simple_range", "sum_range", "order_range", "distinct_range"];
    let writes = ["index_update", "non_index_update", "delete", "insert"];
    let points = ["point_select"; 10];
    assert_eq!(of("oltp_read_only"), [&["BEGIN"], &points[..], &ranges, &["COMMIT"]].concat());
    assert_eq!(
        of("oltp_read_write"),
        [&["BEGIN"], &points[..], &ranges, &writes, &["COMMIT"]].concat()
    );
    assert_eq!(of("oltp_write_only"), [&["BEGIN"], &writes[..], &["COMMIT"]].concat());
    assert_eq!(of("read-only-sum").len(), 13);
    assert_eq!(of("read-only-count"), ["count_range"]);
    let off = [("skip_trx", Value::Text("on".to_owned()))];
    let without =
        first_transaction(&program(sysbench, "oltp_write_only", Protocol::Prepared, &off));
    assert_eq!(without, writes);
}

#[test]
fn the_microbenchmarks_are_33_and_have_their_names() {
    let workloads = workloads();
    let names = workloads["sysbench"].definition.tests.keys().map(String::as_str);
    let (dashes, stock): (Vec<&str>, Vec<&str>) = names.partition(|name| !name.contains('_'));
    assert_eq!(stock.len(), 10);
    let expected = "delete hot-points insert point-query points-covered-pk points-covered-si \
        points-notcovered-pk points-notcovered-si random-points-10 random-points-100 \
        random-points-1000 range-covered-pk range-covered-si range-notcovered-pk \
        range-notcovered-si read-only-10 read-only-100 read-only-10000 read-only-count \
        read-only-distinct read-only-order read-only-simple read-only-sum read-write-10 \
        read-write-100 scan update-index update-inlist update-nonindex update-one update-rate \
        update-zipf write-only";
    assert_eq!(dashes, expected.split_whitespace().collect::<Vec<_>>());
    assert_eq!(dashes.len(), 33);
}

/// The first request of client 1, as text.
fn first_text(workload: &str, test: &str, values: &[(&str, Value)]) -> String {
    let workloads = workloads();
    let program = program(&workloads[workload], test, Protocol::Text, values);
    let mut out = Vec::new();
    program.client(1, Vec::new()).next(&mut out).unwrap();
    String::from_utf8(out[5..].to_vec()).unwrap()
}

#[test]
fn lists_and_terms_have_their_lengths() {
    let count = |test: &str, what: &str| first_text("sysbench", test, &[]).matches(what).count();
    assert_eq!(count("random-points-1000", ", "), 999);
    assert_eq!(count("points-covered-si", ", "), 99);
    assert_eq!(count("select_random_ranges", "BETWEEN"), 10);
    assert!(first_text("sysbench", "hot-points", &[]).contains("IN (5001, 5002, "));
    assert!(first_text("sysbench", "hot-points", &[]).ends_with(", 5100)"));
    let bulk = first_text("bulk-insert", "bulk_insert", &[]);
    assert!(bulk.starts_with("INSERT INTO sbtest2 VALUES (1,1),(2,2),(3,3),"), "{}", &bulk[..60]);
    assert!((300_000..600_000).contains(&bulk.len()), "{}", bulk.len());
}

#[test]
fn statements_of_the_studies() {
    let limit = [("limit", Value::Integer(1000))];
    assert_eq!(
        first_text("one-row", "range-si", &limit),
        "select k from foo force index(xj) where j >= 100 order by j limit 1000"
    );
    let handler = first_text("updates", "read-handler", &[]);
    assert!(handler.starts_with("HANDLER sbtest2 READ `PRIMARY` = ("), "{handler}");
    let workloads = workloads();
    let program = program(&workloads["updates"], "read-handler", Protocol::Prepared, &[]);
    assert_eq!(program.client_setup(1), ["HANDLER sbtest2 OPEN"]);
    assert!(program.texts_to_prepare(1).is_empty());
}
