//! Generators as they are written, checked on their way to what makes values.

use std::ops::RangeInclusive;

use super::{AnswerPart, Form, ValueSource};
use crate::definition::{Generator, GeneratorKind, Number, Value};
use crate::shape;
use crate::validation::ValidationError;
use crate::values::Values;
use datagen::Stream;
use datagen::bijection::Bijection;
use datagen::distribution::Integers;

/// Characters of a group of digits or of a text, and groups.
const LENGTHS: RangeInclusive<i64> = 1..=1 << 16;

/// Columns of a row, at most.
const MAX_COLUMNS: i64 = 4096;

/// Digits after a decimal's point, at most; more are not exact in a double.
const MAX_SCALE: i64 = 15;

/// A generator on its way to what makes values.
pub struct Reader<'a> {
    pub key: String,
    pub generator: &'a Generator,
    pub values: &'a Values,
}

impl Reader<'_> {
    pub fn at(&self, part: &str) -> String {
        format!("{}.{part}", self.key)
    }

    /// Compile the source of its values. A permutation's order depends on `seed`, and it covers `tables`.
    pub fn value_source(
        &self,
        name: &str,
        seed: u64,
        tables: u32,
    ) -> Result<ValueSource, ValidationError> {
        let generator = self.generator;
        Ok(match generator.kind {
            GeneratorKind::Integer => self.integer()?,
            GeneratorKind::Decimal => self.decimal()?,
            GeneratorKind::Digits => ValueSource::Digits {
                groups: self.length(generator.groups.as_ref(), "groups", Some(1))?,
                length: self.length(generator.length.as_ref(), "length", None)?,
            },
            GeneratorKind::Text => {
                let shortest = self.length(generator.length.as_ref(), "length", None)?;
                let longest =
                    self.length(generator.max_length.as_ref(), "max_length", Some(shortest))?;
                if longest < shortest {
                    let message = format!("{longest} is less than length, {shortest}");
                    return Err(ValidationError::new(self.at("max_length"), message));
                }
                ValueSource::Letters { shortest, longest }
            }
            GeneratorKind::Constant => self.constant()?,
            GeneratorKind::Derived => ValueSource::Derived {
                from: self.from()?,
                times: self.integer_or(generator.times.as_ref(), "times", 1)?,
                plus: self.integer_or(generator.plus.as_ref(), "plus", 0)?,
            },
            GeneratorKind::Answer => self.answer()?,
            GeneratorKind::Sequence => ValueSource::Sequence {
                first: self.integer_or(generator.first.as_ref(), "first", 1)?,
                step: self.integer_or(generator.step.as_ref(), "step", 1)?,
            },
            GeneratorKind::Series => {
                if generator.count.is_none() {
                    return Err(ValidationError::new(self.at("count"), "is missing"));
                }
                ValueSource::Series {
                    first: self.integer_or(generator.first.as_ref(), "first", 1)?,
                    step: self.integer_or(generator.step.as_ref(), "step", 1)?,
                }
            }
            GeneratorKind::Permutation => {
                let (low, high) = self.range()?;
                let tables = u64::from(tables);
                if tables == 0 {
                    let message = "is permutation, which goes through the rows of the test's \
                                   tables, and there are none; sequence or integer need no table";
                    return Err(ValidationError::new(self.at("kind"), message));
                }
                let span = (high.abs_diff(low).checked_add(1))
                    .and_then(|span| span.checked_mul(tables))
                    .ok_or_else(|| {
                        ValidationError::new(self.at("high"), "the range is too large")
                    })?;
                let stream = Stream::named(seed, &format!("permutation/{name}"));
                ValueSource::Permutation { low, order: Bijection::new(span, stream), tables }
            }
        })
    }

    fn from(&self) -> Result<String, ValidationError> {
        let missing = || ValidationError::new(self.at("from"), "is missing");
        self.generator.from.clone().ok_or_else(missing)
    }

    fn answer(&self) -> Result<ValueSource, ValidationError> {
        let part = match (&self.generator.column, &self.generator.value) {
            (Some(column), None) => {
                let column = self.values.integer_in(column, 1..=MAX_COLUMNS, &self.at("column"))?;
                AnswerPart::Column(usize::try_from(column - 1).expect("the range is checked"))
            }
            (None, Some(Value::Text(name))) => match name.as_str() {
                "rows" => AnswerPart::Rows,
                "affected_rows" => AnswerPart::AffectedRows,
                "last_insert_id" => AnswerPart::LastInsertId,
                other => {
                    let known = ["rows", "affected_rows", "last_insert_id"];
                    return Err(ValidationError::unknown(
                        self.at("value"),
                        "part of an answer",
                        other,
                        known,
                    ));
                }
            },
            _ => {
                let message = "expected either value, such as \"affected_rows\", or column";
                return Err(ValidationError::new(&self.key, message));
            }
        };
        Ok(ValueSource::Answer {
            from: self.from()?,
            part,
            default: self.integer_or(self.generator.default.as_ref(), "default", 0)?,
        })
    }

    fn integer(&self) -> Result<ValueSource, ValidationError> {
        let (low, high) = self.range()?;
        let shape = shape::compile(self.generator, self.values, &self.key)?;
        match self.generator.segment.as_deref() {
            None => Ok(ValueSource::Integer(Integers::new(&shape, low, high))),
            Some("client") => Ok(ValueSource::Segment { shape, low, high }),
            Some(other) => Err(ValidationError::new(
                self.at("segment"),
                format!("{other:?} is not known, expected \"client\""),
            )),
        }
    }

    fn decimal(&self) -> Result<ValueSource, ValidationError> {
        let scale = self.generator.scale.as_ref().unwrap_or(&Number::Integer(0));
        let scale = self.values.integer_in(scale, 0..=MAX_SCALE, &self.at("scale"))?;
        let unit = 10f64.powi(i32::try_from(scale).expect("the range is checked"));
        let units = |number: &Option<Number>, part: &str| {
            let number =
                number.as_ref().ok_or_else(|| ValidationError::new(self.at(part), "is missing"))?;
            let value = (self.values.real(number, &self.at(part))? * unit).round();
            if value.abs() < 9.0e15 {
                #[allow(clippy::cast_possible_truncation)] // whole and below 2^53
                Ok(value as i64)
            } else {
                Err(ValidationError::new(self.at(part), "has more than 15 digits"))
            }
        };
        let (low, high) =
            (units(&self.generator.low, "low")?, units(&self.generator.high, "high")?);
        self.check_order(low, high)?;
        let shape = shape::compile(self.generator, self.values, &self.key)?;
        Ok(ValueSource::Decimal {
            units: Integers::new(&shape, low, high),
            scale: u32::try_from(scale).expect("the range is checked"),
        })
    }

    fn constant(&self) -> Result<ValueSource, ValidationError> {
        let text = match &self.generator.value {
            None => return Err(ValidationError::new(self.at("value"), "is missing")),
            Some(Value::Integer(integer)) => return Ok(ValueSource::ConstantInteger(*integer)),
            Some(Value::Boolean(boolean)) => {
                return Ok(ValueSource::ConstantInteger(i64::from(*boolean)));
            }
            Some(Value::Float(float)) if float.is_finite() => {
                return Ok(ValueSource::ConstantText {
                    text: float.to_string().into_bytes().into(),
                    form: Form::Decimal,
                });
            }
            Some(Value::Float(float)) => {
                return Err(ValidationError::new(
                    self.at("value"),
                    format!("{float} is no number"),
                ));
            }
            Some(Value::Text(text)) => self.values.fill(text, &self.at("value"))?,
        };
        let is_plain = |byte| (b' '..=b'~').contains(&byte) && byte != b'\'' && byte != b'\\';
        Ok(ValueSource::ConstantText {
            form: if text.bytes().all(is_plain) { Form::Plain } else { Form::Text },
            text: text.into_bytes().into(),
        })
    }

    fn range(&self) -> Result<(i64, i64), ValidationError> {
        let end = |number: &Option<Number>, part: &str| {
            let number =
                number.as_ref().ok_or_else(|| ValidationError::new(self.at(part), "is missing"))?;
            self.values.integer(number, &self.at(part))
        };
        let (low, high) = (end(&self.generator.low, "low")?, end(&self.generator.high, "high")?);
        self.check_order(low, high)?;
        Ok((low, high))
    }

    fn check_order(&self, low: i64, high: i64) -> Result<(), ValidationError> {
        if low <= high {
            return Ok(());
        }
        Err(ValidationError::new(self.at("high"), format!("{high} is less than low, {low}")))
    }

    fn length(
        &self,
        number: Option<&Number>,
        part: &str,
        default: Option<usize>,
    ) -> Result<usize, ValidationError> {
        match (number, default) {
            (Some(number), _) => {
                let length = self.values.integer_in(number, LENGTHS, &self.at(part))?;
                Ok(usize::try_from(length).expect("the range is checked"))
            }
            (None, Some(default)) => Ok(default),
            (None, None) => Err(ValidationError::new(self.at(part), "is missing")),
        }
    }

    fn integer_or(
        &self,
        number: Option<&Number>,
        part: &str,
        default: i64,
    ) -> Result<i64, ValidationError> {
        number.map_or(Ok(default), |number| self.values.integer(number, &self.at(part)))
    }

    /// Refuse keys that the kind does not look at: they are a mistake, not a decoration.
    pub fn refuse_what_has_no_meaning(&self) -> Result<(), ValidationError> {
        const RANGE: [&str; 8] =
            ["low", "high", "distribution", "exponent", "h", "mean", "deviation", "share"];
        let known: &[&str] = match self.generator.kind {
            GeneratorKind::Integer => &["central", "segment", "count"],
            GeneratorKind::Decimal => &["central", "scale", "count"],
            GeneratorKind::Digits => &["groups", "length", "count"],
            GeneratorKind::Text => &["length", "max_length", "count"],
            GeneratorKind::Constant => &["value"],
            GeneratorKind::Derived => &["from", "plus", "times"],
            GeneratorKind::Answer => &["from", "value", "column", "default"],
            GeneratorKind::Sequence => &["first", "step"],
            GeneratorKind::Series => &["first", "step", "count"],
            GeneratorKind::Permutation => &["low", "high"],
        };
        let has_range =
            matches!(self.generator.kind, GeneratorKind::Integer | GeneratorKind::Decimal);
        for part in given(self.generator) {
            let has_meaning = known.contains(&part) || has_range && RANGE.contains(&part);
            if !has_meaning {
                let kind = format!("{:?}", self.generator.kind).to_lowercase();
                let message = format!("has no meaning where the kind is {kind}");
                return Err(ValidationError::new(self.at(part), message));
            }
        }
        Ok(())
    }
}

/// Return the keys that a generator has.
fn given(generator: &Generator) -> impl Iterator<Item = &'static str> {
    [
        ("low", generator.low.is_some()),
        ("high", generator.high.is_some()),
        ("distribution", generator.distribution.is_some()),
        ("exponent", generator.exponent.is_some()),
        ("h", generator.h.is_some()),
        ("mean", generator.mean.is_some()),
        ("deviation", generator.deviation.is_some()),
        ("share", generator.share.is_some()),
        ("central", generator.central.is_some()),
        ("segment", generator.segment.is_some()),
        ("groups", generator.groups.is_some()),
        ("length", generator.length.is_some()),
        ("max_length", generator.max_length.is_some()),
        ("scale", generator.scale.is_some()),
        ("value", generator.value.is_some()),
        ("column", generator.column.is_some()),
        ("default", generator.default.is_some()),
        ("from", generator.from.is_some()),
        ("plus", generator.plus.is_some()),
        ("times", generator.times.is_some()),
        ("first", generator.first.is_some()),
        ("step", generator.step.is_some()),
        ("count", generator.count.is_some()),
    ]
    .into_iter()
    .filter_map(|(part, is_given)| is_given.then_some(part))
}
