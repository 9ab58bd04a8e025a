//! The groups of background clients of a test.

use std::collections::BTreeMap;

use super::definition::{Definition, Value};
use super::values::Values;
use crate::validation::{ValidationError, find, refused};

/// The maximum number of clients of a group.
const MAX_CLIENTS: i64 = 10_000;

/// A group of clients that repeat a test in the background.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub test: String,
    pub clients: u32,
    /// Transactions per second of the whole group; None if it has no rate limit.
    pub rate: Option<f64>,
}

/// Return the background groups of `test`, in their order.
pub fn groups(
    definition: &Definition,
    defaults: &BTreeMap<String, Value>,
    values: &BTreeMap<String, Value>,
    test: &str,
    clients: u32,
) -> Result<Vec<Group>, ValidationError> {
    let written = &definition.tests[test];
    let values = Values::new(defaults, &written.values, values)
        .with("clients", Value::Integer(i64::from(clients)));
    let mut groups: Vec<Group> = Vec::new();
    for (position, asked) in written.background_clients.iter().enumerate() {
        let key = format!("tests.{test}.background_clients[{position}]");
        let test_key = format!("{key}.test");
        let of_group = find(&definition.tests, "test", &asked.test, &test_key)?;
        if !of_group.background_clients.is_empty() {
            return refused(test_key, format!("{:?} has background clients itself", asked.test));
        }
        if groups.iter().any(|group| group.test == asked.test) {
            return refused(test_key, format!("{:?} is there twice", asked.test));
        }
        let clients_key = format!("{key}.clients");
        let range = 1..=MAX_CLIENTS;
        let own = asked.clients.as_ref();
        let clients = values.integer_in_or(own, clients.into(), range, &clients_key)?;
        let rate_key = format!("{key}.rate");
        let rate = asked.rate.as_ref().map(|rate| values.real(rate, &rate_key)).transpose()?;
        if let Some(rate) = rate
            && !(rate.is_finite() && rate > 0.0)
        {
            let message = format!("{rate} is not a rate, expected transactions a second above 0");
            return refused(rate_key, message);
        }
        groups.push(Group { test: asked.test.clone(), clients, rate });
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn groups_of(asked: &Json) -> Result<Vec<Group>, String> {
        let steps = json!([{"statements": ["s"]}]);
        let definition = serde_json::from_value(json!({
            "statements": {"s": {"sql": "SELECT 1"}},
            "tests": {
                "read": {"title": "", "steps": steps, "values": {"rows_s": 100}, "background_clients": asked},
                "write": {"title": "", "steps": steps},
                "pair": {"title": "", "steps": steps, "background_clients": [{"test": "write"}]},
            },
        }))
        .unwrap();
        let defaults = BTreeMap::from([("rows_s".to_owned(), Value::Integer(1))]);
        let found = groups(&definition, &defaults, &BTreeMap::new(), "read", 4);
        found.map_err(|mistake| mistake.to_string())
    }

    #[test]
    fn clients_and_rates_are_arithmetic_over_values_of_the_test() {
        let group = |clients, rate| Group { test: "write".to_owned(), clients, rate };
        assert_eq!(groups_of(&json!([])), Ok(vec![]));
        assert_eq!(groups_of(&json!([{"test": "write"}])), Ok(vec![group(4, None)]));
        let paced = json!([{"test": "write", "clients": 2, "rate": "{rows_s} * {clients} / 50"}]);
        assert_eq!(groups_of(&paced), Ok(vec![group(2, Some(8.0))]));
    }

    #[test]
    fn mistakes_name_their_key() {
        for (asked, expected) in [
            (json!([{"test": "wrote"}]), "[0].test: unknown test \"wrote\""),
            (json!([{"test": "pair"}]), "[0].test: \"pair\" has background clients"),
            (json!([{"test": "write"}, {"test": "write"}]), "[1].test: \"write\" is there twice"),
            (json!([{"test": "write", "clients": 0}]), "[0].clients: 0 is not"),
            (json!([{"test": "write", "rate": 0}]), "[0].rate: 0 is not a rate"),
        ] {
            let found = groups_of(&asked).unwrap_err();
            let place = found.strip_prefix("tests.read.background_clients").unwrap();
            assert!(place.starts_with(expected), "{found}");
        }
    }
}
