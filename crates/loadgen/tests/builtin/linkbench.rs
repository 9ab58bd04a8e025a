//! The requests of the LinkBench workload: its mix, the ids that it accesses, and each of its quirks.

use std::collections::{BTreeMap, HashMap, HashSet};

use datagen::rotations::Rotations;
use datagen::{Rows, TableRows};
use millrace_load::builtin;
use protocol::script::{Answer, Observe, Row, Script as _};
use workload::definition::Value;
use workload::program::{Program, Protocol};
use workload::script::Script;
use workload::tables;
use workload::values::Values;

const NODES: i64 = 20_000;
const FIRST_TYPE: u64 = 123_456_789;

fn values(levels: &[(&str, &str)]) -> BTreeMap<String, Value> {
    let numbers = [("nodes", NODES), ("max_links", 2000), ("range_limit", 50)];
    let numbers = numbers.map(|(name, number)| (name.to_owned(), Value::Integer(number)));
    let texts = [("table_options", "")].iter().chain(levels);
    let texts = texts.map(|(name, text)| ((*name).to_owned(), Value::Text((*text).to_owned())));
    numbers.into_iter().chain(texts).collect()
}

fn program(levels: &[(&str, &str)]) -> Program {
    let (linkbench, test) = builtin::find("linkbench").unwrap();
    Program::compile(
        &linkbench.definition,
        &linkbench.defaults,
        &values(levels),
        &test,
        1,
        Protocol::Text,
        1,
    )
    .unwrap()
}

/// A client whose links are all new and whose lists are all short, by default.
struct Client<'a> {
    program: &'a Program,
    script: Script,
}

/// A statement: its transaction, its name, its text, and whether its time counts.
struct Asked {
    transaction: String,
    statement: String,
    text: String,
    timed: bool,
}

impl<'a> Client<'a> {
    fn new(program: &'a Program) -> Self {
        Self { program, script: program.client(0, Vec::new()) }
    }

    fn ask(&mut self, affected_rows: u64, row: Option<Row>) -> Asked {
        let mut packet = Vec::new();
        let request = self.script.next(&mut packet).unwrap();
        if request.observe != Observe::Nothing {
            let rows = if row.is_some() { 50 } else { 0 };
            let answer = Answer { affected_rows, rows, row, ..Answer::default() };
            self.script.answered(&answer).unwrap();
        }
        Asked {
            transaction: self.program.names().transactions[usize::from(request.transaction)]
                .clone(),
            statement: self.program.names().statements[usize::from(request.statement)].clone(),
            text: String::from_utf8(packet[5..].to_vec()).unwrap(),
            timed: !request.untimed,
        }
    }

    /// The next statements of a name.
    fn asked(&mut self, statement: &str, count: usize) -> Vec<Asked> {
        let all = std::iter::repeat_with(|| self.ask(1, None));
        all.filter(|asked| asked.statement == statement).take(count).collect()
    }
}

/// The number after a word of a text.
fn number_after(text: &str, word: &str) -> u64 {
    let (_, rest) = text.split_once(word).unwrap();
    let digits = rest.split(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty());
    digits.unwrap().parse().unwrap()
}

#[test]
fn operations_come_as_often_as_published() {
    let mixes = [
        ("2011", [50.712, 12.933, 8.989, 8.012, 7.366, 4.886, 2.991, 2.573, 1.012, 0.526]),
        ("newer", [22.570, 43.987, 5.350, 4.756, 3.063, 4.279, 0.984, 2.612, 0.252, 12.147]),
    ];
    let operations = [
        "get_link_list", "get_node", "add_link", "update_link", "update_node", "count_links",
        "delete_link", "add_node", "delete_node", "multiget_link",
    ];
    for (mix, percents) in mixes {
        let program = program(&[("mix", mix)]);
        let mut client = Client::new(&program);
        let mut counts: HashMap<String, f64> = HashMap::new();
        let mut all = 0.0;
        while all < 60_000.0 {
            let asked = client.ask(1, None);
            let begins =
                ["BEGIN", "COMMIT", "count_up"].iter().all(|&name| asked.statement != name);
            if begins {
                let name = asked.transaction.trim_end_matches("_history").to_owned();
                *counts.entry(name).or_default() += 1.0;
                all += 1.0;
            }
        }
        for (operation, percent) in operations.iter().zip(percents) {
            let found = 100.0 * counts[*operation] / all;
            assert!((found - percent).abs() < 0.5, "{operation}: {found} %, published {percent} %");
        }
    }
}

