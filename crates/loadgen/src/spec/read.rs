//! Reading JSON so that a mistake names its key from the top of the specification, and its line.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use workload::validation::{ValidationError, nearest};

/// Keys that were read before come again, so that each kind can refuse every key that it does not know.
macro_rules! rest_of_kind {
    ($before:tt $($name:ident { $($(#[$attribute:meta])* $key:ident: $type:ty),* $(,)? })*) => {$(
        rest_of_kind!(@one $before $name { $($(#[$attribute])* $key: $type,)* });
    )*};
    (@one [$($before:ident)*] $name:ident { $($rest:tt)* }) => {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code)] // the keys that were read before
        pub struct $name {
            $(#[serde(default)] $before: serde::de::IgnoredAny,)*
            $($rest)*
        }
    };
}
pub(super) use rest_of_kind;

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a statement or a list of statements")]
pub enum RawSql {
    One(String),
    Several(Vec<String>),
}

impl From<RawSql> for Vec<String> {
    fn from(sql: RawSql) -> Self {
        match sql {
            RawSql::One(sql) => vec![sql],
            RawSql::Several(list) => list,
        }
    }
}

pub fn whole<T: DeserializeOwned>(json: &str) -> Result<T, ValidationError> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let key = if [".", "?"].contains(&&*path) { "the specification" } else { &path };
        // Where the text is JSON, the key has a line of its own.
        if error.inner().is_data() {
            return mistake(key, error.inner());
        }
        ValidationError::new(key, error.inner().to_string())
    })?;
    reader.end().map_err(|error| ValidationError::new("the specification", error.to_string()))?;
    Ok(value)
}

/// Read the part of the specification that lies at `key`.
pub fn part<T: DeserializeOwned>(json: &RawValue, key: &str) -> Result<T, ValidationError> {
    let mut reader = serde_json::Deserializer::from_str(json.get());
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let key = match path.as_str() {
            "." => key.to_owned(),
            path => format!("{key}.{path}"),
        };
        mistake(&key, error.inner())
    })
}

/// A part that was kept before it was read names its own key first. Where a name is unknown, the one that
/// is meant may be among those that the message lists.
fn mistake(key: &str, error: &serde_json::Error) -> ValidationError {
    let message = error.to_string();
    // The position may be one within the part: it would mislead.
    mistake_in_words(key, message.rsplit_once(" at line ").map_or(&message, |parts| parts.0))
}

fn mistake_in_words(key: &str, message: &str) -> ValidationError {
    if let Some((inner, message)) = message.split_once(": ")
        && !inner.contains(' ')
    {
        return mistake_in_words(&format!("{key}.{inner}"), message);
    }
    let mut names = message.split('`').skip(1).step_by(2);
    let near = names.next().filter(|_| message.starts_with("unknown "));
    match near.and_then(|unknown| nearest(unknown, names)) {
        Some(near) => ValidationError::new(key, format!("{message}; did you mean `{near}`?")),
        None => ValidationError::new(key, message),
    }
}

/// Refuse the value of a key inside of another one.
pub fn refused<T>(key: &str, inner: &str, why: impl Into<String>) -> Result<T, ValidationError> {
    Err(ValidationError::new(format!("{key}.{inner}"), why))
}

/// Read a number of seconds that may be 0, or none.
pub fn zero_or_more(seconds: f64, key: &str) -> Result<Duration, ValidationError> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| ValidationError::new(key, format!("{seconds} is not a time in seconds")))
}

/// Read a number of seconds above 0.
pub fn above_zero(seconds: f64, key: &str) -> Result<Duration, ValidationError> {
    match zero_or_more(seconds, key)? {
        Duration::ZERO => Err(ValidationError::new(key, "0 is not a time above 0 seconds")),
        time => Ok(time),
    }
}

/// Return the line (from 1) of the value at `key`, such as `phases[1].pacing.rate`, or of the
/// innermost value around it that is there; None where nothing of the key is there.
pub fn line_of(json: &str, key: &str) -> Option<usize> {
    let mut value: Option<&RawValue> = None;
    let mut rest = key;
    while !rest.is_empty() {
        let Some((inner, left)) = step(value.map_or(json, RawValue::get), rest) else {
            break;
        };
        value = Some(inner);
        rest = left;
    }
    let begin = value?.get().as_ptr() as usize - json.as_ptr() as usize;
    Some(1 + json[..begin].matches('\n').count())
}

/// Return the value of the first part of `key` within `json`, and the rest of the key.
fn step<'a, 'k>(json: &'a str, key: &'k str) -> Option<(&'a RawValue, &'k str)> {
    if let Some(indexed) = key.strip_prefix('[') {
        let (index, rest) = indexed.split_once(']')?;
        let values: Vec<&RawValue> = serde_json::from_str(json).ok()?;
        let value = values.get(index.parse::<usize>().ok()?)?;
        return Some((value, rest.strip_prefix('.').unwrap_or(rest)));
    }
    // Names may have dots of their own, so the longest name that is there is the one.
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(json).ok()?;
    members
        .iter()
        .filter_map(|(name, value)| {
            let rest = key.strip_prefix(name.as_str())?;
            let after = rest
                .strip_prefix('.')
                .or_else(|| (rest.is_empty() || rest.starts_with('[')).then_some(rest))?;
            Some((name.len(), (*value, after)))
        })
        .max_by_key(|(length, _)| *length)
        .map(|(_, found)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{
  "version": 2,
  "phases": [
    {"name": "load"},
    {
      "name": "drive",
      "pacing": {
        "rate": 0
      }
    }
  ],
  "a.b": {
    "c": 1
  }
}"#;

    #[test]
    fn a_key_has_the_line_of_its_value() {
        for (key, line) in [
            ("version", 2),
            ("phases", 3),
            ("phases[0].name", 4),
            ("phases[1]", 5),
            ("phases[1].pacing.rate", 8),
            ("a.b.c", 13),
        ] {
            assert_eq!(line_of(JSON, key), Some(line), "{key}");
        }
    }

    #[test]
    fn a_missing_key_has_the_line_of_what_should_hold_it() {
        assert_eq!(line_of(JSON, "phases[1].pacing.burst"), Some(7));
        assert_eq!(line_of(JSON, "phases[7].name"), Some(3));
        assert_eq!(line_of(JSON, "seed"), None);
        assert_eq!(line_of("not JSON", "seed"), None);
    }
}
