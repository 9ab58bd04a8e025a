//! Generators, compiled: they make the values that statements take as parameters.

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

/// The servers' limit of parameters of a prepared statement.
pub const MAX_PARAMETERS: i64 = 65_535;

/// The most bytes of a text that is taken from an answer.
pub const LONGEST_ANSWER: usize = 1 << 16;

/// Room behind a text while it is written.
const PADDING: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Integer,
    /// A number with a point, kept as text.
    Decimal,
    /// Text that needs no escape in quotes, whatever the `sql_mode`.
    Plain,
    /// Any other text.
    Text,
    /// Bytes of no character set.
    Bytes,
}

/// A generator, checked.
#[derive(Clone, Debug)]
pub struct CompiledGenerator {
    pub name: String,
    /// The number of values it makes, at least.
    pub count: u32,
    /// Where their number is random.
    pub more: Option<MoreValues>,
    /// A question mark stands for all its values.
    pub is_list: bool,
    pub source: ValueSource,
}

/// The values of a list beyond those that it always has: another follows each time with a probability.
#[derive(Clone, Copy, Debug)]
pub struct MoreValues {
    pub most: u32,
    /// The logarithm of that probability.
    pub log_probability: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerPart {
    Value(AnswerValue),
    /// A column, from 0.
    Column(usize),
}

/// The form in which an answer's value is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// A number with at most `scale` digits after the point, in units of the last of them.
    Number { scale: u32 },
    /// Text as it came.
    Text,
}

#[derive(Clone, Debug)]
pub enum ValueSource {
    /// An integer of a distribution.
    Integer(Integers),
    /// An integer of the client's own part of the range.
    Segment { shape: Shape, low: i64, high: i64 },
    /// An integer in units of 10^-scale.
    Decimal { units: Integers, scale: u32 },
    /// Groups of digits.
    Digits { groups: usize, length: usize },
    /// Letters and digits.
    Letters { shortest: usize, longest: usize },
    /// Always this integer.
    ConstantInteger(i64),
    /// Always this text.
    ConstantText { text: Box<[u8]>, form: Form },
    /// An integer from `low` on, of as many as `from` gives, plus what `add` gives.
    Below { from: String, low: i64, add: Option<String>, distinct: bool },
    /// A value of `from` with the probability `share`.
    Either { from: String, otherwise: String, share: f64 },
    /// Bytes of LinkBench.
    Motifs(Motifs),
    /// The links of a parent: a node and a type.
    Links { degrees: LinkDegrees, from: Option<String> },
    /// Of the end of a long answer that the client has remembered.
    Tail { part: TailPart, otherwise: Option<String> },
    /// Of columns alone: the number of a row's parent.
    Parent,
    /// Of columns alone: the number of the row among those of its parent.
    Child,
    /// Of columns alone: the number of the parent's rows.
    Children,
    /// A value of the last answer to a statement of the transaction; `row` makes the row's number.
    Answer { from: String, part: AnswerPart, form: AnswerForm, default: i64, row: Option<String> },
    /// Arithmetic over generators, which `key` names; with `scale`, of digits after the point.
    Computed { expression: Expression, from: Box<[String]>, key: &'static str, scale: Option<u32> },
    /// Digits as words.
    Words { from: String, words: Words },
    /// The number of the iteration of the loop, from 1.
    Iteration,
    /// A value that lasts longer than a repetition of a step.
    Lasting { source: Box<CompiledGenerator>, lifetime: Lifetime },
    /// first, first + step, ... over all clients.
    Sequence { first: i64, step: i64 },
    /// The same list each time.
    Series { first: i64, step: i64 },
    /// Each value of a range once; where it covers several tables, once for each of them.
    Permutation { low: i64, order: Bijection, tables: u64 },
}

impl CompiledGenerator {
    pub fn most(&self) -> u32 {
        self.more.map_or(self.count, |more| more.most)
    }

    /// Draw the number of its values.
    #[inline]
    pub fn draw_count(&self, random: &mut Random) -> u32 {
        let Some(MoreValues { most, log_probability }) = self.more else {
            return self.count;
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it saturates
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

    /// Return the number of values of a permutation.
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

    /// Put its values into `slot`. Those that depend on others, the client or answers are the script's.
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

/// Return true for a byte that needs no escape in quotes, whatever the `sql_mode`.
pub fn is_plain(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte) && byte != b'\'' && byte != b'\\'
}