/// The share of accesses that go to the most popular percent of ids, by rotations of a seed.
fn top_share(ids: &[u64], seed: u64) -> f64 {
    let order = Rotations::new(NODES.unsigned_abs(), seed);
    let top: HashSet<u64> = (0..200).map(|rank| order.at(rank) + 1).collect();
    share(ids.iter().filter(|id| top.contains(id)).count(), ids.len())
}

fn zipf_share(exponent: f64) -> f64 {
    let sum = |ranks: u32| (1..=ranks).map(|rank| f64::from(rank).powf(-exponent)).sum::<f64>();
    sum(200) / sum(20_000)
}

fn share(part: usize, all: usize) -> f64 {
    part as f64 / all as f64
}

#[test]
fn the_most_popular_ids_are_accessed_as_often_as_defined() {
    let seeds = [53_238_253_823_453, 4_766_565_305_853_767_165];
    // The other order has 0.5 % fewer reads, which go by degree.
    let faithful = [
        ("get_link_list", 0, 0.8),
        ("add_link", 0, 0.8),
        ("get_node", 1, 0.625),
        ("update_node", 1, 0.606),
    ];
    let fixed = [("get_link_list", 0, 0.8), ("add_link", 0, 0.741)];
    for (quirks, cases) in [("faithful", &faithful[..]), ("fixed", &fixed)] {
        let program = program(&[("quirks", quirks)]);
        for &(statement, seed, exponent) in cases {
            let asked = Client::new(&program).asked(statement, 20_000);
            let word = match statement {
                "get_link_list" => "id1 = ",
                "add_link" => "VALUES (",
                _ => "id = ",
            };
            let ids: Vec<u64> = asked.iter().map(|asked| number_after(&asked.text, word)).collect();
            let blend = if quirks == "fixed" && statement == "add_link" { 0.95 } else { 0.995 };
            let blend = if seed == 1 { 1.0 } else { blend };
            let expected = blend * zipf_share(exponent) + (1.0 - blend) * 0.01;
            let found = top_share(&ids, seeds[seed]);
            assert!((found - expected).abs() < 0.01, "{quirks} {statement}: {found}, {expected}");
        }
    }
}

#[test]
fn multigets_ask_for_distinct_links_two_or_more_unless_fixed() {
    for (quirks, least, mean) in [("faithful", 2, 3.6), ("fixed", 1, 2.6)] {
        let program = program(&[("quirks", quirks), ("mix", "newer")]);
        let asked = Client::new(&program).asked("multiget_link", 4000);
        let sizes = asked.iter().map(|asked| {
            let (_, list) = asked.text.split_once("IN (").unwrap();
            let ids: Vec<&str> = list.trim_end_matches(')').split(", ").collect();
            let distinct: HashSet<&&str> = ids.iter().collect();
            assert_eq!(distinct.len(), ids.len(), "{}", asked.text);
            ids.len()
        });
        let sizes: Vec<usize> = sizes.collect();
        assert_eq!(sizes.iter().min(), Some(&least));
        let found = share(sizes.iter().sum(), sizes.len());
        assert!((found - mean).abs() < 0.1, "{found}");
    }
}

