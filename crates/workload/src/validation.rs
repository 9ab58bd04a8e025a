//! Errors in specifications and workloads, each with the key where it occurred.

use std::collections::BTreeMap;

use thiserror::Error;

/// A name may have one wrong letter for each this many letters.
const LETTERS_FOR_ERROR: usize = 3;

/// The minimum length of a beginning that stands for the whole name.
const LEAST_BEGINNING: usize = 4;

/// An error in a specification or in a workload.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{key}: {message}")]
pub struct ValidationError {
    /// The place, such as `tests.point-query.steps[0].times`.
    pub key: String,
    pub message: String,
}

impl ValidationError {
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into() }
    }

    /// Return the error that `name` at `key` is not one of the `known` names of its `kind`.
    pub fn unknown(
        key: impl Into<String>,
        kind: &str,
        name: &str,
        known: impl IntoIterator<Item: AsRef<str>>,
    ) -> Self {
        let known: Vec<_> = known.into_iter().collect();
        let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
        let advice = match nearest(name, known.iter().copied()) {
            Some(near) => format!("; did you mean {near:?}?"),
            None if known.is_empty() => String::new(),
            None => format!("; there are {}", known.join(", ")),
        };
        Self::new(key, format!("unknown {kind} {name:?}{advice}"))
    }
}

/// Return the error `message` at `key`.
pub fn refused<T>(
    key: impl Into<String>,
    message: impl Into<String>,
) -> Result<T, ValidationError> {
    Err(ValidationError::new(key, message))
}

/// Return the item named `name`, which is named at `key`; an error if it is not among the `known`
/// items of its `kind`.
pub fn find<'a, T>(
    known: &'a BTreeMap<String, T>,
    kind: &str,
    name: &str,
    key: impl Into<String>,
) -> Result<&'a T, ValidationError> {
    known.get(name).ok_or_else(|| ValidationError::unknown(key, kind, name, known.keys()))
}

/// Return the known name that is most similar to `name`; None if none is similar enough.
///
/// Up to a third of the letters may be wrong, missing or swapped; a wrong first letter counts
/// twice. A beginning of a name is similar enough. `millrace/errors.py` has the same rule.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near =
        known.into_iter().filter_map(|candidate| Some((distance(name, candidate)?, candidate)));
    near.min().map(|(_, candidate)| candidate)
}

/// Return the number of differences between two names; None if they are not similar enough.
fn distance(name: &str, candidate: &str) -> Option<usize> {
    let plain = |name: &str| name.to_lowercase().replace('_', "-");
    let (one, other) = (plain(name), plain(candidate));
    let (letters, others) = (one.chars().count(), other.chars().count());
    let begins_alike = one.chars().next() == other.chars().next();
    let wrong = strsim::osa_distance(&one, &other) + usize::from(!begins_alike);
    let is_beginning = one.starts_with(&other) || other.starts_with(&one);
    let is_meant = wrong <= letters.max(others) / LETTERS_FOR_ERROR;
    (is_meant || is_beginning && letters.min(others) >= LEAST_BEGINNING).then_some(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_is_one_that_may_be_meant() {
        for (name, known, near) in [
            ("foo", "food", Some("food")),
            ("idd", "id", Some("id")),
            ("serverz", "server", Some("server")),
            ("esrver", "server", Some("server")),
            ("cleints", "clients", Some("clients")),
            ("Table_Size", "table-size", Some("table-size")),
            ("thread", "threads", Some("threads")),
            ("warm", "warmup_s", Some("warmup_s")),
            ("rows", "raws", Some("raws")),
            ("test", "tls", None),
            ("select", "delete", None),
            ("sort", "port", None),
            ("id", "is", None),
            ("log", "login", None),
            ("read", "write", None),
        ] {
            assert_eq!(nearest(name, [known]), near, "{name}");
        }
    }

    #[test]
    fn nearest_of_several_has_the_fewest_wrong_letters() {
        let known = ["update-nonindex", "update-index"];
        assert_eq!(nearest("update-indx", known), Some("update-index"));
    }

    #[test]
    fn mistakes_suggest_the_nearest_name_or_list_all() {
        let known = ["bar", "food"];
        for (name, known, expected) in [
            ("foo", &known[..], r#"a.from: unknown generator "foo"; did you mean "food"?"#),
            ("x", &known, r#"a.from: unknown generator "x"; there are bar, food"#),
            ("x", &[], r#"a.from: unknown generator "x""#),
        ] {
            let mistake = ValidationError::unknown("a.from", "generator", name, known);
            assert_eq!(mistake.to_string(), expected);
        }
    }
}
