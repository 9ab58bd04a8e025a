//! In which order draws are made, and what a client keeps from one to the next.

use std::collections::BTreeMap;

use super::definition::Generator;
use super::draw::{Draw, Form, Maker};
use super::drawn::Drawn;
use super::values::Values;
use crate::mistake::Mistake;
use datagen::distribution::{Integers, Shape};
use datagen::random::Random;

/// One draw at its place in the order.
#[derive(Clone, Copy, Debug)]
pub struct Making {
    pub draw: u16,
    /// Where its values go.
    pub slot: u16,
    /// derived: the slot it is made from; sequence, permutation: its counter; segment: its part;
    /// answer: its number among those.
    pub other: u16,
}

/// What the draws of one client are made from.
#[derive(Debug)]
pub struct Sources {
    pub random: Random,
    /// How often each sequence and each permutation was drawn from.
    pub counters: Vec<u64>,
    /// The client's own parts of ranges.
    pub parts: Vec<Integers>,
    /// The clients that share sequences and permutations take turns: which one this is of how many.
    pub turn: u64,
    pub turns: u64,
    /// The table that statements ask.
    pub table: u32,
    /// Numbers taken from the answers of the current transaction.
    pub answers: Vec<i64>,
}

impl Sources {
    /// Makes the draws of a step or of a term.
    #[inline]
    pub fn make(&mut self, makings: &[Making], draws: &[Draw], made: &mut Drawn) {
        for making in makings {
            let draw = &draws[usize::from(making.draw)];
            let other = usize::from(making.other);
            match &draw.maker {
                Maker::Derived { times, plus, .. } => {
                    let source = made.integer(making.other);
                    made.begin(making.slot, 1);
                    made.push(source.saturating_mul(*times).saturating_add(*plus));
                }
                Maker::Sequence { first, step } => {
                    let position = self.position(other).cast_signed();
                    made.begin(making.slot, 1);
                    made.push(first.wrapping_add(position.wrapping_mul(*step)));
                }
                Maker::Permutation { low, order, tables } => {
                    let value = order.at(self.position(other));
                    if *tables > 1 {
                        self.table = u32::try_from(value % tables).expect("tables are u32");
                    }
                    made.begin(making.slot, 1);
                    made.push(low.wrapping_add_unsigned(value / tables));
                }
                Maker::Answer { .. } => {
                    made.begin(making.slot, 1);
                    made.push(self.answers[other]);
                }
                Maker::Segment { .. } => {
                    made.begin(making.slot, draw.count);
                    for _ in 0..draw.count {
                        made.push(self.parts[other].draw(&mut self.random));
                    }
                }
                _ => draw.draw(making.slot, &mut self.random, made),
            }
        }
    }

    /// The client's next position of what all share.
    #[inline]
    fn position(&mut self, counter: usize) -> u64 {
        let count = &mut self.counters[counter];
        let position = self.turn + *count * self.turns;
        *count += 1;
        position
    }
}

/// The draws of a program while it is compiled. Only those that are used are checked.
pub struct Draws<'a> {
    pub definition: &'a BTreeMap<String, Generator>,
    pub values: &'a Values,
    pub seed: u64,
    /// The tables that a permutation covers.
    pub tables: u32,
    pub compiled: Vec<Draw>,
    /// Draws with a part for each client.
    pub segments: Vec<u16>,
    /// Draws with a counter.
    pub counted: Vec<u16>,
    /// Draws made from an answer.
    pub answers: Vec<u16>,
    pub slots: u16,
    /// The slots of draws outside of terms.
    steps: BTreeMap<u16, u16>,
}

/// Statements that share their draws: those of a step, or one term.
#[derive(Default)]
pub struct Scope {
    pub makings: Vec<Making>,
    slots: BTreeMap<String, u16>,
    /// Derived draws whose source is being looked for.
    open: Vec<String>,
    is_term: bool,
}

impl Scope {
    pub fn of_term() -> Self {
        Self {
            is_term: true,
            ..Self::default()
        }
    }
}

impl<'a> Draws<'a> {
    pub fn new(
        definition: &'a BTreeMap<String, Generator>,
        values: &'a Values,
        seed: u64,
        tables: u32,
    ) -> Self {
        Self {
            definition,
            values,
            seed,
            tables,
            compiled: Vec::new(),
            segments: Vec::new(),
            counted: Vec::new(),
            answers: Vec::new(),
            slots: 0,
            steps: BTreeMap::new(),
        }
    }

