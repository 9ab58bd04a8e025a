//! Draws: what makes the values that statements take as parameters.

use super::definition::Generator;
use super::drawn::Drawn;
use super::values::Values;
use crate::mistake::Mistake;
use datagen::bijection::Bijection;
use datagen::distribution::{Integers, Shape};
use datagen::random::Random;
use datagen::{Stream, put_decimal, put_groups, put_letters};

mod reader;

use reader::Reader;

/// The servers' limit of parameters of a prepared statement.
pub const MAX_PARAMETERS: i64 = 65_535;

/// What is behind a text while it is written.
const PADDING: usize = 32;

/// How a value looks in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Integer,
    /// A number with a point, kept as text.
    Decimal,
    /// Text that needs no escape in quotes, whatever the `sql_mode`.
    Plain,
    /// Any other text.
    Text,
}

/// A draw, checked.
#[derive(Clone, Debug)]
pub struct Draw {
    pub name: String,
    /// How many values it makes.
    pub count: u32,
    /// Whether a question mark stands for all its values.
    pub is_list: bool,
    pub maker: Maker,
}

/// A whole number that an answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerPart {
    Rows,
    AffectedRows,
    LastInsertId,
    /// A column of the first row, from 0.
    Column(usize),
}

/// What makes the values.
#[derive(Clone, Debug)]
pub enum Maker {
    Integer(Integers),
    /// An integer of the client's own part of the range.
    Segment {
        shape: Shape,
        low: i64,
        high: i64,
    },
    /// An integer in units of 10^-scale.
    Decimal {
        units: Integers,
        scale: u32,
    },
    Digits {
        groups: usize,
        length: usize,
    },
    Letters {
        shortest: usize,
        longest: usize,
    },
    ConstantInteger(i64),
    ConstantText {
        text: Box<[u8]>,
        form: Form,
    },
    Derived {
        from: String,
        times: i64,
        plus: i64,
    },
    /// A number of the last answer to a statement of the transaction.
    Answer {
        from: String,
        part: AnswerPart,
        default: i64,
    },
    /// first, first + step, ... over all clients.
    Sequence {
        first: i64,
        step: i64,
    },
    /// The same list each time.
    Series {
        first: i64,
        step: i64,
    },
    /// Each value of a range once; where it covers several tables, once for each of them.
    Permutation {
        low: i64,
        order: Bijection,
        tables: u64,
    },
}

impl Draw {
    /// Checks the draw `name`. A permutation's order depends on `seed`, and it covers `tables`.
    pub fn compile(
        name: &str,
        generator: &Generator,
        values: &Values,
        seed: u64,
        tables: u32,
    ) -> Result<Self, Mistake> {
        let reader = Reader {
            key: format!("draws.{name}"),
            generator,
            values,
        };
        reader.refuse_what_has_no_meaning()?;
        let count = match &generator.count {
            Some(count) => {
                Some(values.integer_in(count, 1..=MAX_PARAMETERS, &reader.at("count"))?)
            }
            None => None,
        };
        Ok(Self {
            name: name.to_owned(),
            count: u32::try_from(count.unwrap_or(1)).expect("the range is checked"),
            is_list: count.is_some(),
            maker: reader.maker(name, seed, tables)?,
        })
    }

    pub fn form(&self) -> Form {
        match &self.maker {
            Maker::Decimal { .. } => Form::Decimal,
            Maker::Digits { .. } | Maker::Letters { .. } => Form::Plain,
            Maker::ConstantText { form, .. } => *form,
            _ => Form::Integer,
        }
    }

    /// How many values a permutation has in all.
    #[inline]
    pub fn values(&self) -> Option<u64> {
        match &self.maker {
            Maker::Permutation { order, .. } => Some(order.span()),
            _ => None,
        }
    }

    /// The longest that one of its values can be.
    pub fn longest(&self) -> usize {
        match &self.maker {
            Maker::Digits { groups, length } => groups * (length + 1),
            Maker::Letters { longest, .. } => *longest,
            Maker::ConstantText { text, .. } => text.len(),
            _ => 40,
        }
    }

    /// Draws its values into `slot`. Derived, segmented and counted values are the script's.
    #[inline]
    pub fn draw(&self, slot: u16, random: &mut Random, drawn: &mut Drawn) {
        drawn.begin(slot, self.count);
        match &self.maker {
            Maker::Integer(integers) => {
                for _ in 0..self.count {
                    drawn.push(integers.draw(random));
                }
            }
            Maker::ConstantInteger(value) => drawn.push(*value),
            Maker::Series { first, step } => {
                for n in 0..i64::from(self.count) {
                    drawn.push(first.wrapping_add(n.wrapping_mul(*step)));
                }
            }
            maker => {
                for _ in 0..self.count {
                    draw_text(maker, random, drawn);
                }
            }
        }
    }
}

impl Maker {
    /// Checks the generator of the column at `key`.
    pub fn of_column(generator: &Generator, values: &Values, key: &str) -> Result<Self, Mistake> {
        let reader = Reader {
            key: key.to_owned(),
            generator,
            values,
        };
        reader.refuse_what_has_no_meaning()?;
        reader.maker(key, 0, 1)
    }
}

fn draw_text(maker: &Maker, random: &mut Random, drawn: &mut Drawn) {
    match maker {
        Maker::Decimal { units, scale } => {
            let units = units.draw(random);
            drawn.push_text(48, |out| put_decimal(out, units, *scale));
        }
        Maker::Digits { groups, length } => {
            let stream = Stream::keyed(random.number());
            drawn.push_text(groups * (length + 1) + PADDING, |out| {
                put_groups(out, stream, 0, *groups, *length)
            });
        }
        Maker::Letters { shortest, longest } => {
            let stream = Stream::keyed(random.number());
            drawn.push_text(*longest, |out| {
                put_letters(out, stream, 0, *shortest, *longest)
            });
        }
        Maker::ConstantText { text, .. } => drawn.push_text(text.len(), |out| {
            out.copy_from_slice(text);
            text.len()
        }),
        other => unreachable!("{other:?} is not drawn here"),
    }
}
