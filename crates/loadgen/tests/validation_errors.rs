//! `millrace-load run` on a specification with a mistake: which file, which line, which key.

use assert_cmd::Command;
use predicates::str::contains;

#[track_caller]
fn assert_refused(json: &str, said: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("spec.json");
    std::fs::write(&file, json).unwrap();
    Command::cargo_bin("millrace-load")
        .unwrap()
        .arg("run")
        .arg(&file)
        .assert()
        .code(2)
        .stderr(contains(format!("{}: {said}", file.display())));
}

#[test]
fn a_mistake_names_its_line_and_its_key() {
    let head =
        "{\n  \"version\": 2,\n  \"connection\": {\"socket\": \"/s\", \"user\": \"root\"},\n";
    assert_refused("{\n  \"version\": 1\n}", "line 2, version: 1 is not known, expected 2");
    assert_refused(
        &format!("{head}  \"phases\": [\n    {{\"kind\": \"driv\", \"name\": \"x\"}}\n  ]\n}}"),
        "line 5, phases[0].kind: unknown variant `driv`",
    );
    assert_refused(&format!("{head}  \"phases\": 7\n}}"), "line 4, phases: invalid type");
}

#[test]
fn what_is_no_json_has_a_line_too() {
    assert_refused(
        "{\n  \"version\": 2,\n  oops\n}",
        "the specification: key must be a string at line 3",
    );
}
