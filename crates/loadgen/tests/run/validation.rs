//! Specifications that are refused.

use super::*;

#[test]
fn a_bad_specification_ends_with_status_2() {
    let assert = Command::cargo_bin("millrace-load")
        .unwrap()
        .args(["run", "-"])
        .write_stdin(r#"{"version": 2, "conection": {}}"#)
        .assert()
        .code(2);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("unknown field `conection`, expected one of"), "{said}");
    assert!(assert.get_output().stdout.is_empty());
}

#[test]
fn a_specification_that_is_nested_too_deeply_has_a_place() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let spec = format!(
        "{{\"version\": 2,\n \"connection\": {{\"socket\": \"/nowhere/s\", \"user\": \"u\"}},\n \
         \"phases\": [{{\"name\": \"ask\", \"kind\": \"statement\", \"sql\": {deep}}}]}}"
    );
    let assert = Command::cargo_bin("millrace-load")
        .unwrap()
        .args(["run", "-"])
        .write_stdin(spec)
        .assert()
        .code(2);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("line 3, phases[0].sql"), "{said}");
    assert!(said.contains("recursion limit exceeded"), "{said}");
}

#[test]
fn what_cannot_be_compiled_ends_with_status_2() {
    let spec = json!({
        "version": 2,
        "connection": {"socket": "/nowhere/s", "user": "u"},
        "workload": {"tests": {"a": {"title": "t", "steps": [{"statements": ["missing"]}]}}},
        "seed": 1,
        "phases": [{"name": "measure", "kind": "drive", "test": "a", "clients": 1,
                    "end": {"kind": "time", "seconds": 1}}],
    });
    let said = |spec: &Value| {
        let assert = Command::cargo_bin("millrace-load")
            .unwrap()
            .args(["run", "-"])
            .write_stdin(spec.to_string())
            .assert()
            .code(2);
        String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
    };
    assert!(said(&spec).contains("tests.a.steps[0].statements"), "{}", said(&spec));
    let mut unknown = spec;
    unknown["phases"][0]["test"] = json!("b");
    assert!(said(&unknown).contains("phases[0].test: unknown test \"b\""));
}
