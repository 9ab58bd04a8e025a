//! Specifications that are refused: which file, which line, which key.

use super::*;

/// Run a specification that has to be refused, and return the reason.
fn refused(spec: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("spec.json");
    fs::write(&file, spec).unwrap();
    let mut command = Command::cargo_bin("millrace-load").unwrap();
    let assert = command.arg("run").arg(&file).assert().code(2);
    assert!(assert.get_output().stdout.is_empty());
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    let reason = said.strip_prefix(&format!("millrace-load: {}: ", file.display()));
    reason.unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[test]
fn a_mistake_names_its_line_and_its_key() {
    let head =
        "{\n  \"version\": 2,\n  \"connection\": {\"socket\": \"/s\", \"user\": \"root\"},\n";
    let phase = "{\"kind\": \"driv\", \"name\": \"x\"}";
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep = format!("{{\"name\": \"ask\", \"kind\": \"statement\", \"sql\": {deep}}}");
    for (spec, expected) in [
        ("{\n  \"version\": 1\n}".to_owned(), "line 2, version: 1 is not known, expected 2"),
        (
            format!("{head}  \"phases\": [\n    {phase}\n  ]\n}}"),
            "line 5, phases[0].kind: unknown variant `driv`",
        ),
        (format!("{head}  \"phases\": 7\n}}"), "line 4, phases: invalid type"),
        (
            "{\n  \"version\": 2,\n  oops\n}".to_owned(),
            "the specification: key must be a string at line 3",
        ),
        (
            r#"{"version": 2, "conection": {}}"#.to_owned(),
            "line 1, conection: unknown field `conection`, expected one of",
        ),
    ] {
        let reason = refused(&spec);
        assert!(reason.starts_with(expected), "{reason}");
    }
    let reason = refused(&format!("{head}  \"phases\": [{deep}]}}"));
    assert!(reason.starts_with("line 4, phases[0].sql"), "{reason}");
    assert!(reason.contains("recursion limit exceeded"), "{reason}");
}

#[test]
fn what_cannot_be_compiled_names_its_key() {
    let mut spec = json!({
        "version": 2,
        "connection": {"socket": "/nowhere/s", "user": "u"},
        "workload": {"tests": {"a": {"title": "t", "steps": [{"statements": ["missing"]}]}}},
        "seed": 1,
        "phases": [{"name": "measure", "kind": "drive", "test": "a", "clients": 1,
                    "end": {"kind": "time", "seconds": 1}}],
    });
    let reason = refused(&spec.to_string());
    assert!(reason.contains("tests.a.steps[0].statements"), "{reason}");
    spec["phases"][0]["test"] = json!("b");
    let reason = refused(&spec.to_string());
    assert!(reason.contains("phases[0].test: ") && reason.contains("test \"b\""), "{reason}");
}
