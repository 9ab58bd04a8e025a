//! The workloads that ship with millrace, as far as a load generator needs them.

use std::collections::BTreeMap;

use serde::Deserialize;

use workload::definition::{Definition, Value};
use workload::validation::{self, ValidationError};

/// The text of every workload file, in the order of their names.
const FILES: &[&str] = &include!(concat!(env!("OUT_DIR"), "/workload_files.rs"));

/// A workload with tests.
#[derive(Debug)]
pub struct Builtin {
    pub name: String,
    pub title: String,
    pub default_test: Option<String>,
    /// The values of parameters and the levels of factors, unless others are given.
    pub defaults: BTreeMap<String, Value>,
    /// The permitted values.
    pub variables: BTreeMap<String, Variable>,
    pub definition: Definition,
}

/// A workload file; the keys that are not here are millrace's own.
#[derive(Deserialize)]
struct File {
    name: String,
    title: String,
    default_test: Option<String>,
    #[serde(default)]
    factors: BTreeMap<String, Variable>,
    #[serde(default)]
    parameters: BTreeMap<String, Variable>,
    #[serde(flatten)]
    definition: Definition,
}

/// A parameter or a factor.
#[derive(Debug, Deserialize)]
pub struct Variable {
    default: Option<Value>,
    /// All that it can be; empty where that is not limited.
    #[serde(default)]
    pub choices: Vec<Value>,
    minimum: Option<f64>,
    maximum: Option<f64>,
}

/// Return all workloads in the order of their names, those without tests too.
pub fn shipped() -> impl Iterator<Item = Builtin> {
    FILES.iter().map(|text| read(text).expect("the files are read by a test of this module"))
}

/// Return the workloads with tests.
pub fn all() -> Vec<Builtin> {
    shipped().filter(|builtin| !builtin.definition.tests.is_empty()).collect()
}

/// Find a test by its name, by `WORKLOAD/TEST`, or by the name of the workload that it is default of.
pub fn find(name: &str) -> Result<(Builtin, String), String> {
    let mut found: Vec<(Builtin, String)> = all()
        .into_iter()
        .filter_map(|builtin| {
            let test = builtin.test_called(name)?.to_owned();
            Some((builtin, test))
        })
        .collect();
    match (found.pop(), found.as_slice()) {
        (Some(one), []) => Ok(one),
        (Some(last), others) => {
            let names: Vec<String> = others
                .iter()
                .chain([&last])
                .map(|(builtin, test)| format!("{}/{test}", builtin.name))
                .collect();
            Err(format!(
                "{name} is the name of several tests; use one of these: {}",
                names.join(", ")
            ))
        }
        (None, _) => Err(match nearest_to(name) {
            Some(near) => format!("unknown test {name}; did you mean {near}?"),
            None => format!("unknown test {name}; `millrace-load tests` lists them"),
        }),
    }
}

/// Names that other programs have for tests.
const NAMES_ELSEWHERE: [(&str, &str); 4] = [
    ("select", "oltp_point_select"),
    ("point_select", "oltp_point_select"),
    ("oltp", "oltp_read_write"),
    ("tpcc", "tpcc-like"),
];

fn nearest_to(name: &str) -> Option<String> {
    if let Some((_, here)) = NAMES_ELSEWHERE.iter().find(|(elsewhere, _)| *elsewhere == name) {
        return Some((*here).to_owned());
    }
    let workloads = all();
    let tests = workloads.iter().flat_map(|builtin| builtin.definition.tests.keys());
    validation::nearest(name, tests.map(String::as_str)).map(str::to_owned)
}

impl Builtin {
    fn test_called(&self, name: &str) -> Option<&str> {
        let test = match name.split_once('/') {
            Some((workload, test)) if workload == self.name => test,
            Some(_) => return None,
            None if name == self.name => self.default_test.as_deref()?,
            None => name,
        };
        let (test, _) = self.definition.tests.get_key_value(test)?;
        Some(test)
    }
}

impl Variable {
    /// Return the choices of a switch, which is on or off by default; None for other variables.
    pub fn switch(&self) -> Option<Vec<String>> {
        match &self.default {
            Some(Value::Boolean(_)) => Some(vec!["on".to_owned(), "off".to_owned()]),
            Some(Value::Text(text)) if text == "on" || text == "off" => {
                Some(self.choices.iter().map(ToString::to_string).collect())
            }
            _ => None,
        }
    }

    /// Refuse, as the mistake of `key`, what the workload does not offer.
    pub fn check(&self, value: &Value, key: &str) -> Result<(), ValidationError> {
        let text = value.to_string();
        let choices: Vec<String> = self.choices.iter().map(ToString::to_string).collect();
        let is_offered = |choice: &String| choice.eq_ignore_ascii_case(&text);
        if !choices.is_empty() && !choices.iter().any(is_offered) {
            let known = choices.iter().map(String::as_str);
            return Err(ValidationError::unknown(key, "value", &text, known));
        }
        let number = match value {
            Value::Integer(integer) => *integer as f64,
            Value::Float(float) => *float,
            Value::Boolean(_) | Value::Text(_) => return Ok(()),
        };
        match (self.minimum, self.maximum) {
            (Some(minimum), _) if number < minimum => {
                Err(ValidationError::new(key, format!("{text} is less than {minimum}")))
            }
            (_, Some(maximum)) if number > maximum => {
                Err(ValidationError::new(key, format!("{text} is more than {maximum}")))
            }
            _ => Ok(()),
        }
    }
}

fn read(text: &str) -> Result<Builtin, toml::de::Error> {
    let file: File = toml::from_str(text)?;
    let variables: BTreeMap<_, _> = file.factors.into_iter().chain(file.parameters).collect();
    let defaults = variables
        .iter()
        .filter_map(|(name, variable)| Some((name.clone(), variable.default.clone()?)))
        .collect();
    Ok(Builtin {
        name: file.name,
        title: file.title,
        default_test: file.default_test,
        defaults,
        variables,
        definition: file.definition,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_can_be_read() {
        for text in FILES {
            let builtin = read(text).unwrap();
            assert!(!builtin.title.is_empty(), "{}", builtin.name);
        }
    }

    #[test]
    fn a_name_of_several_tests_says_what_to_use() {
        let said = find("update").unwrap_err();
        assert!(said.contains("use one of these: "), "{said}");
    }

    #[test]
    fn tests_by_every_name() {
        let (builtin, test) = find("point-query").unwrap();
        assert_eq!(test, "point-query");
        let full = format!("{}/{test}", builtin.name);
        assert_eq!(find(&full).unwrap().1, "point-query");
        let default = builtin.default_test.clone().unwrap();
        assert_eq!(find(&builtin.name).unwrap().1, default);
        for unknown in ["?", "load-data"] {
            let said = find(unknown).unwrap_err();
            assert!(said.contains("lists them"), "{said}");
        }
        let said = find("pont-query").unwrap_err();
        assert!(said.ends_with("did you mean point-query?"), "{said}");
    }
}