    /// The slot of the draw `name`, which is named at `key`, after seeing to it that the scope
    /// makes it.
    pub fn slot(&mut self, name: &str, key: &str, scope: &mut Scope) -> Result<u16, Mistake> {
        if let Some(&slot) = scope.slots.get(name) {
            return Ok(slot);
        }
        let index = self.index(name, key)?;
        let own_key = format!("draws.{name}");
        let other = match &self.compiled[usize::from(index)].maker {
            Maker::Derived { from, .. } => {
                let (from, key) = (from.clone(), format!("{own_key}.from"));
                self.source(name, &from, &key, scope)?
            }
            Maker::Permutation { .. } if scope.is_term => {
                return Err(Mistake::new(
                    key,
                    format!("{name:?} is a permutation, which has no place in repeated terms"),
                ));
            }
            Maker::Permutation { .. } | Maker::Sequence { .. } => {
                position_in(&mut self.counted, index)
            }
            Maker::Segment { .. } => position_in(&mut self.segments, index),
            Maker::Answer { .. } => position_in(&mut self.answers, index),
            _ => 0,
        };
        let is_permutation = |&Making { draw, .. }: &Making| {
            matches!(
                self.compiled[usize::from(draw)].maker,
                Maker::Permutation { .. }
            )
        };
        let making = Making {
            draw: index,
            slot: if scope.is_term {
                self.slots
            } else {
                *self.steps.entry(index).or_insert(self.slots)
            },
            other,
        };
        if is_permutation(&making) && scope.makings.iter().any(is_permutation) {
            let message =
                format!("{name:?} is the second permutation of its step; one is possible");
            return Err(Mistake::new(key, message));
        }
        self.slots = self.slots.max(making.slot + 1);
        scope.makings.push(making);
        scope.slots.insert(name.to_owned(), making.slot);
        Ok(making.slot)
    }

    pub fn draw_of(&self, slot: u16, scope: &Scope) -> &Draw {
        let making = scope.makings.iter().find(|making| making.slot == slot);
        &self.compiled[usize::from(making.expect("the scope made the slot").draw)]
    }

    /// What a draw with a part for each client says.
    pub fn segment(&self, draw: u16) -> (Shape, i64, i64) {
        match &self.compiled[usize::from(draw)].maker {
            Maker::Segment { shape, low, high } => (shape.clone(), *low, *high),
            other => unreachable!("{other:?} has no parts"),
        }
    }

    /// Return the values of draws made from answers, before there is an answer.
    pub fn answer_defaults(&self) -> Vec<i64> {
        let answers = self.answers.iter();
        let makers = answers.map(|&draw| &self.compiled[usize::from(draw)].maker);
        makers
            .map(|maker| match maker {
                Maker::Answer { default, .. } => *default,
                other => unreachable!("{other:?} is not made from an answer"),
            })
            .collect()
    }

    /// The slot of what a derived draw is made from.
    fn source(
        &mut self,
        name: &str,
        from: &str,
        key: &str,
        scope: &mut Scope,
    ) -> Result<u16, Mistake> {
        scope.open.push(name.to_owned());
        if scope.open.iter().any(|open| open == from) {
            return Err(Mistake::new(key, format!("{name:?} is made from itself")));
        }
        let slot = self.slot(from, key, scope)?;
        scope.open.pop();
        let source = self.draw_of(slot, scope);
        if source.is_list || source.form() != Form::Integer {
            let message = format!("{from:?} is not a single whole number");
            return Err(Mistake::new(key, message));
        }
        Ok(slot)
    }

    fn index(&mut self, name: &str, key: &str) -> Result<u16, Mistake> {
        let known = self.compiled.iter().position(|draw| draw.name == name);
        if let Some(index) = known {
            return Ok(small(index));
        }
        let generator = self.definition.get(name).ok_or_else(|| {
            Mistake::unknown(
                key,
                "draw",
                name,
                self.definition.keys().map(String::as_str),
            )
        })?;
        let draw = Draw::compile(name, generator, self.values, self.seed, self.tables)?;
        self.compiled.push(draw);
        Ok(small(self.compiled.len() - 1))
    }
}

/// Where `index` is in a list, at its end if it was not there.
fn position_in(list: &mut Vec<u16>, index: u16) -> u16 {
    small(
        list.iter()
            .position(|&other| other == index)
            .unwrap_or_else(|| {
                list.push(index);
                list.len() - 1
            }),
    )
}

pub fn small(index: usize) -> u16 {
    u16::try_from(index).expect("a workload has less than 65536 of anything")
}
