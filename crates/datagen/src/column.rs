//! The generators of columns: the value of a column for any row.

use crate::distribution::Integers;
use crate::expression::Expression;
use crate::link_degrees::LinkDegrees;
use crate::motifs::Motifs;
use crate::random::Random;
use crate::{Stream, put_decimal, put_groups, put_integer, put_letters};

/// Number of bytes after its value that a writer may overwrite.
pub const PADDING: usize = 48;

/// The longest text of an `i64` with a sign, a decimal point and a zero before the point.
const NUMBER_LENGTH: usize = 22;

pub enum Value {
    /// An integer.
    Integer(Integer),
    /// An integer in units of 10^-scale.
    Decimal { units: Integer, scale: u32 },
    /// Groups of digits, joined by `-`.
    Digits { stream: Stream, groups: usize, length: usize },
    /// Letters and digits, of a length drawn from `shortest` to `longest`.
    Letters { stream: Stream, shortest: usize, longest: usize },
    /// Bytes as in LinkBench's payloads.
    Motifs { motifs: Motifs, stream: Stream },
    /// The last `digits` digits of a number, each as a word; the base is the number of words.
    Words { number: Integer, words: Words },
    /// Always the same text.
    Constant { text: Vec<u8>, is_number: bool },
    /// NULL if `is_null` is not 0.
    Nullable { is_null: Integer, value: Box<Value> },
}

/// The text of NULL in a file of rows.
pub const NULL: &[u8] = b"\\N";

/// Writes numbers as words, one for each digit.
#[derive(Clone, Debug)]
pub struct Words {
    pub words: Box<[Box<[u8]>]>,
    pub digits: u32,
}

impl Words {
    pub fn longest(&self) -> usize {
        let longest = self.words.iter().map(|word| word.len()).max().unwrap_or(0);
        longest * self.digits as usize
    }

    /// Write a number at the start of `out` and return its length; it has at least one word.
    #[inline]
    pub fn write(&self, number: i64, out: &mut [u8]) -> usize {
        let base = self.words.len() as u64;
        let mut at = 0;
        for digit in (0..self.digits).rev() {
            let place = base.saturating_pow(digit);
            let index = number.unsigned_abs() / place % base;
            let word = &self.words[usize::try_from(index).expect("it is below their number")];
            out[at..at + word.len()].copy_from_slice(word);
            at += word.len();
        }
        at
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The number of the row, from 0.
    pub row: u64,
    /// The number of the row's parent, and the row's number within that parent, both from 0.
    /// Without parents, each row is its own parent.
    pub parent: u64,
    pub child: u64,
    /// The number of rows that the fan-out gives to the parent; the parent may have fewer.
    pub children: u64,
}

/// An integer. `Row` is `first` plus the row's number (from 0) times `step`.
#[derive(Clone)]
pub enum Integer {
    Row { first: i64, step: i64 },
    Parent,
    Child,
    Children,
    Random(RandomInteger),
    Computed { expression: Expression, inputs: Box<[Integer]> },
}

/// A number drawn for each row.
#[derive(Clone)]
pub struct RandomInteger {
    pub integers: Integers,
    pub stream: Stream,
}

impl RandomInteger {
    #[inline]
    pub(crate) fn of_row(&self, row: u64) -> i64 {
        self.integers.draw(&mut Random::member(self.stream, row))
    }
}

impl Integer {
    #[inline]
    fn at(&self, place: &Place) -> i64 {
        match self {
            Self::Row { first, step } => {
                place.row.cast_signed().wrapping_mul(*step).wrapping_add(*first)
            }
            Self::Parent => place.parent.cast_signed(),
            Self::Child => place.child.cast_signed(),
            Self::Children => place.children.cast_signed(),
            Self::Random(draw) => draw.of_row(place.row),
            Self::Computed { expression, inputs } => {
                expression.value(|number| inputs[number].at(place))
            }
        }
    }
}

#[derive(Clone)]
pub enum FanOut {
    Links(LinkDegrees),
    Random(RandomInteger),
}

impl FanOut {
    #[inline]
    pub fn of_parent(&self, parent: u64) -> u64 {
        match self {
            Self::Links(degrees) => degrees.of_parent(parent),
            Self::Random(draw) => draw.of_row(parent).max(0).unsigned_abs(),
        }
    }
}

impl Value {
    /// Return the length of the longest possible text.
    pub fn longest(&self) -> usize {
        match self {
            Self::Integer(_) | Self::Decimal { .. } => NUMBER_LENGTH,
            Self::Digits { groups, length, .. } => groups * (length + 1) - 1,
            Self::Letters { longest, .. } => *longest,
            Self::Motifs { motifs, .. } => motifs.options.longest,
            Self::Words { words, .. } => words.longest(),
            Self::Constant { text, .. } => text.len(),
            Self::Nullable { value, .. } => value.longest().max(NULL.len()),
        }
    }

    /// Return whether the text is a number, which needs no quotes in a statement.
    pub fn is_number(&self) -> bool {
        match self {
            Self::Integer(_) | Self::Decimal { .. } => true,
            Self::Constant { is_number, .. } => *is_number,
            Self::Nullable { value, .. } => value.is_number(),
            _ => false,
        }
    }

    /// Return whether the value identifies the row: its number times a step that is not 0.
    pub fn is_row_number(&self) -> bool {
        matches!(self, Self::Integer(Integer::Row { step, .. }) if *step != 0)
    }

    /// Return whether the value may contain any byte; a file with such values has no escapes.
    pub fn is_bytes(&self) -> bool {
        matches!(self, Self::Motifs { .. })
    }

    /// Write the value of the row at `place` to the start of `out` and return its length.
    ///
    /// `out` needs room for [`Value::longest`] bytes plus [`PADDING`].
    #[inline]
    pub fn write(&self, place: &Place, out: &mut [u8]) -> usize {
        let row = place.row;
        match self {
            Self::Integer(integer) => put_integer(out, integer.at(place)),
            Self::Decimal { units, scale } => put_decimal(out, units.at(place), *scale),
            Self::Digits { stream, groups, length } => {
                put_groups(out, *stream, row, *groups, *length)
            }
            Self::Letters { stream, shortest, longest } => {
                put_letters(out, *stream, row, *shortest, *longest)
            }
            Self::Motifs { motifs, stream } => {
                let mut random = Random::member(*stream, row);
                let length = motifs.length(&mut random);
                motifs.fill(&mut random, &mut out[..length]);
                length
            }
            Self::Constant { text, .. } => {
                out[..text.len()].copy_from_slice(text);
                text.len()
            }
            Self::Words { number, words } => words.write(number.at(place), out),
            Self::Nullable { is_null, .. } if is_null.at(place) != 0 => {
                out[..NULL.len()].copy_from_slice(NULL);
                NULL.len()
            }
            Self::Nullable { value, .. } => value.write(place, out),
        }
    }
}
