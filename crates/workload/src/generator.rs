//! Compiled generators of the values that statements take as parameters.

use super::definition::{AnswerValue, Lifetime};
use super::generated::GeneratedValues;
use super::tails::TailPart;
use datagen::bijection::Bijection;
use datagen::column::Words;
use datagen::distribution::{Integers, Shape};
use datagen::expression::Expression;
use datagen::link_degrees::LinkDegrees;
use datagen::motifs::Motifs;
use datagen::random::Random;
use datagen::{Stream, put_decimal, put_groups, put_letters};

pub mod reader;

/// The servers' maximum number of parameters of a prepared statement.
pub const MAX_PARAMETERS: i64 = 65_535;

/// The maximum length in bytes of a text taken from an answer.
pub const LONGEST_ANSWER: usize = 1 << 16;

/// Room after a text while it is written.
const PADDING: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Integer,
    /// A number with a decimal point, kept as text.
    Decimal,
    /// Text that needs no escapes in quotes, whatever the `sql_mode`.
    Plain,
    /// Any other text.
    Text,
    /// Bytes without a character set.
    Bytes,
}

/// A validated generator.
#[derive(Clone, Debug)]
pub struct CompiledGenerator {
    pub name: String,
    /// The number of values, or the minimum if their number is random.
    pub count: u32,
    /// Further values, if their number is random.
    pub more: Option<MoreValues>,
    /// One question mark stands for all values.
    pub is_list: bool,
    pub source: ValueSource,
}

/// Further values of a list: after each value, another follows with a fixed probability.
#[derive(Clone, Copy, Debug)]
pub struct MoreValues {
    pub most: u32,
    /// The logarithm of the probability that another value follows.
    pub log_probability: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerPart {
    Value(AnswerValue),
    /// A column, counted from 0.
    Column(usize),
}

/// The form in which a value is taken from an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// A number with at most `scale` digits after the decimal point, in units of the last digit.
    Number { scale: u32 },
    /// Text, unchanged.
    Text,
}

#[derive(Clone, Debug)]
pub enum ValueSource {
    /// A random integer.
    Integer(Integers),
    /// A random integer of the client's own part of the range.
    Segment { shape: Shape, low: i64, high: i64 },
    /// A random integer in units of 10^-scale.
    Decimal { units: Integers, scale: u32 },
    /// Groups of digits.
    Digits { groups: usize, length: usize },
    /// Letters and digits.
    Letters { shortest: usize, longest: usize },
    /// Always this integer.
    ConstantInteger(i64),
    /// Always this text.
    ConstantText { text: Box<[u8]>, form: Form },
    /// One of the integers from `low` on; `from` gives how many there are, and the value of `add`
    /// is added.
    Below { from: String, low: i64, add: Option<String>, distinct: bool },
    /// A value of `from` with the probability `share`, else of `otherwise`.
    Either { from: String, otherwise: String, share: f64 },
    /// Bytes as in LinkBench's payloads.
    Motifs(Motifs),
    /// The number of links of a parent, that is, of a node and a type.
    Links { degrees: LinkDegrees, from: Option<String> },
    /// A part of the remembered end of a long answer, or a value of `otherwise` without one.
    Tail { part: TailPart, otherwise: Option<String> },
    /// Only in columns: the number of the row's parent.
    Parent,
    /// Only in columns: the number of the row within its parent.
    Child,
    /// Only in columns: the number of rows that the fan-out gives to the parent.
    Children,
    /// A value of the last answer to a statement of the transaction; `row` generates the number of
    /// the row.
    Answer { from: String, part: AnswerPart, form: AnswerForm, default: i64, row: Option<String> },
    /// Arithmetic over the generators `from`, which the definition names at `key`; `scale` is the
    /// number of digits after the decimal point.
    Computed { expression: Expression, from: Box<[String]>, key: &'static str, scale: Option<u32> },
    /// The digits of a value as words.
    Words { from: String, words: Words },
    /// The number of the loop iteration, from 1.
    Iteration,
    /// A value with a lifetime longer than a repetition of a step.
    Lasting { source: Box<CompiledGenerator>, lifetime: Lifetime },
    /// first, first + step, ..., shared by all clients.
    Sequence { first: i64, step: i64 },
    /// first, first + step, ...: the same list each time.
    Series { first: i64, step: i64 },
    /// Each value of a range once; once for each table if it covers several.
    Permutation { low: i64, order: Bijection, tables: u64 },
}

impl CompiledGenerator {
    pub fn most(&self) -> u32 {
        self.more.map_or(self.count, |more| more.most)
    }

