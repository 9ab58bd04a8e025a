//! Helpers for tests: small workloads, their clients, and assertions on their errors.

use serde_json::Value as Json;

use crate::definition::{Definition, Value};
use crate::program::{Program, Protocol};
use crate::script::Script;
use protocol::mysql::binary::query_text;
use protocol::script::{Answer, Request, Script as _};

/// Compile a test of a workload for one client, with these parameter values.
pub fn compile(
    definition: Json,
    test: &str,
    values: &[(&str, i64)],
    protocol: Protocol,
) -> Result<Program, String> {
    let definition: Definition =
        serde_json::from_value(definition).map_err(|mistake| mistake.to_string())?;
    let values = values.iter().map(|&(name, value)| (name.to_owned(), Value::Integer(value)));
    Program::compile(&definition, &values.collect(), &[].into(), test, 1, protocol, 1)
        .map_err(|mistake| mistake.to_string())
}

pub fn script_of(program: &Program, client: u32) -> Script {
    let texts = u32::try_from(program.texts_to_prepare(client).len()).unwrap();
    program.client(client, (0..texts).collect())
}

/// A client that sends its requests as text.
pub struct Client {
    pub script: Script,
}

impl Client {
    pub fn of(program: &Program) -> Self {
        Self { script: script_of(program, 0) }
    }

    /// Return the next request, and its text.
    pub fn ask(&mut self) -> (Request, String) {
        let mut packet = Vec::new();
        let request = self.script.next(&mut packet).unwrap();
        (request, String::from_utf8(query_text(&packet).to_vec()).unwrap())
    }

    /// Return the texts of the next `count` requests.
    pub fn texts(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.ask().1).collect()
    }

    /// Answer the last request with rows of these values.
    pub fn answer(&mut self, rows: &[&[Option<&str>]]) -> Result<bool, String> {
        let mut values = rows.iter().map(|row| row.iter().map(|v| v.map(str::to_owned)).collect());
        let (row, more_rows) = (values.next(), values.collect());
        self.script.answered(&Answer {
            rows: rows.len() as u64,
            row,
            more_rows,
            ..Answer::default()
        })
    }
}

/// Assert how the errors begin that `find` reports for a document with some changes.
///
/// Each case has some lines `/json/pointer = value`, and then the beginning of the error, indented.
pub fn assert_mistakes(right: &Json, cases: &str, find: impl Fn(Json) -> String) {
    let mut wrong = right.clone();
    for line in cases.lines().filter(|line| !line.is_empty()) {
        if let Some((pointer, value)) = line.split_once(" = ").filter(|_| line.starts_with('/')) {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            let value =
                serde_json::from_str(value).unwrap_or_else(|error| panic!("{line}: {error}"));
            match wrong.pointer_mut(parent).unwrap() {
                Json::Array(list) => list[key.parse::<usize>().unwrap()] = value,
                object => object[key] = value,
            }
            continue;
        }
        let (found, expected) = (find(std::mem::replace(&mut wrong, right.clone())), line.trim());
        assert!(found.starts_with(expected), "{found:?} should start with {expected:?}");
    }
    assert_eq!(&wrong, right, "each change belongs to a mistake");
}
