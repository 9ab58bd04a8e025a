//! Values by name (parameters, levels and built-in names), and the texts and numbers that use them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use super::arithmetic;
use super::definition::{FixedOrByLevel, Number, Value};
use crate::validation::{ValidationError, find, refused};

/// The level that stands for all levels that are not listed.
const DEFAULT: &str = "default";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    values: BTreeMap<String, Value>,
}

impl Values {
    /// Merge values: explicit values override those of a test, which override the defaults.
    pub fn new(
        defaults: &BTreeMap<String, Value>,
        of_test: &BTreeMap<String, Value>,
        explicit: &BTreeMap<String, Value>,
    ) -> Self {
        let all = [defaults, of_test, explicit].into_iter().flatten();
        Self { values: all.map(|(name, value)| (name.clone(), value.clone())).collect() }
    }

    /// Return these values and one more, which overrides a value with the same name.
    #[must_use]
    pub fn with(&self, name: &str, value: Value) -> Self {
        let mut values = self.values.clone();
        values.insert(name.to_owned(), value);
        Self { values }
    }

    /// Return these values and those of a table: its number within its set, and its name.
    #[must_use]
    pub fn of_table(&self, n: i64, name: &str) -> Self {
        self.with("n", Value::Integer(n)).with("table", Value::Text(name.to_owned()))
    }

    /// Return `text` with its placeholders filled. Braces that contain no name are left unchanged.
    pub fn fill(&self, text: &str, key: &str) -> Result<String, ValidationError> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, name, after)) = placeholder(rest) {
            filled.push_str(before);
            filled.push_str(&self.get(name, key)?.to_string());
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    /// Return an integer, which is written as a number or as arithmetic.
    pub fn integer(&self, number: &Number, key: &str) -> Result<i64, ValidationError> {
        match number {
            Number::Integer(integer) => Ok(*integer),
            Number::By { by, levels } => self.integer(self.of_level(by, levels, key)?, key),
            Number::Float(float) => whole(*float)
                .ok_or_else(|| ValidationError::new(key, format!("{float} is not a whole number"))),
            Number::Expression(expression) => {
                arithmetic::evaluate(expression, &|name| self.operand(name, key)).map_err(|why| {
                    ValidationError::new(key, format!("{expression:?} has no value: {why}"))
                })
            }
        }
    }

    /// Return an integer of a range; the range must fit into the type.
    pub fn integer_in<T: TryFrom<i64>>(
        &self,
        number: &Number,
        range: RangeInclusive<i64>,
        key: &str,
    ) -> Result<T, ValidationError> {
        let value = self.integer(number, key)?;
        if range.contains(&value) {
            return Ok(T::try_from(value).ok().expect("the range fits into the type"));
        }
        let (low, high) = range.into_inner();
        let wanted = match high {
            i64::MAX => format!("{low} or more"),
            _ => format!("{low} to {high}"),
        };
        let source = match number {
            Number::Expression(expression) => format!(" ({expression})"),
            _ => String::new(),
        };
        refused(key, format!("{value}{source} is not {wanted}"))
    }

    /// Return an integer of a range, or the default without a number.
    pub fn integer_in_or<T: TryFrom<i64>>(
        &self,
        number: Option<&Number>,
        default: i64,
        range: RangeInclusive<i64>,
        key: &str,
    ) -> Result<T, ValidationError> {
        self.integer_in(number.unwrap_or(&Number::Integer(default)), range, key)
    }

    /// Return a real number, which is written as a number, as a single value (`"{h}"`), or as
    /// integer arithmetic.
    pub fn real(&self, number: &Number, key: &str) -> Result<f64, ValidationError> {
        let real = match number {
            Number::Float(float) => Some(*float),
            Number::By { by, levels } => return self.real(self.of_level(by, levels, key)?, key),
            Number::Integer(_) => None,
            Number::Expression(expression) => match placeholder(expression.trim()) {
                Some(("", name, "")) => match self.get(name, key)? {
                    Value::Float(float) => Some(*float),
                    Value::Text(text) => text.trim().parse().ok(),
                    _ => None,
                },
                _ => None,
            },
        };
        real.map_or_else(|| self.integer(number, key).map(exact), Ok)
    }

    /// Return the alternative that a value selects: by its level, ignoring case, or else `default`.
    pub fn choose<'a, T>(
        &self,
        chosen: &'a FixedOrByLevel<T>,
        key: &str,
    ) -> Result<&'a T, ValidationError> {
        match chosen {
            FixedOrByLevel::Always(always) => Ok(always),
            FixedOrByLevel::By { by, levels } => self.of_level(by, levels, key),
        }
    }

    fn of_level<'a, T>(
        &self,
        by: &str,
        levels: &'a BTreeMap<String, T>,
        key: &str,
    ) -> Result<&'a T, ValidationError> {
        let level = self.get(by, &format!("{key}.by"))?.to_string();
        levels
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(&level))
            .map(|(_, one)| one)
            .or_else(|| levels.get(DEFAULT))
            .ok_or_else(|| {
                let names = levels.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                let what = format!("there is nothing for {by} = {level:?}, and no default");
                ValidationError::new(key, format!("{what}; there are {names}"))
            })
    }

    pub fn get(&self, name: &str, key: &str) -> Result<&Value, ValidationError> {
        find(&self.values, "value", name, key)
    }

    fn operand(&self, name: &str, key: &str) -> Result<i128, String> {
        let value = self.get(name, key).map_err(|mistake| mistake.message)?;
        let integer = match value {
            Value::Integer(integer) => Some(*integer),
            Value::Float(float) => whole(*float),
            Value::Text(text) => text.trim().parse().ok(),
            Value::Boolean(_) => None,
        };
        integer
            .map(i128::from)
            .ok_or_else(|| format!("{name} is {:?}, not a whole number", value.to_string()))
    }
}