    /// Draw the number of values.
    #[inline]
    pub fn draw_count(&self, random: &mut Random) -> u32 {
        let Some(MoreValues { most, log_probability }) = self.more else {
            return self.count;
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the cast saturates
        let more = ((1.0 - random.unit()).ln() / log_probability) as u32;
        self.count.saturating_add(more).min(most)
    }

    pub fn form(&self) -> Form {
        match &self.source {
            ValueSource::Decimal { .. } | ValueSource::Computed { scale: Some(_), .. } => {
                Form::Decimal
            }
            ValueSource::Digits { .. }
            | ValueSource::Letters { .. }
            | ValueSource::Words { .. } => Form::Plain,
            ValueSource::Answer { form: AnswerForm::Text, .. } => Form::Text,
            ValueSource::Lasting { source, .. } => source.form(),
            ValueSource::ConstantText { form, .. } => *form,
            ValueSource::Motifs(_) => Form::Bytes,
            _ => Form::Integer,
        }
    }

    pub fn is_integer(&self) -> bool {
        !self.is_list && self.form() == Form::Integer
    }

    /// Return the number of values of a permutation; None for other kinds.
    #[inline]
    pub fn values(&self) -> Option<u64> {
        match &self.source {
            ValueSource::Permutation { order, .. } => Some(order.span),
            _ => None,
        }
    }

    pub fn longest(&self) -> usize {
        match &self.source {
            ValueSource::Digits { groups, length } => groups * (length + 1),
            ValueSource::Letters { longest, .. } => *longest,
            ValueSource::ConstantText { text, .. } => text.len(),
            ValueSource::Motifs(motifs) => motifs.options.longest,
            ValueSource::Words { words, .. } => words.longest(),
            ValueSource::Answer { form: AnswerForm::Text, .. } => LONGEST_ANSWER,
            ValueSource::Lasting { source, .. } => source.longest(),
            _ => 40,
        }
    }

    /// Push values into `slot`. The script handles the kinds that depend on other values, the
    /// client or answers.
    #[inline]
    pub fn generate(&self, slot: u16, random: &mut Random, generated: &mut GeneratedValues) {
        let count = self.draw_count(random);
        generated.begin(slot, count);
        match &self.source {
            ValueSource::Integer(integers) => {
                for _ in 0..count {
                    generated.push(integers.draw(random));
                }
            }
            ValueSource::ConstantInteger(value) => generated.push(*value),
            ValueSource::Series { first, step } => {
                for n in 0..i64::from(count) {
                    generated.push(first.wrapping_add(n.wrapping_mul(*step)));
                }
            }
            source => {
                for _ in 0..count {
                    draw_text(source, random, generated);
                }
            }
        }
    }
}

fn draw_text(source: &ValueSource, random: &mut Random, generated: &mut GeneratedValues) {
    match source {
        ValueSource::Decimal { units, scale } => {
            let units = units.draw(random);
            generated.push_text(48, |out| put_decimal(out, units, *scale));
        }
        ValueSource::Digits { groups, length } => {
            let stream = Stream::keyed(random.number());
            generated.push_text(groups * (length + 1) + PADDING, |out| {
                put_groups(out, stream, 0, *groups, *length)
            });
        }
        ValueSource::Letters { shortest, longest } => {
            let stream = Stream::keyed(random.number());
            generated.push_text(*longest, |out| put_letters(out, stream, 0, *shortest, *longest));
        }
        ValueSource::Motifs(motifs) => {
            let length = motifs.length(random);
            generated.push_text(length, |out| {
                motifs.fill(random, out);
                length
            });
        }
        ValueSource::ConstantText { text, .. } => generated.push_bytes(text),
        other => unreachable!("{other:?} is not drawn here"),
    }
}

/// Return whether a byte needs no escape in quotes, whatever the `sql_mode`.
pub fn is_plain(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte) && byte != b'\'' && byte != b'\\'
}
