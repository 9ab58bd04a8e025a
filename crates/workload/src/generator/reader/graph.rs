//! Generators of social graphs: payloads, numbers of links, and the ends of long lists.

use super::{MAX_COLUMNS, Reader};
use crate::definition::{Number, Value};
use crate::generator::ValueSource;
use crate::tails::TailPart;
use crate::validation::ValidationError;
use datagen::Stream;
use datagen::link_degrees::{LinkDegrees, Population};
use datagen::motifs::{MotifOptions, Motifs};

/// Bytes of a payload, at most.
const MAX_PAYLOAD: i64 = 1 << 20;

/// Nodes and types of links, at most: a parent's number has 56 bits.
const MAX_NODES: i64 = 1 << 40;
const MAX_TYPES: i64 = 1 << 16;

impl Reader<'_> {
    pub(super) fn motifs(&self, name: &str, seed: u64) -> Result<ValueSource, ValidationError> {
        let generator = self.generator;
        let byte = |number: &Option<Number>, part: &str| {
            let key = self.at(part);
            let number = number.as_ref().ok_or_else(|| ValidationError::new(&key, "is missing"))?;
            let value = self.values.integer_in(number, 0..=255, &key)?;
            Ok(u8::try_from(value).expect("the range is checked"))
        };
        let (low, high) = (byte(&generator.low, "low")?, byte(&generator.high, "high")?);
        self.check_order(low.into(), high.into())?;
        let bytes = |number: Option<&Number>, part: &str, default: i64| {
            let default = Number::Integer(default);
            let number = number.unwrap_or(&default);
            let value = self.values.integer_in(number, 1..=MAX_PAYLOAD, &self.at(part))?;
            Ok(usize::try_from(value).expect("the range is checked"))
        };
        let positive = |number: Option<&Number>, part: &str, default: f64| {
            let default = Number::Float(default);
            let number = number.unwrap_or(&default);
            let value = self.values.real(number, &self.at(part))?;
            if value > 0.0 && value.is_finite() {
                return Ok(value);
            }
            Err(ValidationError::new(self.at(part), format!("{value} is not above 0")))
        };
        let options = MotifOptions {
            low,
            high,
            median: positive(generator.length.as_ref(), "length", 128.0)?,
            deviation: positive(generator.deviation.as_ref(), "deviation", 1.0)?,
            longest: bytes(generator.max_length.as_ref(), "max_length", MAX_PAYLOAD)?,
            uniqueness: self.percent(generator.uniqueness.as_ref(), "uniqueness")?,
            motif_length: bytes(generator.motif_length.as_ref(), "motif_length", 512)?,
        };
        let stream = Stream::named(seed, &format!("motifs/{name}"));
        Ok(ValueSource::Motifs(Motifs::new(options, stream)))
    }

    pub(super) fn links(&self) -> Result<ValueSource, ValidationError> {
        let generator = self.generator;
        let integer = |number: Option<&Number>, part: &str, default: Option<i64>, most: i64| {
            let key = self.at(part);
            let default = default.map(Number::Integer);
            let number = number.or(default.as_ref());
            let number = number.ok_or_else(|| ValidationError::new(&key, "is missing"))?;
            Ok(self.values.integer_in(number, 1..=most, &key)?.unsigned_abs())
        };
        let population = match self.text(generator.distribution.as_deref(), "distribution")? {
            None => Population::Of2011,
            Some(name) => match name.as_str() {
                "2011" => Population::Of2011,
                "newer" => Population::Newer,
                other => {
                    let key = self.at("distribution");
                    let known = ["2011", "newer"];
                    return Err(ValidationError::unknown(
                        key,
                        "distribution of links",
                        other,
                        known,
                    ));
                }
            },
        };
        let counts_twice = match self.text(generator.split.as_deref(), "split")?.as_deref() {
            None | Some("fixed") => false,
            Some("faithful") => true,
            Some(other) => {
                let known = ["faithful", "fixed"];
                return Err(ValidationError::unknown(self.at("split"), "split", other, known));
            }
        };
        let nodes = integer(generator.high.as_ref(), "high", None, MAX_NODES)?;
        let types = integer(generator.types.as_ref(), "types", Some(1), MAX_TYPES)?;
        let at_most = integer(generator.at_most.as_ref(), "at_most", Some(i64::MAX), i64::MAX)?;
        Ok(ValueSource::Links {
            degrees: LinkDegrees::new(nodes, population, types, at_most, counts_twice),
            from: generator.from.clone(),
        })
    }

    fn text(&self, text: Option<&str>, part: &str) -> Result<Option<String>, ValidationError> {
        text.map(|text| self.values.fill(text, &self.at(part))).transpose()
    }

    pub(super) fn tail(&self) -> Result<ValueSource, ValidationError> {
        let part = match (&self.generator.value, &self.generator.column) {
            (Some(Value::Text(name)), None) => match name.as_str() {
                "known" => TailPart::Known,
                "end" => TailPart::End,
                other => {
                    let known = ["known", "end"];
                    return Err(ValidationError::unknown(self.at("value"), "part", other, known));
                }
            },
            (None, Some(column)) => {
                let index = self.values.integer_in(column, 1..=MAX_COLUMNS, &self.at("column"))?;
                TailPart::Value(usize::try_from(index - 1).expect("the range is checked"))
            }
            _ => {
                let message = "expected either value (\"known\", \"end\") or column";
                return Err(ValidationError::new(&self.key, message));
            }
        };
        Ok(ValueSource::Tail { part, otherwise: self.generator.otherwise.clone() })
    }
}
