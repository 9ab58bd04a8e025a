//! Validates generators of a definition and compiles them.

use std::ops::RangeInclusive;

use super::{
    AnswerForm, AnswerPart, CompiledGenerator, Form, MAX_PARAMETERS, MoreValues, ValueSource,
    is_plain,
};
use crate::arithmetic::{self, Part};
use crate::definition::{
    self, Answer, Generator, Links, Number, RandomNumber, Repetition, TailValue, Value,
};
use crate::tails::TailPart;
use crate::validation::{ValidationError, refused};
use crate::values::Values;
use datagen::Stream;
use datagen::bijection::Bijection;
use datagen::column::Words;
use datagen::distribution::{Integers, Shape};
use datagen::expression::{Expression, Operation, Operator};
use datagen::link_degrees::{LinkDegrees, Population};
use datagen::motifs::{MotifOptions, Motifs};

/// The allowed length of a group of digits or of a text, and the allowed number of groups.
const LENGTHS: RangeInclusive<i64> = 1..=1 << 16;

/// The maximum number of columns of a row.
const MAX_COLUMNS: i64 = 4096;

/// The maximum number of digits after a decimal point; more are not exact in a double.
const MAX_SCALE: i64 = 15;

/// The allowed number of digits of a number in words.
const MOST_DIGITS: RangeInclusive<i64> = 1..=64;

/// The maximum length of a payload in bytes.
const MAX_PAYLOAD: i64 = 1 << 20;

/// The maximum number of nodes and of link types, so that a parent's number fits into 56 bits.
const MAX_NODES: i64 = 1 << 40;
const MAX_TYPES: i64 = 1 << 16;

const DISTRIBUTIONS: [&str; 8] =
    ["uniform", "zipf", "zipf-scrambled", "zipf-rotated", "latest", "pareto", "special", "normal"];

/// Validate and compile the generator `name`. The order of a permutation depends on `seed`;
/// `tables` is the number of tables that it covers.
pub fn compile(
    name: &str,
    generator: &Generator,
    values: &Values,
    seed: u64,
    tables: u32,
) -> Result<CompiledGenerator, ValidationError> {
    let reader = Reader { key: format!("generators.{name}"), values };
    let repetition = generator.repetition();
    let (count, more) = reader.count(&repetition)?;
    let source = reader.value_source(generator, name, seed, tables)?;
    if matches!(source, ValueSource::Parent | ValueSource::Child | ValueSource::Children) {
        return refused(reader.at("kind"), "is one of columns alone");
    }
    let is_list = count.is_some();
    let name = name.to_owned();
    let compiled = CompiledGenerator { name, count: count.unwrap_or(1), more, is_list, source };
    let Some(lifetime) = repetition.per else {
        return Ok(compiled);
    };
    if matches!(compiled.source, ValueSource::Segment { .. }) {
        return refused(reader.at("per"), "has no meaning with a segment");
    }
    let lasting = ValueSource::Lasting { source: Box::new(compiled.clone()), lifetime };
    Ok(CompiledGenerator { source: lasting, ..compiled })
}

pub fn column_source(
    generator: &Generator,
    values: &Values,
    key: &str,
    seed: u64,
) -> Result<ValueSource, ValidationError> {
    let reader = Reader { key: key.to_owned(), values };
    let Repetition { count, max_count, stop, per } = generator.repetition();
    let of_parameters = [
        ("count", count.is_some()),
        ("max_count", max_count.is_some()),
        ("stop", stop.is_some()),
        ("per", per.is_some()),
    ];
    reader.refuse(&of_parameters, "is of parameters; a column holds one value a row")?;
    reader.value_source(generator, key, seed, 1)
}

/// Return the source of a derived value: `from` multiplied by `times`, plus `plus`.
fn derived(from: &str, times: i64, plus: i64) -> ValueSource {
    let operations = vec![
        Operation::Input(0),
        Operation::Number(times),
        Operation::Apply(Operator::Multiply),
        Operation::Number(plus),
        Operation::Apply(Operator::Add),
    ];
    ValueSource::Computed {
        expression: Expression::new(operations).expect("its stack is shallow"),
        from: [from.to_owned()].into(),
        key: "from",
        scale: None,
    }
}

