//! Checks a workload as a whole before anything starts, and finds as many of its mistakes as it can.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::run;
use crate::spec::{Workload, phase, read};
use workload::definition::{Definition, Protocol, Step, Value};
use workload::program::Program;
use workload::statement_alone;
use workload::validation::ValidationError;

/// A workload, and the runs that it is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    workload: Parts,
    #[serde(default)]
    defaults: BTreeMap<String, Value>,
    /// For tests that no run drives.
    #[serde(default)]
    values: BTreeMap<String, Value>,
    seed: u64,
    #[serde(default)]
    runs: Vec<Run>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    values: BTreeMap<String, Value>,
    #[serde(default)]
    phases: Vec<Box<RawValue>>,
}

/// The parts of a definition, not read yet: a mistake in one hides none in another.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    #[serde(default)]
    tables: BTreeMap<String, Box<RawValue>>,
    #[serde(default)]
    generators: BTreeMap<String, Box<RawValue>>,
    #[serde(default)]
    statements: BTreeMap<String, Box<RawValue>>,
    #[serde(default)]
    tests: BTreeMap<String, Box<RawValue>>,
}

/// Return the mistakes of a workload, which is JSON, each once.
pub fn mistakes(json: &str) -> Result<Vec<ValidationError>, ValidationError> {
    let request: Request = match read::whole(json) {
        Ok(request) => request,
        Err(mistake) => {
            let Some(key) = mistake.key.strip_prefix("workload.") else {
                return Err(mistake);
            };
            return Ok(vec![ValidationError::new(key, mistake.message)]);
        }
    };
    let mut found = Mistakes(Vec::new());
    let parts = request.workload;
    let definition = Definition {
        tables: found.read("tables", parts.tables),
        generators: found.read("generators", parts.generators),
        statements: found.read("statements", parts.statements),
        tests: found.read("tests", parts.tests),
    };
    if !found.0.is_empty() {
        return Ok(found.0);
    }
    let mut driven = BTreeSet::new();
    for run in request.runs {
        let mut phases = Vec::new();
        for (index, raw) in run.phases.iter().enumerate() {
            let key = format!("phases[{index}]");
            match phase::check(raw, &key, request.seed, 0) {
                Ok(phase) => phases.push((key, phase)),
                Err(mistake) => found.add(mistake),
            }
        }
        driven.extend(phases.iter().filter_map(|(_, phase)| phase.test().map(str::to_owned)));
        let workload = Workload {
            definition: definition.clone(),
            defaults: request.defaults.clone(),
            values: run.values,
            seed: request.seed,
        };
        for mistake in run::mistakes(workload, phases) {
            found.add(mistake);
        }
    }
    let idle = definition.tests.keys().filter(|name| !driven.contains(*name));
    for name in idle {
        let compiled =
            idle_test(&definition, name, &request.defaults, &request.values, request.seed);
        compiled.unwrap_or_else(|mistake| found.add(mistake));
    }
    let used = used_statements(&definition);
    for name in definition.statements.keys().filter(|name| !used.contains(name.as_str())) {
        statement_alone(&definition, name).unwrap_or_else(|mistake| found.add(mistake));
    }
    Ok(found.0)
}

struct Mistakes(Vec<ValidationError>);

impl Mistakes {
    fn add(&mut self, mistake: ValidationError) {
        if !self.0.contains(&mistake) {
            self.0.push(mistake);
        }
    }

    /// Read each entry of a part of a definition.
    fn read<T: DeserializeOwned>(
        &mut self,
        part: &str,
        entries: BTreeMap<String, Box<RawValue>>,
    ) -> BTreeMap<String, T> {
        let mut read_entries = BTreeMap::new();
        for (name, raw) in entries {
            match read::part(&raw, &format!("{part}.{name}")) {
                Ok(entry) => _ = read_entries.insert(name, entry),
                Err(mistake) => self.add(mistake),
            }
        }
        read_entries
    }
}

/// Compile a test that no run drives.
fn idle_test(
    definition: &Definition,
    name: &str,
    defaults: &BTreeMap<String, Value>,
    values: &BTreeMap<String, Value>,
    seed: u64,
) -> Result<(), ValidationError> {
    let of_test = &definition.tests[name].values;
    let value =
        |name: &str| values.get(name).or_else(|| of_test.get(name)).or_else(|| defaults.get(name));
    let clients = match value("clients") {
        Some(Value::Integer(clients)) => u32::try_from(*clients).unwrap_or(1).max(1),
        _ => 1,
    };
    let is_text = matches!(value("protocol"), Some(Value::Text(text)) if text == "text");
    let protocol = if is_text { Protocol::Text } else { Protocol::Prepared };
    Program::compile(definition, defaults, values, name, clients, protocol, seed).map(drop)
}

