//! Reading JSON so that a mistake names its key from the top of the specification.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use workload::validation::{ValidationError, nearest};

/// Read the whole specification.
pub fn whole<T: DeserializeOwned>(json: &str) -> Result<T, ValidationError> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let key = match error.path().to_string() {
            path if path == "." || path == "?" => "the specification".to_owned(),
            path => path,
        };
        let message = error.inner().to_string();
        // Where the text is JSON, the key has a line of its own.
        if error.inner().is_data() {
            return mistake(&key, without_position(&message));
        }
        ValidationError::new(key, message)
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
        // The position is one within the part: it would mislead.
        let message = error.inner().to_string();
        mistake(&key, without_position(&message))
    })
}

/// A part that was kept before it was read names its own key first. Where a name is unknown, the one that
/// is meant may be among those that the message lists.
fn mistake(key: &str, message: &str) -> ValidationError {
    if let Some((inner, message)) = message.split_once(": ")
        && !inner.contains(' ')
    {
        return mistake(&format!("{key}.{inner}"), message);
    }
    let mut names = message.split('`').skip(1).step_by(2);
    let near = names.next().filter(|_| message.starts_with("unknown "));
    match near.and_then(|unknown| nearest(unknown, names)) {
        Some(near) => ValidationError::new(key, format!("{message}; did you mean `{near}`?")),
        None => ValidationError::new(key, message),
    }
}

fn without_position(message: &str) -> &str {
    message.rsplit_once(" at line ").map_or(message, |m| m.0)
}

/// Read a number of seconds that may be 0, or none.
pub fn zero_or_more(seconds: f64, key: &str) -> Result<Duration, ValidationError> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| ValidationError::new(key, format!("{seconds} is no time, expected seconds")))
}

/// Read a number of seconds above 0.
pub fn above_zero(seconds: f64, key: &str) -> Result<Duration, ValidationError> {
    Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero()).ok_or_else(|| {
        ValidationError::new(key, format!("{seconds} is no time, expected seconds above 0"))
    })
}
