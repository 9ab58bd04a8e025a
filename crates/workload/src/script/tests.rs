use std::collections::HashSet;

use super::*;
use crate::program::Protocol;
use datagen::goodness::{assert_fits, assert_uniform};
use proptest::prelude::*;
use protocol::script::Script as _;

mod answers;
mod asked;
mod dependent;
mod loops;

use crate::testing::script_of;
use asked::{Asked, ask, program, program_with, texts};

#[test]
fn a_point_query_byte_by_byte() {
    let program = program_with("point", Protocol::Prepared, 1, 1, &[("tables", 1), ("size", 1)]);
    assert_eq!(program.texts_to_prepare(0), ["SELECT c FROM t1 WHERE id = ?"]);
    let mut script = program.client(0, vec![0x0102]);
    let mut out = Vec::new();
    let request = script.next(&mut out).unwrap();
    assert_eq!(request, Request { first: true, last: true, ..Request::default() });
    script.next(&mut out).unwrap();
    let first = [22, 0, 0, 0, 23, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    let again = [20, 0, 0, 0, 23, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(out, [&first[..], &again].concat());

    let program = program_with("point", Protocol::Text, 1, 1, &[("tables", 1), ("size", 1)]);
    let mut out = Vec::new();
    script_of(&program, 0).next(&mut out).unwrap();
    assert_eq!(out, b"\x1e\0\0\0\x03SELECT c FROM t1 WHERE id = 1");
}

#[test]
fn a_transaction_in_its_order() {
    let program = program("all", Protocol::Prepared, 1);
    let asked = texts(&program, 0, 22);
    let names: Vec<&str> = asked
        .iter()
        .map(|(request, _)| &*program.names().statements[usize::from(request.statement)])
        .collect();
    let expected = [
        "BEGIN", "point", "point", "range", "update", "range", "update", "list", "insert",
        "ranges", "fixed", "COMMIT",
    ];
    assert_eq!(names[..12], expected);
    assert_eq!(names[12..], expected[..10]);
    let ends = |flag: fn(&Request) -> bool| {
        let found = asked.iter().enumerate().filter(|(_, (request, _))| flag(request));
        found.map(|(position, _)| position).collect::<Vec<_>>()
    };
    assert_eq!(ends(|request| request.first), [0, 12]);
    assert_eq!(ends(|request| request.last), [11]);
}

/// Return the numbers in a text.
fn numbers(text: &str) -> Vec<i64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[test]
fn draws_are_shared_by_a_repetition_and_tables_by_a_step() {
    let program = program("all", Protocol::Text, 1);
    let mut tables = HashSet::new();
    let mut same = 0;
    for transaction in texts(&program, 0, 1200).chunks(12) {
        let text = |position: usize| transaction[position].1.as_str();
        for range in [3, 5] {
            let [table, id, end] = numbers(text(range))[..] else { panic!("{}", text(range)) };
            assert_eq!(end, id + 3);
            assert!(text(range + 1).ends_with(&format!("WHERE id = {id}")));
            assert!(text(range + 1).contains(&format!("UPDATE t{table} SET")));
            assert_eq!(numbers(text(3))[0], table);
        }
        same += u32::from(numbers(text(3)) == numbers(text(5)));
        let ranges = numbers(text(9));
        let (terms, own) = ranges[1..].split_at(6);
        assert!(terms.chunks(2).all(|pair| pair[1] == pair[0] + 3), "{terms:?}");
        assert!((1..=100).contains(&own[0]) && own.len() == 1);
        same += u32::from(terms[0] == terms[2]);
        assert!(text(10).ends_with("IN (51, 52, 53)"));
        tables.insert([numbers(text(1))[0], numbers(text(3))[0], numbers(text(7))[0]]);
    }
    assert!(same < 20, "repetitions and terms draw anew");
    assert!(tables.len() > 20, "each step draws its table: {tables:?}");
}

#[test]
fn literals_need_no_escape() {
    let program = program("insert", Protocol::Text, 1);
    let (_, text) = texts(&program, 0, 1).remove(0);
    let (_, values) = text.split_once("VALUES ").unwrap();
    assert!(values.starts_with("(1000, '"), "{values}");
    assert!(values.ends_with(", _utf8mb4 x'69742773', 1, 0.25)"), "{values}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn prepared_statements_and_text_say_the_same(seed: u64, clients in 1u32..5, client in 0u32..5) {
        let client = client.min(clients - 1);
        for test in ["all", "mixed", "own", "read", "insert"] {
            let of = |protocol| texts(&program_with(test, protocol, clients, seed, &[]), client, 60);
            prop_assert_eq!(of(Protocol::Prepared), of(Protocol::Text));
        }
    }

    #[test]
    fn a_clients_statements_depend_on_seed_and_client_alone(seed: u64, client in 0u32..4) {
        let of = |seed, client| texts(&program_with("all", Protocol::Text, 4, seed, &[]), client, 30);
        prop_assert_eq!(of(seed, client), of(seed, client));
        prop_assert_ne!(of(seed, client), of(seed, client + 1));
        prop_assert_ne!(of(seed, client), of(seed ^ 1, client));
    }

    /// Restarting or giving up transactions does not change transaction number n.
    #[test]
    fn transactions_are_replayed_and_given_up(
        seed: u64, what in prop::collection::vec((0usize..12, prop::bool::ANY), 1..30),
    ) {
        for test in ["all", "mixed", "delete-two"] {
            let program = program_with(test, Protocol::Text, 2, seed, &[]);
            let mut whole: Vec<Vec<String>> = Vec::new();
            for (request, text) in texts(&program, 1, 1000) {
                if request.first {
                    whole.push(Vec::new());
                }
                whole.last_mut().unwrap().push(text);
            }
            let mut script = script_of(&program, 1);
            let mut number = 0;
            for &(requests, again) in &what {
                if number == whole.len() {
                    break;
                }
                let expected = &whole[number];
                for text in expected.iter().take(requests) {
                    let (request, asked) = ask(&program, &mut script, 1).unwrap();
                    prop_assert_eq!(&asked, &Asked::Text(text.clone()));
                    let wrapped = expected[0] == "BEGIN";
                    prop_assert_eq!(script.rollback_needed(), wrapped);
                    prop_assert_eq!(request.last, Some(text) == expected.last() && !request.first || expected.len() == 1);
                }
                if requests == 0 {
                    continue;
                }
                if again {
                    script.again();
                } else {
                    script.abandon();
                    number += 1;
                }
            }
        }
    }

    #[test]
    fn permutations_delete_each_row_once(
        seed: u64, clients in 1u32..9, tables in 1i64..5, size in 1i64..40, by_client: bool,
    ) {
        let test = if by_client { "delete-own" } else { "delete" };
        let program = program_with(test, Protocol::Text, clients, seed, &[("tables", tables), ("size", size)]);
        let mut rows = Vec::new();
        for client in 0..clients {
            for (_, text) in texts(&program, client, 1000) {
                let row = numbers(&text);
                prop_assert!(!by_client || row[0] == i64::from(client) % tables + 1);
                rows.push(row);
            }
        }
        rows.sort_unstable();
        let reached = if by_client { tables.min(i64::from(clients)) } else { tables };
        let all: Vec<Vec<i64>> = (1..=reached).flat_map(|t| (1..=size).map(move |id| vec![t, id])).collect();
        prop_assert_eq!(rows, all);
    }
}

#[test]
fn a_transaction_is_not_begun_when_its_permutation_would_end_within() {
    let program = program_with("delete-two", Protocol::Text, 1, 1, &[("tables", 1), ("size", 5)]);
    let asked = texts(&program, 0, 100);
    assert_eq!(asked.len(), 8);
    assert!(asked[7].0.last);
}

#[test]
fn sequences_are_shared_by_all_clients() {
    let program = program("insert", Protocol::Text, 3);
    let mut ids = Vec::new();
    for client in 0..3 {
        for (_, text) in texts(&program, client, 10) {
            let (_, values) = text.split_once("VALUES (").unwrap();
            ids.push(numbers(values)[0]);
        }
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..30).map(|n| 1000 + 10 * n).collect::<Vec<_>>());
}

#[test]
fn segments_part_the_range() {
    let program = program_with("own", Protocol::Text, 3, 1, &[("tables", 1), ("size", 10)]);
    let of = |client| -> HashSet<i64> {
        texts(&program, client, 500).iter().map(|(_, text)| numbers(text)[1]).collect()
    };
    let parts = [0, 1, 2].map(of);
    assert_eq!(parts[0], (1..=3).collect());
    assert_eq!(parts[1], (4..=6).collect());
    assert_eq!(parts[2], (7..=10).collect());
    let crowd = program_with("own", Protocol::Text, 7, 1, &[("tables", 1), ("size", 2)]);
    for client in 0..7 {
        let id = numbers(&texts(&crowd, client, 1)[0].1)[1];
        assert_eq!(id, if client < 4 { 1 } else { 2 }, "client {client}");
    }
}

#[test]
fn mixes_follow_their_weights() {
    let program = program_with("mixed", Protocol::Text, 1, 1, &[("seldom", 2)]);
    assert_eq!(program.names().transactions, ["often", "never", "seldom"]);
    let mut counts = [0; 3];
    for (request, _) in texts(&program, 0, 100_000) {
        counts[usize::from(request.transaction)] += u64::from(request.first);
    }
    assert_eq!(counts[1], 0);
    let all = (counts[0] + counts[2]).to_string().parse::<f64>().unwrap();
    assert_fits(&[counts[0], counts[2]], &[all * 0.6, all * 0.4]);
}

#[test]
fn tables_are_drawn_evenly() {
    let program = program("point", Protocol::Text, 1);
    let mut asked = texts(&program, 0, 60_000).into_iter();
    assert_uniform(3, 60_000, || {
        let (_, text) = asked.next().unwrap();
        numbers(&text)[0].unsigned_abs() - 1
    });
}

#[test]
fn only_what_a_client_reaches_is_prepared() {
    let all = program("all", Protocol::Prepared, 2);
    assert_eq!(all.texts_to_prepare(0), all.texts_to_prepare(1));
    let expected = 3 * 7 + 1 + 1; // the step of SELECT 1 is dropped, but it was compiled
    assert_eq!(all.texts_to_prepare(0).len(), expected, "{:#?}", all.texts_to_prepare(0));
    assert!(all.texts_to_prepare(0).contains(&"COMMIT"));
    assert!(!all.texts_to_prepare(0).contains(&"BEGIN"));
    let own = program("own", Protocol::Prepared, 5);
    assert_eq!(own.texts_to_prepare(4), ["SELECT c FROM t2 WHERE id = ?"]);
    let read = program("read", Protocol::Prepared, 5);
    assert_eq!(read.texts_to_prepare(0), ["SELECT 1"]);
    assert_eq!(
        read.client_setup(4),
        ["SET @client = 4", "HANDLER t1 OPEN", "HANDLER t2 OPEN", "HANDLER t3 OPEN"]
    );
    assert!(program("all", Protocol::Text, 1).texts_to_prepare(0).is_empty());
}

#[test]
fn digits_letters_and_decimals_are_even() {
    let program = program("insert", Protocol::Text, 1);
    let mut digits = [0; 150];
    let mut letters = [0; 62];
    let mut lengths = [0; 10];
    let mut prices = [0; 105];
    for (_, text) in texts(&program, 0, 30_000) {
        let (_, values) = text.split_once("VALUES (").unwrap();
        let values: Vec<&str> = values.split(", ").collect();
        let groups = values[1].trim_matches('\'').replace('-', "");
        for (position, digit) in groups.bytes().enumerate() {
            digits[10 * position + usize::from(digit - b'0')] += 1;
        }
        let word = values[2].trim_matches('\'');
        lengths[word.len()] += 1;
        for letter in word.bytes() {
            let all = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
            letters[all.iter().position(|&other| other == letter).unwrap()] += 1;
        }
        let price: f64 = values[3].parse().unwrap();
        assert!((-5.0..=99.99).contains(&price) && values[3].split_once('.').unwrap().1.len() == 2);
        let class = (0..105).find(|&class| price < f64::from(class) - 4.0 - 0.005).unwrap();
        prices[usize::try_from(class).unwrap()] += 1;
    }
    assert_fits(&digits, &[3000.0; 150]);
    assert_fits(&lengths[2..], &[30_000.0 / 8.0; 8]);
    let all: u64 = letters.iter().sum();
    assert_fits(&letters, &[all.to_string().parse::<f64>().unwrap() / 62.0; 62]);
    assert_fits(&prices, &[30_000.0 / 105.0; 105]);
}
