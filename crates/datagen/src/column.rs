//! The generators of columns: the value of a column for any row.

use crate::distribution::Integers;
use crate::random::Random;
use crate::{Stream, put_decimal, put_groups, put_integer, put_letters};

/// Writers may write (and others then overwrite) so much behind their value.
pub const PADDING: usize = 48;

/// The longest text of an `i64` with its sign, a point, and a zero before it.
const NUMBER_LENGTH: usize = 22;

/// The generator of the values of one column.
pub enum Value {
    Integer(Integer),
    /// An integer in units of 10^-scale.
    Decimal {
        units: RandomInteger,
        scale: u32,
    },
    /// Groups of digits, joined by `-`.
    Digits {
        stream: Stream,
        groups: usize,
        length: usize,
    },
    /// Letters and digits, of a length drawn from `shortest` to `longest`.
    Letters {
        stream: Stream,
        shortest: usize,
        longest: usize,
    },
    Constant {
        text: Vec<u8>,
        is_number: bool,
    },
}

/// A whole number: what the source gives for a row, times `times`, plus `plus`.
#[derive(Clone)]
pub struct Integer {
    pub source: Source,
    pub times: i64,
    pub plus: i64,
}

/// The source of a whole number.
#[derive(Clone)]
pub enum Source {
    /// The number of the row, from 0.
    Row,
    Random(RandomInteger),
}

/// A number drawn for each row.
#[derive(Clone)]
pub struct RandomInteger {
    pub integers: Integers,
    pub stream: Stream,
}

impl RandomInteger {
    #[inline]
    fn of_row(&self, row: u64) -> i64 {
        self.integers.draw(&mut Random::member(self.stream, row))
    }
}

impl Integer {
    /// Return its values times `times` plus `plus`; None where that is beyond 64 bits in itself.
    pub fn then(self, times: i64, plus: i64) -> Option<Self> {
        Some(Self {
            times: self.times.checked_mul(times)?,
            plus: self.plus.checked_mul(times)?.checked_add(plus)?,
            source: self.source,
        })
    }

    #[inline]
    fn of_row(&self, row: u64) -> i64 {
        let value = match &self.source {
            Source::Row => row.cast_signed(),
            Source::Random(draw) => draw.of_row(row),
        };
        value.wrapping_mul(self.times).wrapping_add(self.plus)
    }
}

impl Value {
    /// Return the longest text a value can have.
    pub fn longest(&self) -> usize {
        match self {
            Self::Integer(_) | Self::Decimal { .. } => NUMBER_LENGTH,
            Self::Digits { groups, length, .. } => groups * (length + 1) - 1,
            Self::Letters { longest, .. } => *longest,
            Self::Constant { text, .. } => text.len(),
        }
    }

    /// Return true where its text is a number, which needs no quotes in a statement.
    pub fn is_number(&self) -> bool {
        match self {
            Self::Integer(_) | Self::Decimal { .. } => true,
            Self::Digits { .. } | Self::Letters { .. } => false,
            Self::Constant { is_number, .. } => *is_number,
        }
    }

    /// Write the value of `row` at the start of `out` and return its length.
    ///
    /// `out` has room for [`Value::longest`] bytes and [`PADDING`] behind them.
    #[inline]
    pub fn write(&self, row: u64, out: &mut [u8]) -> usize {
        match self {
            Self::Integer(integer) => put_integer(out, integer.of_row(row)),
            Self::Decimal { units, scale } => put_decimal(out, units.of_row(row), *scale),
            Self::Digits { stream, groups, length } => {
                put_groups(out, *stream, row, *groups, *length)
            }
            Self::Letters { stream, shortest, longest } => {
                put_letters(out, *stream, row, *shortest, *longest)
            }
            Self::Constant { text, .. } => {
                out[..text.len()].copy_from_slice(text);
                text.len()
            }
        }
    }
}
