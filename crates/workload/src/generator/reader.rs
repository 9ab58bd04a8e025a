//! Generators as they are written, checked on their way to what makes values.

use std::ops::RangeInclusive;

use super::{Form, MAX_PARAMETERS, MoreValues, ValueSource};
use crate::definition::{Generator, Number, RandomNumber, Repetition, Value};
use crate::shape;
use crate::validation::ValidationError;
use crate::values::Values;
use datagen::Stream;
use datagen::bijection::Bijection;
use datagen::distribution::Integers;

mod dependent;
mod graph;

/// Characters of a group of digits or of a text, and groups.
const LENGTHS: RangeInclusive<i64> = 1..=1 << 16;

/// Columns of a row, at most.
const MAX_COLUMNS: i64 = 4096;

/// Digits after a decimal's point, at most; more are not exact in a double.
const MAX_SCALE: i64 = 15;

/// The generator at a key, on its way to what makes values.
pub struct Reader<'a> {
    pub key: String,
    pub values: &'a Values,
}

impl Reader<'_> {
    pub fn at(&self, part: &str) -> String {
        format!("{}.{part}", self.key)
    }

    /// Refuse the first of these keys that is given.
    pub fn refuse(&self, keys: &[(&str, bool)], why: &str) -> Result<(), ValidationError> {
        match keys.iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => Err(ValidationError::new(self.at(key), why)),
            None => Ok(()),
        }
    }

    /// Compile the source of its values. A permutation's order depends on `seed`, and it covers `tables`.
    pub fn value_source(
        &self,
        generator: &Generator,
        name: &str,
        seed: u64,
        tables: u32,
    ) -> Result<ValueSource, ValidationError> {
        Ok(match generator {
            Generator::Integer(random) => self.integer(random)?,
            Generator::Decimal(random) => self.decimal(random)?,
            Generator::Below { from, low, add, distinct, .. } => ValueSource::Below {
                from: from.clone(),
                low: self.integer_or(low.as_ref(), "low", 0)?,
                add: add.clone(),
                distinct: *distinct,
            },
            Generator::Digits { groups, length, .. } => ValueSource::Digits {
                groups: groups.as_ref().map_or(Ok(1), |groups| self.length(groups, "groups"))?,
                length: self.length(length, "length")?,
            },
            Generator::Text { length, max_length, .. } => {
                let shortest = self.length(length, "length")?;
                let longest = max_length.as_ref().unwrap_or(length);
                let longest = self.length(longest, "max_length")?;
                if longest < shortest {
                    let message = format!("{longest} is less than length, {shortest}");
                    return Err(ValidationError::new(self.at("max_length"), message));
                }
                ValueSource::Letters { shortest, longest }
            }
            Generator::Motifs(motifs) => self.motifs(motifs, name, seed)?,
            Generator::Constant { value } => self.constant(value)?,
            Generator::Sequence { first, step } => ValueSource::Sequence {
                first: self.integer_or(first.as_ref(), "first", 1)?,
                step: self.integer_or(step.as_ref(), "step", 1)?,
            },
            Generator::Series { first, step, .. } => ValueSource::Series {
                first: self.integer_or(first.as_ref(), "first", 1)?,
                step: self.integer_or(step.as_ref(), "step", 1)?,
            },
            Generator::Permutation { low, high } => {
                let (low, high) = self.range(low, high)?;
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
            Generator::Derived { from, times, plus } => ValueSource::derived(
                from,
                self.integer_or(times.as_ref(), "times", 1)?,
                self.integer_or(plus.as_ref(), "plus", 0)?,
            ),
            Generator::Computed { value, scale } => self.computed(value, scale.as_ref())?,
            Generator::Either { from, otherwise, share } => ValueSource::Either {
                from: from.clone(),
                otherwise: otherwise.clone(),
                share: self.percent(share, "share")?,
            },
            Generator::Words { from, words, digits } => self.words(from, words, digits.as_ref())?,
            Generator::Answer(answer) => self.answer(answer)?,
            Generator::Tail { value, column, otherwise } => ValueSource::Tail {
                part: self.tail_part(*value, column.as_ref())?,
                otherwise: otherwise.clone(),
            },
            Generator::Iteration {} => ValueSource::Iteration,
            Generator::Parent {} => ValueSource::Parent,
            Generator::Child {} => ValueSource::Child,
            Generator::Children {} => ValueSource::Children,
            Generator::Links(links) => self.links(links)?,
        })
    }

    /// Return the number of values of a list, None where it is a single one, and how many more it may have.
    pub fn count(
        &self,
        repetition: &Repetition<'_>,
    ) -> Result<(Option<i64>, Option<MoreValues>), ValidationError> {
        let read = |number: &Number, least: i64, part: &str| {
            self.values.integer_in(number, least..=MAX_PARAMETERS, &self.at(part))
        };
        let count = repetition.count.map(|count| read(count, 1, "count")).transpose()?;
        let (least, most, stop) = match (count, repetition.max_count, repetition.stop) {
            (_, None, None) => return Ok((count, None)),
            (Some(least), Some(most), Some(stop)) => (least, most, stop),
            _ => {
                let message = "a list of random length has count, max_count and stop";
                return Err(ValidationError::new(&self.key, message));
            }
        };
        let most = read(most, least, "max_count")?;
        let stop = self.percent(stop, "stop")?;
        if stop <= 0.0 || stop >= 1.0 {
            return Err(ValidationError::new(self.at("stop"), "is not between 0 and 100"));
        }
        let more = MoreValues {
            most: u32::try_from(most).expect("the range is checked"),
            log_probability: (1.0 - stop).ln(),
        };
        Ok((count, Some(more)))
    }

    /// Read a percentage as a share.
    fn percent(&self, number: &Number, part: &str) -> Result<f64, ValidationError> {
        let percent = self.values.real(number, &self.at(part))?;
        if (0.0..=100.0).contains(&percent) {
            return Ok(percent / 100.0);
        }
        Err(ValidationError::new(self.at(part), format!("{percent} is not from 0 to 100")))
    }

    /// Return the digits after the point; None where they are not given.
    fn scale(&self, scale: Option<&Number>) -> Result<Option<u32>, ValidationError> {
        let Some(scale) = scale else {
            return Ok(None);
        };
        let scale = self.values.integer_in(scale, 0..=MAX_SCALE, &self.at("scale"))?;
        Ok(Some(u32::try_from(scale).expect("the range is checked")))
    }

    fn integer(&self, random: &RandomNumber) -> Result<ValueSource, ValidationError> {
        self.refuse(&[("scale", random.scale.is_some())], "is of the kind decimal")?;
        let (low, high) = self.range(&random.low, &random.high)?;
        let shape = shape::compile(random, self.values, &self.key)?;
        Ok(match random.segment {
            None => ValueSource::Integer(Integers::new(&shape, low, high)),
            Some(_) => ValueSource::Segment { shape, low, high },
        })
    }

    fn decimal(&self, random: &RandomNumber) -> Result<ValueSource, ValidationError> {
        self.refuse(&[("segment", random.segment.is_some())], "is of the kind integer")?;
        let scale = self.scale(random.scale.as_ref())?.unwrap_or(0);
        let unit = 10f64.powi(scale.cast_signed());
        let units = |number: &Number, part: &str| {
            let value = (self.values.real(number, &self.at(part))? * unit).round();
            if value.abs() < 9.0e15 {
                #[allow(clippy::cast_possible_truncation)] // whole and below 2^53
                Ok(value as i64)
            } else {
                Err(ValidationError::new(self.at(part), "has more than 15 digits"))
            }
        };
        let (low, high) = (units(&random.low, "low")?, units(&random.high, "high")?);
        self.check_order(low, high)?;
        let shape = shape::compile(random, self.values, &self.key)?;
        Ok(ValueSource::Decimal { units: Integers::new(&shape, low, high), scale })
    }

    fn constant(&self, value: &Value) -> Result<ValueSource, ValidationError> {
        let text = match value {
            Value::Integer(integer) => return Ok(ValueSource::ConstantInteger(*integer)),
            Value::Boolean(boolean) => {
                return Ok(ValueSource::ConstantInteger(i64::from(*boolean)));
            }
            Value::Float(float) if float.is_finite() => {
                return Ok(ValueSource::ConstantText {
                    text: float.to_string().into_bytes().into(),
                    form: Form::Decimal,
                });
            }
            Value::Float(float) => {
                let message = format!("{float} is no number");
                return Err(ValidationError::new(self.at("value"), message));
            }
            Value::Text(text) => self.values.fill(text, &self.at("value"))?,
        };
        Ok(ValueSource::ConstantText {
            form: if text.bytes().all(is_plain) { Form::Plain } else { Form::Text },
            text: text.into_bytes().into(),
        })
    }

    fn range(&self, low: &Number, high: &Number) -> Result<(i64, i64), ValidationError> {
        let low = self.values.integer(low, &self.at("low"))?;
        let high = self.values.integer(high, &self.at("high"))?;
        self.check_order(low, high)?;
        Ok((low, high))
    }

    fn check_order(&self, low: i64, high: i64) -> Result<(), ValidationError> {
        if low <= high {
            return Ok(());
        }
        Err(ValidationError::new(self.at("high"), format!("{high} is less than low, {low}")))
    }

    fn length(&self, number: &Number, part: &str) -> Result<usize, ValidationError> {
        let length = self.values.integer_in(number, LENGTHS, &self.at(part))?;
        Ok(usize::try_from(length).expect("the range is checked"))
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
