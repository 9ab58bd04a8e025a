//! Generators as they are written, checked on their way to what makes values.

use std::ops::RangeInclusive;

use super::{Form, MAX_PARAMETERS, MoreValues, ValueSource};
use crate::definition::{Generator, GeneratorKind, Number, Value};
use crate::shape;
use crate::validation::ValidationError;
use crate::values::Values;
use datagen::Stream;
use datagen::bijection::Bijection;
use datagen::column::Cycle;
use datagen::distribution::Integers;

mod dependent;
mod graph;
mod keys;

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
            GeneratorKind::Integer if generator.below.is_some() => self.below()?,
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
                divisor: self.counted(generator.divisor.as_ref(), "divisor", 1)?,
                least: self.integer_or(generator.least.as_ref(), "least", i64::MIN)?,
                add: generator.add.clone(),
            },
            GeneratorKind::Either => self.either()?,
            GeneratorKind::Motifs => self.motifs(name, seed)?,
            GeneratorKind::Links => self.links()?,
            GeneratorKind::Tail => self.tail()?,
            GeneratorKind::Parent => ValueSource::Parent {
                first: self.integer_or(generator.first.as_ref(), "first", 1)?,
                step: self.integer_or(generator.step.as_ref(), "step", 1)?,
                cycle: self.cycle()?,
            },
            GeneratorKind::Child => ValueSource::Child {
                first: self.integer_or(generator.first.as_ref(), "first", 1)?,
                add: generator.add.clone(),
            },
            GeneratorKind::Children => ValueSource::Children,
            GeneratorKind::Answer => self.answer()?,
            GeneratorKind::Computed => self.computed()?,
            GeneratorKind::Words => self.words()?,
            GeneratorKind::Iteration => ValueSource::Iteration,
            GeneratorKind::Sequence => ValueSource::Sequence {
                first: self.integer_or(generator.first.as_ref(), "first", 1)?,
                step: self.integer_or(generator.step.as_ref(), "step", 1)?,
                cycle: self.cycle()?,
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
        self.named(self.generator.from.as_ref(), "from")
    }

    fn named(&self, name: Option<&String>, part: &str) -> Result<String, ValidationError> {
        name.cloned().ok_or_else(|| ValidationError::new(self.at(part), "is missing"))
    }

    /// Return how many values a list of random length has beyond `count`.
    pub fn more_values(&self, count: Option<i64>) -> Result<Option<MoreValues>, ValidationError> {
        let generator = self.generator;
        let (most, stop) = match (&generator.max_count, &generator.stop, count) {
            (None, None, _) => return Ok(None),
            (Some(most), Some(stop), Some(_)) => (most, stop),
            _ => {
                let message = "a list of random length has count, max_count and stop";
                return Err(ValidationError::new(&self.key, message));
            }
        };
        let most = self.values.integer_in(
            most,
            count.unwrap_or(1)..=MAX_PARAMETERS,
            &self.at("max_count"),
        )?;
        let stop = self.percent(Some(stop), "stop")?;
        if stop <= 0.0 || stop >= 1.0 {
            return Err(ValidationError::new(self.at("stop"), "is not between 0 and 100"));
        }
        Ok(Some(MoreValues {
            most: u32::try_from(most).expect("the range is checked"),
            log_probability: (1.0 - stop).ln(),
        }))
    }

    /// An integer below one that another generator gives.
    fn below(&self) -> Result<ValueSource, ValidationError> {
        let generator = self.generator;
        Ok(ValueSource::Below {
            low: self.integer_or(generator.low.as_ref(), "low", 0)?,
            below: self.named(generator.below.as_ref(), "below")?,
            add: generator.add.clone(),
            distinct: generator.distinct.unwrap_or(false),
        })
    }

    fn either(&self) -> Result<ValueSource, ValidationError> {
        Ok(ValueSource::Either {
            from: self.from()?,
            otherwise: self.named(self.generator.otherwise.as_ref(), "otherwise")?,
            share: self.percent(self.generator.share.as_ref(), "share")?,
        })
    }

    /// Read a percentage as a share.
    fn percent(&self, number: Option<&Number>, part: &str) -> Result<f64, ValidationError> {
        let number = number.ok_or_else(|| ValidationError::new(self.at(part), "is missing"))?;
        let percent = self.values.real(number, &self.at(part))?;
        if (0.0..=100.0).contains(&percent) {
            return Ok(percent / 100.0);
        }
        Err(ValidationError::new(self.at(part), format!("{percent} is not from 0 to 100")))
    }

    fn cycle(&self) -> Result<Cycle, ValidationError> {
        let every = self.counted(self.generator.every.as_ref(), "every", 1)?;
        let cycle = self.counted(self.generator.cycle.as_ref(), "cycle", 0)?;
        let cycle = if cycle == 0 { u64::MAX } else { cycle.unsigned_abs() };
        Ok(Cycle { every: every.unsigned_abs(), cycle })
    }

    /// Read a number from 1 on.
    fn counted(
        &self,
        number: Option<&Number>,
        part: &str,
        default: i64,
    ) -> Result<i64, ValidationError> {
        number.map_or(Ok(default), |number| {
            self.values.integer_in(number, 1..=i64::MAX, &self.at(part))
        })
    }

    /// Return the digits after the point; None where they are not given.
    fn scale(&self) -> Result<Option<u32>, ValidationError> {
        let Some(scale) = &self.generator.scale else {
            return Ok(None);
        };
        let scale = self.values.integer_in(scale, 0..=MAX_SCALE, &self.at("scale"))?;
        Ok(Some(u32::try_from(scale).expect("the range is checked")))
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
        let scale = self.scale()?.unwrap_or(0);
        let unit = 10f64.powi(scale.cast_signed());
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
        Ok(ValueSource::Decimal { units: Integers::new(&shape, low, high), scale })
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
}

/// Return true for a byte that needs no escape in quotes, whatever the `sql_mode`.
pub fn is_plain(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte) && byte != b'\'' && byte != b'\\'
}
