//! The place of a key in the text of a specification.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

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
