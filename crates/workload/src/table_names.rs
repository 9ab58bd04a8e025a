//! The tables that a test asks.

use super::definition::{Definition, Number, TableSet, Test, Value};
use super::values::Values;
use crate::validation::ValidationError;

/// Tables of a set, at most.
const MAX_TABLES: i64 = 1_000_000;

/// The tables that statements ask, as they are named.
pub struct Tables {
    pub names: Vec<String>,
    /// Each client asks one of them.
    pub by_client: bool,
}

impl Tables {
    pub fn count(&self) -> u32 {
        u32::try_from(self.names.len()).expect("their number is checked")
    }

    /// Return the number of tables one client asks.
    pub fn reachable(&self) -> usize {
        if self.by_client { 1 } else { self.names.len().max(1) }
    }
}

/// Return the tables of one test.
pub fn of_test(
    definition: &Definition,
    test: &Test,
    values: &Values,
    key: &str,
) -> Result<Tables, ValidationError> {
    let by_client = match test.table.as_deref() {
        None | Some("uniform") => false,
        Some("client") => true,
        Some(other) => {
            let known = ["uniform", "client"];
            return Err(ValidationError::unknown(
                format!("{key}.table"),
                "choice of tables",
                other,
                known,
            ));
        }
    };
    let known = || definition.tables.keys().map(String::as_str);
    let set_key = format!("{key}.tables");
    let found = match (&test.tables, definition.tables.len()) {
        (Some(name), _) => Some(
            definition
                .tables
                .get_key_value(name)
                .ok_or_else(|| ValidationError::unknown(set_key, "table set", name, known()))?,
        ),
        (None, 0 | 1) => definition.tables.first_key_value(),
        (None, _) => {
            let message =
                format!("is missing; there are {}", known().collect::<Vec<_>>().join(", "));
            return Err(ValidationError::new(set_key, message));
        }
    };
    let names = match found {
        Some((name, set)) => table_names(set, values, &format!("tables.{name}"))?,
        None => Vec::new(),
    };
    if by_client && names.is_empty() {
        return Err(ValidationError::new(
            format!("{key}.table"),
            "is \"client\", but there are no tables",
        ));
    }
    Ok(Tables { names, by_client })
}

/// Return the number of tables of the set that lies at `key`.
pub fn count(set: &TableSet, values: &Values, key: &str) -> Result<i64, ValidationError> {
    let one = Number::Integer(1);
    let count = set.count.as_ref().unwrap_or(&one);
    values.integer_in(count, 1..=MAX_TABLES, &format!("{key}.count"))
}

fn table_names(set: &TableSet, values: &Values, key: &str) -> Result<Vec<String>, ValidationError> {
    let count = count(set, values, key)?;
    let key = format!("{key}.name");
    (1..=count).map(|n| values.with("n", Value::Integer(n)).fill(&set.name, &key)).collect()
}