/// The text of the value inside a statement.
impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(boolean) => write!(out, "{boolean}"),
            Self::Integer(integer) => write!(out, "{integer}"),
            Self::Float(float) => write!(out, "{float}"),
            Self::Text(text) => out.write_str(text),
        }
    }
}

/// Return the text before the first `{name}` of a text, the name, and the text after it.
fn placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let open = from + text[from..].find('{')?;
        let inside = &text[open + 1..];
        let length =
            inside.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inside.len());
        if length > 0 && inside[length..].starts_with('}') {
            return Some((&text[..open], &inside[..length], &inside[length + 1..]));
        }
        from = open + 1;
    }
}

/// Return whether a text contains `{name}`.
pub fn mentions(text: &str, name: &str) -> bool {
    let mut rest = text;
    while let Some((_, found, after)) = placeholder(rest) {
        if found == name {
            return true;
        }
        rest = after;
    }
    false
}

#[allow(clippy::cast_possible_truncation)] // checked to be an integer within bounds
fn whole(float: f64) -> Option<i64> {
    (float.fract() == 0.0 && float.abs() < 9.0e18).then_some(float as i64)
}

fn exact(integer: i64) -> f64 {
    integer as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(pairs: &[(&str, Value)]) -> BTreeMap<String, Value> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    fn some() -> Values {
        let defaults = values(&[
            ("table_size", Value::Integer(10_000)),
            ("range_size", Value::Integer(100)),
            ("engine", Value::Text("InnoDB".to_owned())),
            ("h", Value::Float(0.2)),
            ("tls", Value::Boolean(false)),
            ("clients", Value::Text("8".to_owned())),
        ]);
        let of_test =
            values(&[("range_size", Value::Integer(10)), ("table_size", Value::Integer(1))]);
        let explicit = values(&[("table_size", Value::Integer(500))]);
        Values::new(&defaults, &of_test, &explicit)
    }

    fn expression(text: &str) -> Number {
        Number::Expression(text.to_owned())
    }

    #[test]
    fn explicit_values_win_over_a_tests_and_these_over_defaults() {
        let text = "{engine} {table_size} {range_size} {h} {tls}";
        assert_eq!(some().fill(text, "x").unwrap(), "InnoDB 500 10 0.2 false");
    }

    #[test]
    fn placeholders_are_filled_once_and_other_braces_stay() {
        let values = some().with("a", Value::Text("{engine}".to_owned()));
        let filled = values.fill("JSON '{\"a\": {}}' {engine}{{a}", "x").unwrap();
        assert_eq!(filled, "JSON '{\"a\": {}}' InnoDB{{engine}");
        let mistake = some().fill("{table_sise}", "generators.id.high").unwrap_err().to_string();
        let expected =
            "generators.id.high: unknown value \"table_sise\"; did you mean \"table_size\"?";
        assert_eq!(mistake, expected);
    }

    #[test]
    fn whole_numbers() {
        let integer = |number| some().integer(&number, "k").map_err(|m| m.to_string());
        assert_eq!(integer(expression("{table_size}/2+1")), Ok(251));
        assert_eq!(integer(expression("{clients}*2")), Ok(16));
        assert_eq!(integer(Number::Float(3.0)), Ok(3));
        assert_eq!(integer(Number::Float(0.5)), Err("k: 0.5 is not a whole number".to_owned()));
        assert_eq!(
            integer(expression("{engine}+1")),
            Err(r#"k: "{engine}+1" has no value: engine is "InnoDB", not a whole number"#
                .to_owned())
        );
        let range = some().integer_in::<i64>(&expression("{range_size}-11"), 0..=i64::MAX, "k");
        assert_eq!(range.unwrap_err().to_string(), "k: -1 ({range_size}-11) is not 0 or more");
    }

    #[test]
    fn numbers_with_a_fraction() {
        let real = |number| some().real(&number, "k").unwrap();
        let numbers = [
            expression("{h}"),
            expression(" {table_size} "),
            expression("{table_size}/3"),
            Number::Float(1.5),
        ];
        assert_eq!(format!("{:?}", numbers.map(real)), "[0.2, 500.0, 166.0, 1.5]");
        assert!(some().real(&expression("{tls}"), "k").is_err());
    }

    #[test]
    fn a_level_may_choose_a_number() {
        let levels = [("8", expression("{table_size}/2")), ("default", Number::Float(0.5))];
        let chosen = |by: &str| Number::By {
            by: by.to_owned(),
            levels: levels.iter().map(|(name, one)| ((*name).to_owned(), one.clone())).collect(),
        };
        assert_eq!(some().integer(&chosen("clients"), "k"), Ok(250));
        assert_eq!(some().real(&chosen("engine"), "k"), Ok(0.5));
        let message = some().integer(&chosen("engine"), "k").unwrap_err().to_string();
        assert_eq!(message, "k: 0.5 is not a whole number");
    }

    #[test]
    fn levels_choose() {
        let chosen = |by: &str, levels: &[(&str, i32)]| FixedOrByLevel::By {
            by: by.to_owned(),
            levels: levels.iter().map(|(name, one)| ((*name).to_owned(), *one)).collect(),
        };
        let of = |chosen: FixedOrByLevel<i32>| some().choose(&chosen, "x.sql").copied();
        assert_eq!(of(FixedOrByLevel::Always(7)), Ok(7));
        assert_eq!(of(chosen("engine", &[("innodb", 1), ("default", 2)])), Ok(1));
        assert_eq!(of(chosen("tls", &[("true", 1), ("default", 2)])), Ok(2));
        assert_eq!(
            of(chosen("engine", &[("MEMORY", 1)])).unwrap_err().to_string(),
            r#"x.sql: there is nothing for engine = "InnoDB", and no default; there are MEMORY"#
        );
        assert!(
            of(chosen("motor", &[]))
                .unwrap_err()
                .to_string()
                .starts_with(r#"x.sql.by: unknown value "motor""#)
        );
    }

    proptest! {
        #[test]
        fn placeholders_are_filled_wherever_they_stand(
            parts in prop::collection::vec(("[^{}]{0,10}", prop::bool::ANY), 0..8)
        ) {
            let join = |value: &str| -> String {
                let pieces = parts.iter().map(|(text, filled)| [text.as_str(), if *filled { value } else { "{ }" }]);
                pieces.flatten().collect()
            };
            prop_assert_eq!(some().fill(&join("{engine}"), "x").unwrap(), join("InnoDB"));
            let mentioned = parts.iter().any(|(_, filled)| *filled);
            prop_assert_eq!(mentions(&join("{engine}"), "engine"), mentioned);
        }
    }
}