/// Return the names of the statements that tests name.
fn used_statements(definition: &Definition) -> BTreeSet<&str> {
    fn names<'a>(steps: &'a [Step], found: &mut BTreeSet<&'a str>) {
        for step in steps {
            found.extend(step.statements.iter().map(String::as_str));
            names(&step.steps, found);
        }
    }
    let mut found = BTreeSet::new();
    for test in definition.tests.values() {
        names(&test.steps, &mut found);
        test.mix.iter().for_each(|transaction| names(&transaction.steps, &mut found));
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn workload() -> Json {
        json!({
            "tables": {"t": {
                "name": "t", "rows": "{rows}", "create": "CREATE TABLE {table} (id INT)",
                "columns": [{"name": "id", "kind": "sequence"}],
            }},
            "generators": {"id": {"kind": "integer", "low": 1, "high": 10}},
            "statements": {"look": {"sql": "SELECT 1 FROM t WHERE id = ?", "parameters": ["id"]}},
            "tests": {
                "one": {"title": "one", "steps": [{"statements": ["look"]}]},
                "other": {"title": "other", "mix": [
                    {"name": "a", "weight": 1, "steps": [{"statements": ["look"]}]},
                ]},
            },
        })
    }

    /// The mistakes where the value at a pointer is another one; null takes it away.
    fn mistakes_with(changes: &[(&str, Json)]) -> Vec<String> {
        let mut request = json!({
            "workload": workload(), "defaults": {"rows": 10}, "seed": 1,
            "runs": [{"values": {}, "phases": [
                {"name": "load", "kind": "load_tables"},
                {"name": "drive", "kind": "drive", "test": "one", "clients": 1,
                 "end": {"kind": "time", "seconds": 1}},
            ]}],
        });
        for (pointer, value) in changes {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            let parent = request.pointer_mut(parent).unwrap();
            match parent {
                Json::Object(map) => _ = map.insert(key.to_owned(), value.clone()),
                Json::Array(list) => list[key.parse::<usize>().unwrap()] = value.clone(),
                _ => unreachable!(),
            }
        }
        mistakes(&request.to_string()).unwrap().iter().map(ToString::to_string).collect()
    }

    /// Assert that there is one mistake, and how it begins.
    fn assert_only_mistake(pointer: &str, value: Json, beginning: &str) {
        let found = mistakes_with(&[(pointer, value)]);
        assert!(matches!(&found[..], [only] if only.starts_with(beginning)), "{found:?}");
    }

    #[test]
    fn workload_without_mistakes_has_none() {
        assert_eq!(mistakes_with(&[]), [""; 0]);
    }

    #[test]
    fn mistakes_of_all_parts_are_found_together() {
        let found = mistakes_with(&[
            ("/workload/tables/t/columns/0/kind", json!("date")),
            ("/workload/generators/id/kind", json!("integr")),
            ("/workload/statements/look/sq", json!("")),
        ]);
        let keys: Vec<&str> =
            found.iter().map(|mistake| mistake.split(": ").next().unwrap()).collect();
        assert_eq!(keys.len(), 3, "{found:?}");
        assert!(keys[0].starts_with("tables.t.columns"), "{found:?}");
        assert!(keys[1].starts_with("generators.id"), "{found:?}");
        assert!(keys[2].starts_with("statements.look"), "{found:?}");
    }

    #[test]
    fn mistake_that_all_runs_share_is_found_once() {
        let message =
            "statements.look.parameters: names 0 generators, but sql has 1 question marks";
        assert_only_mistake("/workload/statements/look/parameters", json!([]), message);
        assert_only_mistake("/workload/tables/t/rows", json!("{rowz}"), "tables.t.rows: ");
    }

    #[test]
    fn tests_that_no_run_drives_are_checked() {
        assert_only_mistake("/workload/tests/other/mix/0/weight", json!(-1), "tests.other.mix");
    }

    #[test]
    fn statements_that_no_test_uses_are_checked() {
        let idle = "/workload/statements/idle";
        for (statement, key) in [
            (json!({"sql": "SELECT ?"}), "parameters"),
            (json!({"sql": "SELECT ?", "parameters": ["none"]}), "parameters[0]"),
            (json!({"sql": {"by": "x", "a": "SELECT ?", "default": "SELECT 1"}}), "parameters"),
        ] {
            assert_only_mistake(idle, statement, &format!("statements.idle.{key}: "));
        }
        let fine = json!({"sql": "SELECT ?", "parameters": ["id"]});
        assert_eq!(mistakes_with(&[(idle, fine)]), [""; 0]);
    }

    #[test]
    fn phases_are_checked() {
        let message = "phases[1].clients: 0 is not from 1 to 100000";
        assert_only_mistake("/runs/0/phases/1/clients", json!(0), message);
        let message = "phases[1].test: unknown test \"on\"";
        assert_only_mistake("/runs/0/phases/1/test", json!("on"), message);
    }

    #[test]
    fn request_that_is_not_one_is_refused() {
        assert!(mistakes("{").is_err());
        assert!(mistakes(r#"{"workload": {}, "seed": 1, "runz": []}"#).is_err());
        let found = mistakes(r#"{"workload": {"tables": []}, "seed": 1}"#).unwrap();
        assert_eq!(found[0].key, "tables");
    }
}
