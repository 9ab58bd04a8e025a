//! The data sets as a user gets them.

use super::*;

fn program() -> Command {
    Command::cargo_bin("millrace-load").unwrap()
}

pub fn nodes(arguments: &[&str]) -> Vec<u8> {
    let assert = program().args(["data", "nodes"]).args(arguments).assert().success();
    assert.get_output().stdout.clone()
}

#[test]
fn threads_slices_and_files_give_the_same_bytes() {
    let set = ["--rows", "30000", "--seed", "7"];
    let whole = nodes(&[&set[..], &["--threads", "1"]].concat());
    assert_eq!(whole.split(|&byte| byte == b'\n').count(), 30_001);
    assert!(nodes(&[&set[..], &["--threads", "3"]].concat()) == whole);

    let start = nodes(&[&set[..], &["--to", "12345"]].concat());
    let rest = nodes(&[&set[..], &["--from", "12345"]].concat());
    assert!([start, rest].concat() == whole);

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nodes.tsv");
    nodes(&[&set[..], &["--output", file.to_str().unwrap()]].concat());
    assert!(fs::read(file).unwrap() == whole);
}

#[test]
fn the_checksum_is_that_of_the_bytes() {
    let set = ["--rows", "5000", "--seed", "7", "--from", "17"];
    let text = nodes(&set);
    let sum: u64 = text
        .split(|&byte| byte == b'\n')
        .filter(|row| !row.is_empty())
        .map(|row| u64::from(crc32fast::hash(row)))
        .sum();
    let answer: Value =
        serde_json::from_slice(&nodes(&[&set[..], &["--checksum"]].concat())).unwrap();
    assert_eq!(answer["rows"], 4983);
    assert_eq!(answer["bytes"], text.len());
    assert_eq!(answer["checksum"], sum.to_string());
    assert_eq!(answer["data_version"], "nodes-1");
}

#[test]
fn versions_are_json() {
    let output = program().arg("version").assert().success().get_output().stdout.clone();
    let answer: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(answer["load_generator"], env!("CARGO_PKG_VERSION"));
    assert_eq!(answer["data"]["nodes"], "nodes-1");
}

#[test]
fn mistakes_end_with_status_2_and_say_what_was_expected() {
    let cases: [(&[&str], &str); 4] = [
        (&["--rows", "10", "--seed", "1", "--from", "11"], "expected 0 <= from <= to <= 10"),
        (&["--rows", "10", "--seed", "1", "--from", "3", "--to", "2"], "expected 0 <= from <= to"),
        (&["--rows", "-1", "--seed", "1"], "--rows"),
        (&["--rows", "10"], "--seed"),
    ];
    for (arguments, expected) in cases {
        let assert = program().args(["data", "nodes"]).args(arguments).assert().code(2);
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(said.contains(expected), "{said}");
        assert!(assert.get_output().stdout.is_empty());
    }
}

#[test]
fn a_full_disk_is_named() {
    let assert = program()
        .args(["data", "nodes", "--rows", "100000", "--seed", "1", "--output", "/dev/full"])
        .assert()
        .code(1);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("cannot write /dev/full: No space left"), "{said}");
}
