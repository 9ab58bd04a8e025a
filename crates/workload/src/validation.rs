//! Errors in what was written for this program, each with its key.

use thiserror::Error;

/// The least Jaro similarity of two names at which one may be meant by the other.
const ALIKE: f64 = 0.7;

/// A mistake in a specification or in a workload.
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

    /// `name` at `key` should be one of the `known` things of its `kind`, and is not.
    pub fn unknown<'a>(
        key: impl Into<String>,
        kind: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let advice = match nearest(name, known.iter().copied()) {
            Some(near) => format!("; did you mean {near:?}?"),
            None if known.is_empty() => String::new(),
            None => format!("; there are {}", known.join(", ")),
        };
        Self::new(key, format!("there is no {kind} {name:?}{advice}"))
    }
}

/// Return the known name that `name` is most like, if it is much like one.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro(name, candidate), candidate))
        .filter(|(alike, _)| *alike > ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_names_its_key_and_what_was_meant() {
        let mistake =
            ValidationError::unknown("generators.id.from", "generator", "foo", ["bar", "food"]);
        assert_eq!(
            mistake.to_string(),
            r#"generators.id.from: there is no generator "foo"; did you mean "food"?"#
        );
    }

    #[test]
    fn names_that_are_unlike_are_listed() {
        let mistake = ValidationError::unknown("a", "generator", "x", ["bar", "food"]);
        assert_eq!(mistake.message, r#"there is no generator "x"; there are bar, food"#);
        let mistake = ValidationError::unknown("a", "generator", "x", []);
        assert_eq!(mistake.message, r#"there is no generator "x""#);
    }
}