#[test]
fn what_follows_an_added_link_depends_on_its_rows() {
    let program = program(&[]);
    for (affected, followers) in
        [(0, &["add_link_data"][..]), (1, &["count_up"]), (2, &["count_up", "add_link_data"])]
    {
        let mut client = Client::new(&program);
        let mut found = Vec::new();
        let mut ids = HashSet::new();
        while found.last().is_none_or(|last| last != "COMMIT") {
            let asked = client.ask(affected, None);
            if asked.transaction == "add_link" {
                if asked.statement.starts_with("add_link") || asked.statement == "count_up" {
                    let word = if asked.text.contains("VALUES (") { "VALUES (" } else { "id1 = " };
                    ids.insert(number_after(&asked.text, word));
                }
                found.push(asked.statement);
            }
        }
        let expected = [&["BEGIN", "add_link"], followers, &["COMMIT"]].concat();
        assert_eq!(found, expected, "{affected} rows");
        assert_eq!(ids.len(), 1, "the statements are about one link");
    }
}

#[test]
fn long_lists_are_read_on_and_their_latency_is_no_time_unless_fixed() {
    for (quirks, timed) in [("faithful", false), ("fixed", true)] {
        let program = program(&[("quirks", quirks)]);
        let mut client = Client::new(&program);
        let row: Row = (1..=7).map(|column| Some((1000 * column).to_string())).collect();
        let mut found = None;
        while found.is_none() {
            let asked = client.ask(1, Some(row.clone()));
            found = (asked.transaction == "get_link_list_history").then_some(asked);
        }
        let asked = found.unwrap();
        assert_eq!(asked.timed, timed);
        assert!(asked.text.contains("time <= 6000 "), "{}", asked.text);
        assert!(asked.text.ends_with("LIMIT 1, 50"), "{}", asked.text);
    }
}

fn rows_of(name: &str, levels: &[(&str, &str)]) -> Vec<Vec<Vec<u8>>> {
    let (linkbench, _) = builtin::find("linkbench").unwrap();
    let values = Values::new(&linkbench.defaults, &BTreeMap::new(), &values(levels));
    let tables = tables::plan(&linkbench.definition, &values, 1).unwrap();
    let rows: &TableRows = &tables.iter().find(|table| table.name == name).unwrap().rows;
    let count = usize::try_from(rows.count()).unwrap();
    let mut out = vec![0; rows.room_for(count)];
    let length = rows.write(0, rows.count(), &mut out);
    let rows = out[..length - 1].split(|&byte| byte == b'\n');
    rows.map(|row| row.split(|&byte| byte == b'\t').map(<[u8]>::to_vec).collect()).collect()
}

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

#[test]
fn counts_are_those_of_the_links_which_some_are_counted_twice_unless_fixed() {
    let mut all = Vec::new();
    for quirks in ["faithful", "fixed"] {
        let links = rows_of("linktable", &[("quirks", quirks)]);
        let mut counts: HashMap<(u64, u64), u64> = HashMap::new();
        for link in &links {
            let [id1, id2, kind] = [0, 1, 2].map(|column| number(&link[column]));
            let count = counts.entry((id1, kind)).or_default();
            assert_eq!(id2, id1 + *count);
            assert!((FIRST_TYPE..FIRST_TYPE + 2).contains(&kind));
            *count += 1;
        }
        let loaded = rows_of("counttable", &[("quirks", quirks)]);
        let loaded: HashMap<(u64, u64), u64> = loaded
            .iter()
            .map(|row| ((number(&row[0]), number(&row[1])), number(&row[2])))
            .collect();
        assert_eq!(loaded, counts);
        all.push(links.len());
    }
    let more = share(all[0] - all[1], 20_000);
    assert!((0.26..0.29).contains(&more), "{more} links a node are counted twice");
}

#[test]
fn the_motif_of_links_is_longer_than_configured_unless_fixed() {
    // Most texts are pieces of the motif, which begin in fewer places of a short one.
    for (quirks, least, most) in [("faithful", 400, 512), ("fixed", 90, 128)] {
        let links = rows_of("linktable", &[("quirks", quirks), ("population", "newer")]);
        let mut begins: HashMap<&[u8], u32> = HashMap::new();
        for text in links.iter().map(|row| &row[4]).filter(|text| text.len() >= 12) {
            *begins.entry(&text[..12]).or_default() += 1;
        }
        let pieces = begins.values().filter(|&&count| count > 1).count();
        assert!((least..=most).contains(&pieces), "{quirks}: {pieces}");
    }
}
