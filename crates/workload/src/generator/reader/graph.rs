//! Generators of social graphs: payloads, numbers of links, and the ends of long lists.

use super::{MAX_COLUMNS, Reader};
use crate::definition::{self, Links, Number, TailValue};
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
    pub(super) fn motifs(
        &self,
        written: &definition::Motifs,
        name: &str,
        seed: u64,
    ) -> Result<ValueSource, ValidationError> {
        let byte = |number: &Number, part: &str| {
            let value = self.values.integer_in(number, 0..=255, &self.at(part))?;
            Ok(u8::try_from(value).expect("the range is checked"))
        };
        let (low, high) = (byte(&written.low, "low")?, byte(&written.high, "high")?);
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
            median: positive(written.length.as_ref(), "length", 128.0)?,
            deviation: positive(written.deviation.as_ref(), "deviation", 1.0)?,
            longest: bytes(written.max_length.as_ref(), "max_length", MAX_PAYLOAD)?,
            uniqueness: self.percent(&written.uniqueness, "uniqueness")?,
            motif_length: bytes(written.motif_length.as_ref(), "motif_length", 512)?,
        };
        let stream = Stream::named(seed, &format!("motifs/{name}"));
        Ok(ValueSource::Motifs(Motifs::new(options, stream)))
    }

    pub(super) fn links(&self, links: &Links) -> Result<ValueSource, ValidationError> {
        let population = match self.text(links.distribution.as_deref(), "distribution")?.as_deref()
        {
            None | Some("2011") => Population::Of2011,
            Some("newer") => Population::Newer,
            Some(other) => {
                let (key, known) = (self.at("distribution"), ["2011", "newer"]);
                return Err(ValidationError::unknown(key, "distribution of links", other, known));
            }
        };
        let counts_twice = match self.text(links.split.as_deref(), "split")?.as_deref() {
            None | Some("fixed") => false,
            Some("faithful") => true,
            Some(other) => {
                let known = ["faithful", "fixed"];
                return Err(ValidationError::unknown(self.at("split"), "split", other, known));
            }
        };
        let counted = |number: &Number, part: &str, most: i64| {
            Ok(self.values.integer_in(number, 1..=most, &self.at(part))?.unsigned_abs())
        };
        let nodes = counted(&links.high, "high", MAX_NODES)?;
        let types = links.types.as_ref().unwrap_or(&Number::Integer(1));
        let types = counted(types, "types", MAX_TYPES)?;
        let at_most = links.at_most.as_ref().unwrap_or(&Number::Integer(i64::MAX));
        let at_most = counted(at_most, "at_most", i64::MAX)?;
        Ok(ValueSource::Links {
            degrees: LinkDegrees::new(nodes, population, types, at_most, counts_twice),
            from: links.from.clone(),
        })
    }

    fn text(&self, text: Option<&str>, part: &str) -> Result<Option<String>, ValidationError> {
        text.map(|text| self.values.fill(text, &self.at(part))).transpose()
    }

    pub(super) fn tail_part(
        &self,
        value: Option<TailValue>,
        column: Option<&Number>,
    ) -> Result<TailPart, ValidationError> {
        match (value, column) {
            (Some(value), None) => Ok(TailPart::Value(value)),
            (None, Some(column)) => {
                let index = self.values.integer_in(column, 1..=MAX_COLUMNS, &self.at("column"))?;
                let index = usize::try_from(index - 1).expect("the range is checked");
                Ok(TailPart::Column(index))
            }
            _ => {
                let message = "expected either value (\"known\", \"end\") or column";
                Err(ValidationError::new(&self.key, message))
            }
        }
    }
}