/// Reads the generator at a key.
struct Reader<'a> {
    key: String,
    values: &'a Values,
}

impl Reader<'_> {
    fn at(&self, part: &str) -> String {
        format!("{}.{part}", self.key)
    }

    /// Return an error for the first of these keys that is present.
    fn refuse(&self, keys: &[(&str, bool)], why: &str) -> Result<(), ValidationError> {
        match keys.iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => refused(self.at(key), why),
            None => Ok(()),
        }
    }

    /// Compile the source of the values. The order of a permutation depends on `seed`; `tables` is
    /// the number of tables that it covers.
    fn value_source(
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
                let longest = self.length(max_length.as_ref().unwrap_or(length), "max_length")?;
                if longest < shortest {
                    let message = format!("{longest} is less than length, {shortest}");
                    return refused(self.at("max_length"), message);
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
                    return refused(self.at("kind"), message);
                }
                let span = high.abs_diff(low).checked_add(1);
                let Some(span) = span.and_then(|span| span.checked_mul(tables)) else {
                    return refused(self.at("high"), "the range is too large");
                };
                let stream = Stream::named(seed, &format!("permutation/{name}"));
                ValueSource::Permutation { low, order: Bijection::new(span, stream), tables }
            }
            Generator::Derived { from, times, plus } => derived(
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

    /// Return the length of a list (None for a single value), and how many more values may follow.
    fn count(
        &self,
        repetition: &Repetition<'_>,
    ) -> Result<(Option<u32>, Option<MoreValues>), ValidationError> {
        let read = |number: &Number, least: i64, part: &str| {
            self.values.integer_in(number, least..=MAX_PARAMETERS, &self.at(part))
        };
        let count = repetition.count.map(|count| read(count, 1, "count")).transpose()?;
        let (least, most, stop) = match (count, repetition.max_count, repetition.stop) {
            (_, None, None) => return Ok((count, None)),
            (Some(least), Some(most), Some(stop)) => (least, most, stop),
            _ => {
                return refused(&self.key, "a list of random length has count, max_count and stop");
            }
        };
        let most = read(most, least.into(), "max_count")?;
        let stop = self.percent(stop, "stop")?;
        if stop <= 0.0 || stop >= 1.0 {
            return refused(self.at("stop"), "is not between 0 and 100");
        }
        Ok((count, Some(MoreValues { most, log_probability: (1.0 - stop).ln() })))
    }

    fn percent(&self, number: &Number, part: &str) -> Result<f64, ValidationError> {
        let percent = self.values.real(number, &self.at(part))?;
        if (0.0..=100.0).contains(&percent) {
            return Ok(percent / 100.0);
        }
        refused(self.at(part), format!("{percent} is not from 0 to 100"))
    }

    /// Compile the distribution of a random number.
    fn shape(&self, random: &RandomNumber) -> Result<Shape, ValidationError> {
        let name_key = self.at("distribution");
        let name = random.distribution.as_deref().unwrap_or("uniform");
        let name = self.values.fill(name, &name_key)?;
        let real = |number: &Option<Number>, part: &str, default: f64| {
            number.as_ref().map_or(Ok(default), |number| self.values.real(number, &self.at(part)))
        };
        let from_to = |number, part: &str, default, least: f64, greatest: f64| {
            let value = real(number, part, default)?;
            if (least..=greatest).contains(&value) {
                return Ok(value);
            }
            refused(self.at(part), format!("{value} is not from {least} to {greatest}"))
        };
        let between = |number, part: &str, default, least: f64, greatest: f64| {
            let value = real(number, part, default)?;
            if least < value && value < greatest {
                return Ok(value);
            }
            refused(self.at(part), format!("{value} is not between {least} and {greatest}"))
        };
        let exponent = || from_to(&random.exponent, "exponent", 0.8, 0.0, 100.0);
        Ok(match name.as_str() {
            "uniform" => Shape::Uniform,
            "zipf" | "zipf-scrambled" => {
                Shape::Zipf { exponent: exponent()?, scrambled: name == "zipf-scrambled" }
            }
            "zipf-rotated" => {
                let seed = self.integer_or(random.rotation.as_ref(), "rotation", 0)?;
                Shape::ZipfRotated { exponent: exponent()?, seed: seed.cast_unsigned() }
            }
            "latest" => Shape::Latest { exponent: exponent()? },
            "pareto" => {
                let h = between(&random.h, "h", 0.2, 0.0, 1.0)?;
                Shape::Pareto { power: h.ln() / (1.0 - h).ln() }
            }
            "special" => Shape::Special {
                share: from_to(&random.share, "share", 75.0, 0.0, 100.0)? / 100.0,
                central: from_to(&random.central, "central", 1.0, 0.0, 100.0)? / 100.0,
            },
            "normal" => Shape::Normal {
                mean: from_to(&random.mean, "mean", 0.5, 0.0, 1.0)?,
                // A wider bell curve would be cut off so far that it is nearly uniform.
                deviation: between(&random.deviation, "deviation", 0.125, 0.0, 2.0)?,
            },
            other => {
                let known = DISTRIBUTIONS;
                return Err(ValidationError::unknown(name_key, "distribution", other, known));
            }
        })
    }

    /// Return the number of digits after the decimal point; None if it is not given.
    fn scale(&self, scale: Option<&Number>) -> Result<Option<u32>, ValidationError> {
        let read = |scale| self.values.integer_in(scale, 0..=MAX_SCALE, &self.at("scale"));
        scale.map(read).transpose()
    }

    fn integer(&self, random: &RandomNumber) -> Result<ValueSource, ValidationError> {
        self.refuse(&[("scale", random.scale.is_some())], "is of the kind decimal")?;
        let (low, high) = self.range(&random.low, &random.high)?;
        let shape = self.shape(random)?;
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
                #[allow(clippy::cast_possible_truncation)] // integer and below 2^53
                return Ok(value as i64);
            }
            refused(self.at(part), "has more than 15 digits")
        };
        let (low, high) = (units(&random.low, "low")?, units(&random.high, "high")?);
        self.check_order(low, high)?;
        let shape = self.shape(random)?;
        Ok(ValueSource::Decimal { units: Integers::new(&shape, low, high), scale })
    }

    fn constant(&self, value: &Value) -> Result<ValueSource, ValidationError> {
        let (text, form) = match value {
            Value::Integer(integer) => return Ok(ValueSource::ConstantInteger(*integer)),
            Value::Boolean(yes) => return Ok(ValueSource::ConstantInteger(i64::from(*yes))),
            Value::Float(float) if float.is_finite() => (float.to_string(), Form::Decimal),
            Value::Float(float) => {
                return refused(self.at("value"), format!("{float} is not finite"));
            }
            Value::Text(text) => {
                let text = self.values.fill(text, &self.at("value"))?;
                let is_plain = text.bytes().all(is_plain);
                (text, if is_plain { Form::Plain } else { Form::Text })
            }
        };
        Ok(ValueSource::ConstantText { text: text.into_bytes().into(), form })
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
        refused(self.at("high"), format!("{high} is less than low, {low}"))
    }

    fn length(&self, number: &Number, part: &str) -> Result<usize, ValidationError> {
        self.values.integer_in(number, LENGTHS, &self.at(part))
    }

    fn integer_or(
        &self,
        number: Option<&Number>,
        part: &str,
        default: i64,
    ) -> Result<i64, ValidationError> {
        number.map_or(Ok(default), |number| self.values.integer(number, &self.at(part)))
    }

    fn answer(&self, answer: &Answer) -> Result<ValueSource, ValidationError> {
        let part = match (&answer.column, answer.value) {
            (Some(column), None) => AnswerPart::Column(self.column(column)?),
            (None, Some(value)) => AnswerPart::Value(value),
            _ => {
                let message = "expected either value, such as \"affected_rows\", or column";
                return refused(&self.key, message);
            }
        };
        let scale = self.scale(answer.scale.as_ref())?;
        let form = match (answer.form, scale) {
            (None, scale) => AnswerForm::Number { scale: scale.unwrap_or(0) },
            (Some(_), None) => AnswerForm::Text,
            (Some(_), Some(_)) => return refused(self.at("scale"), "has no meaning of a text"),
        };
        if !matches!(part, AnswerPart::Column(_)) {
            let of_columns = [
                ("row", answer.row.is_some()),
                ("as", answer.form.is_some()),
                ("scale", scale.is_some()),
            ];
            self.refuse(&of_columns, "is of a column")?;
        }
        Ok(ValueSource::Answer {
            from: answer.from.clone(),
            part,
            form,
            default: self.integer_or(answer.default.as_ref(), "default", 0)?,
            row: answer.row.clone(),
        })
    }

    /// Compile arithmetic over other generators.
    fn computed(&self, text: &str, scale: Option<&Number>) -> Result<ValueSource, ValidationError> {
        let key = self.at("value");
        let wrong = |why: String| ValidationError::new(&key, format!("{text:?}: {why}"));
        let mut from: Vec<String> = Vec::new();
        let mut operations = Vec::new();
        for part in arithmetic::parse(text, true).map_err(wrong)? {
            operations.push(match part {
                Part::Number(number) => {
                    let number = i64::try_from(number);
                    Operation::Number(number.map_err(|_| wrong("a number is too large".into()))?)
                }
                Part::Value(name) => {
                    let value = Number::Expression(format!("{{{name}}}"));
                    Operation::Number(self.values.integer(&value, &key)?)
                }
                Part::Generator(name) => Operation::Input(
                    from.iter().position(|other| *other == name).unwrap_or_else(|| {
                        from.push(name);
                        from.len() - 1
                    }),
                ),
                Part::Negate => Operation::Negate,
                Part::Apply(operator) => Operation::Apply(operator),
                Part::Choose => Operation::Choose,
            });
        }
        Ok(ValueSource::Computed {
            expression: Expression::new(operations)
                .ok_or_else(|| wrong("it has too many parts within parts".into()))?,
            from: from.into(),
            key: "value",
            scale: self.scale(scale)?,
        })
    }

    /// Compile the digits of another value in words.
    fn words(
        &self,
        from: &str,
        words: &[String],
        digits: Option<&Number>,
    ) -> Result<ValueSource, ValidationError> {
        if words.is_empty() {
            return refused(self.at("words"), "there are none");
        }
        if let Some(word) = words.iter().find(|word| !word.bytes().all(is_plain)) {
            let message = format!("{word:?} has other characters than printable ASCII, or ' or \\");
            return refused(self.at("words"), message);
        }
        let digits = self.values.integer_in_or(digits, 1, MOST_DIGITS, &self.at("digits"))?;
        let words = words.iter().map(|word| word.as_bytes().into()).collect();
        Ok(ValueSource::Words { from: from.to_owned(), words: Words { words, digits } })
    }

    fn motifs(
        &self,
        written: &definition::Motifs,
        name: &str,
        seed: u64,
    ) -> Result<ValueSource, ValidationError> {
        let byte =
            |number, part: &str| self.values.integer_in::<u8>(number, 0..=255, &self.at(part));
        let (low, high) = (byte(&written.low, "low")?, byte(&written.high, "high")?);
        self.check_order(low.into(), high.into())?;
        let bytes = |number: Option<&Number>, part: &str, default| {
            self.values.integer_in_or(number, default, 1..=MAX_PAYLOAD, &self.at(part))
        };
        let positive = |number: Option<&Number>, part: &str, default: f64| {
            let read = |number| self.values.real(number, &self.at(part));
            let value = number.map_or(Ok(default), read)?;
            if value > 0.0 && value.is_finite() {
                return Ok(value);
            }
            refused(self.at(part), format!("{value} is not above 0"))
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

    fn links(&self, links: &Links) -> Result<ValueSource, ValidationError> {
        let text = |text: &Option<String>, part: &str, default: &str| {
            self.values.fill(text.as_deref().unwrap_or(default), &self.at(part))
        };
        let population = match text(&links.distribution, "distribution", "2011")?.as_str() {
            "2011" => Population::Of2011,
            "newer" => Population::Newer,
            other => {
                let (key, known) = (self.at("distribution"), ["2011", "newer"]);
                return Err(ValidationError::unknown(key, "distribution of links", other, known));
            }
        };
        let counts_twice = match text(&links.split, "split", "fixed")?.as_str() {
            "fixed" => false,
            "faithful" => true,
            other => {
                let known = ["faithful", "fixed"];
                return Err(ValidationError::unknown(self.at("split"), "split", other, known));
            }
        };
        let counted = |number: Option<&Number>, part: &str, default, most| {
            self.values.integer_in_or(number, default, 1..=most, &self.at(part))
        };
        let nodes = counted(Some(&links.high), "high", 1, MAX_NODES)?;
        let types = counted(links.types.as_ref(), "types", 1, MAX_TYPES)?;
        let at_most = counted(links.at_most.as_ref(), "at_most", i64::MAX, i64::MAX)?;
        Ok(ValueSource::Links {
            degrees: LinkDegrees::new(nodes, population, types, at_most, counts_twice),
            from: links.from.clone(),
        })
    }

    fn tail_part(
        &self,
        value: Option<TailValue>,
        column: Option<&Number>,
    ) -> Result<TailPart, ValidationError> {
        match (value, column) {
            (Some(value), None) => Ok(TailPart::Value(value)),
            (None, Some(column)) => Ok(TailPart::Column(self.column(column)?)),
            _ => refused(&self.key, "expected either value (\"known\", \"end\") or column"),
        }
    }

    /// Return the index of a column, which the definition counts from 1.
    fn column(&self, column: &Number) -> Result<usize, ValidationError> {
        let number = self.values.integer_in(column, 1..=MAX_COLUMNS, &self.at("column"));
        number.map(|number: usize| number - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(
        distribution: &str,
        change: impl FnOnce(&mut RandomNumber),
    ) -> Result<Shape, String> {
        let number = serde_json::json!({"low": 1, "high": 9, "distribution": distribution});
        let mut number = serde_json::from_value(number).unwrap();
        change(&mut number);
        let reader = Reader { key: "generators.id".to_owned(), values: &Values::default() };
        reader.shape(&number).map_err(|mistake| mistake.to_string())
    }

    #[test]
    fn parameters_and_their_defaults() {
        assert_eq!(compiled("zipf", |_| ()), Ok(Shape::Zipf { exponent: 0.8, scrambled: false }));
        let scrambled = compiled("zipf-scrambled", |g| g.exponent = Some(Number::Integer(1)));
        assert_eq!(scrambled, Ok(Shape::Zipf { exponent: 1.0, scrambled: true }));
        let Ok(Shape::Pareto { power }) = compiled("pareto", |_| ()) else { panic!("no Pareto") };
        assert!((power - 7.2126).abs() < 1e-4);
        assert_eq!(compiled("special", |_| ()), Ok(Shape::Special { share: 0.75, central: 0.01 }));
    }

    #[test]
    fn mistakes_name_their_key() {
        let minus = |number: &mut RandomNumber| number.exponent = Some(Number::Integer(-1));
        let one = |number: &mut RandomNumber| number.h = Some(Number::Integer(1));
        for (found, expected) in [
            (
                compiled("zipfian", |_| ()),
                r#"distribution: unknown distribution "zipfian"; did you"#,
            ),
            (compiled("zipf", minus), "exponent: -1 is not from 0 to 100"),
            (compiled("pareto", one), "h: 1 is not between 0 and 1"),
        ] {
            let mistake = found.unwrap_err();
            let mistake = mistake.strip_prefix("generators.id.").unwrap();
            assert!(mistake.starts_with(expected), "{mistake}");
        }
        assert!(compiled("normal", |g| g.mean = Some(Number::Float(f64::NAN))).is_err());
    }
}
