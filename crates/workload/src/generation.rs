//! Generates values in order, and keeps the state that a client needs between values.

use std::collections::BTreeMap;

use super::definition::{Generator, Lifetime};
use super::generated::GeneratedValues;
use super::generator::reader;
use super::generator::{AnswerForm, CompiledGenerator, Form, ValueSource};
use super::tails::Tails;
use super::values::Values;
use crate::validation::{ValidationError, find, refused};
use datagen::distribution::Integers;
use datagen::put_decimal;
use datagen::random::Random;

/// One generator in the order of generation.
#[derive(Clone, Debug)]
pub struct GenerationStep {
    pub generator: u16,
    /// The slot for its values.
    pub slot: u16,
    /// By kind: below, either, links, words: the slot of the source; sequence, permutation: the
    /// index of the counter; segment: the index of the client's part; answer, lasting: the index
    /// among the generators of that kind.
    pub other: u16,
    /// By kind: below: the slot of the summand; either, tail: the slot of the alternative; answer:
    /// the slot of the row's number.
    pub second: Option<u16>,
    /// computed, derived: the slots of the sources.
    pub inputs: Box<[u16]>,
}

/// The values of one column of an answer, or one of the answer's counts: numbers or texts.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    pub numbers: Vec<i64>,
    pub texts: Vec<String>,
}

impl Answered {
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.texts.clear();
    }
}

#[derive(Debug)]
pub struct GeneratorState {
    pub random: Random,
    /// The number of values taken from each sequence and each permutation.
    pub counters: Vec<u64>,
    /// The client's own parts of ranges.
    pub parts: Vec<Integers>,
    /// The clients that share sequences and permutations take turns: the client's index, and the
    /// number of clients.
    pub turn: u64,
    pub turns: u64,
    /// The table that statements use.
    pub table: u32,
    /// Values from the answers to the current transaction.
    pub answers: Vec<Answered>,
    /// The remembered ends of long answers.
    pub tails: Tails,
    /// Values with a lifetime, and which of them exist already.
    pub lasting: GeneratedValues,
    pub is_made: Vec<bool>,
    /// The iteration of the current loop, from 0.
    pub iteration: u32,
}

impl GeneratorState {
    /// Generate the values of a step or of a term.
    #[inline]
    pub fn make(
        &mut self,
        generation: &[GenerationStep],
        generators: &[CompiledGenerator],
        made: &mut GeneratedValues,
    ) {
        for step in generation {
            let generator = &generators[usize::from(step.generator)];
            let other = usize::from(step.other);
            let second = |made: &GeneratedValues| step.second.map_or(0, |slot| made.integer(slot));
            let value = match &generator.source {
                ValueSource::Sequence { first, step: difference } => {
                    let position = self.position(other).cast_signed();
                    first.wrapping_add(position.wrapping_mul(*difference))
                }
                ValueSource::Below { low, distinct, .. } => {
                    let span = made.integer(step.other).max(1).unsigned_abs();
                    let low = low.saturating_add(second(made));
                    let count = generator.draw_count(&mut self.random);
                    made.begin(step.slot, count);
                    put_below(low, span, count, *distinct, &mut self.random, made);
                    continue;
                }
                ValueSource::Either { share, .. } => {
                    let is_first = self.random.unit() < *share;
                    made.integer(step.second.filter(|_| !is_first).unwrap_or(step.other))
                }
                ValueSource::Links { degrees, .. } => {
                    degrees.of_parent(made.integer(step.other).cast_unsigned()).cast_signed()
                }
                ValueSource::Tail { part, .. } => {
                    self.tails.number(*part).unwrap_or_else(|| second(made))
                }
                ValueSource::Permutation { low, order, tables } => {
                    let value = order.at(self.position(other));
                    if *tables > 1 {
                        self.table = u32::try_from(value % tables).expect("tables are u32");
                    }
                    low.wrapping_add_unsigned(value / tables)
                }
                ValueSource::Answer { form, default, .. } => {
                    self.put_answer(step, *form, *default, made);
                    continue;
                }
                ValueSource::Computed { expression, scale, .. } => {
                    let value = expression.value(|input| made.integer(step.inputs[input]));
                    if let Some(scale) = *scale {
                        made.begin(step.slot, 1);
                        made.push_text(48, |out| put_decimal(out, value, scale));
                        continue;
                    }
                    value
                }
                ValueSource::Words { words, .. } => {
                    let number = made.integer(step.other);
                    made.begin(step.slot, 1);
                    made.push_text(words.longest(), |out| words.write(number, out));
                    continue;
                }
                ValueSource::Iteration => i64::from(self.iteration) + 1,
                ValueSource::Lasting { source, .. } => {
                    self.put_lasting(step, source, made);
                    continue;
                }
                ValueSource::Segment { .. } => {
                    let count = generator.draw_count(&mut self.random);
                    made.begin(step.slot, count);
                    for _ in 0..count {
                        made.push(self.parts[other].draw(&mut self.random));
                    }
                    continue;
                }
                _ => {
                    generator.generate(step.slot, &mut self.random, made);
                    continue;
                }
            };
            made.begin(step.slot, 1);
            made.push(value);
        }
    }

    /// Drop the values of the previous transaction, and choose a remembered end for the next one.
    pub fn begin_transaction(&mut self) {
        self.answers.iter_mut().for_each(Answered::clear);
        self.tails.choose(self.random);
        self.lasting.clear();
        self.is_made.fill(false);
    }

    /// Return the client's next position in a sequence or permutation that all clients share.
    #[inline]
    fn position(&mut self, counter: usize) -> u64 {
        let count = &mut self.counters[counter];
        let position = self.turn + *count * self.turns;
        *count += 1;
        position
    }

    /// Push the value of a row of the last answer.
    fn put_answer(
        &self,
        step: &GenerationStep,
        form: AnswerForm,
        default: i64,
        made: &mut GeneratedValues,
    ) {
        let row = step.second.map_or(1, |slot| made.integer(slot));
        let row = usize::try_from(row.saturating_sub(1)).unwrap_or(usize::MAX);
        let answered = &self.answers[usize::from(step.other)];
        made.begin(step.slot, 1);
        match form {
            AnswerForm::Number { .. } => {
                made.push(answered.numbers.get(row).copied().unwrap_or(default));
            }
            AnswerForm::Text => match answered.texts.get(row) {
                Some(text) => made.push_bytes(text.as_bytes()),
                None => made.push_bytes(default.to_string().as_bytes()),
            },
        }
    }

    /// Push the values of a lifetime; generate them if they do not exist yet.
    fn put_lasting(
        &mut self,
        step: &GenerationStep,
        source: &CompiledGenerator,
        made: &mut GeneratedValues,
    ) {
        let is_made = &mut self.is_made[usize::from(step.other)];
        if !std::mem::replace(is_made, true) {
            source.generate(step.other, &mut self.random, &mut self.lasting);
        }
        made.begin(step.slot, self.lasting.count(step.other));
        made.push_from(&self.lasting, step.other, source.form() != Form::Integer);
    }
}

/// Push `count` of the `span` numbers from `low` on. If the numbers must be `distinct` and the span
/// is too short, push consecutive numbers from `low` on, even beyond the span; they wrap at 64 bits
/// to stay distinct.
#[inline]
fn put_below(
    low: i64,
    span: u64,
    count: u32,
    distinct: bool,
    random: &mut Random,
    made: &mut GeneratedValues,
) {
    if distinct && span <= u64::from(count) {
        (0..i64::from(count)).for_each(|offset| made.push(low.wrapping_add(offset)));
        return;
    }
    for position in 0..count as usize {
        let value = loop {
            let value = low.wrapping_add_unsigned(random.below(span));
            if !distinct || !made.newest(position).contains(&value) {
                break value;
            }
        };
        made.push(value);
    }
}

/// The generators of a program, and lists of those that need state for each client.
#[derive(Debug, Default)]
pub struct Generators {
    pub compiled: Vec<CompiledGenerator>,
    /// Generators that give each client its own part of a range.
    pub segments: Vec<u16>,
    /// Generators with a counter.
    pub counted: Vec<u16>,
    /// Generators of values from answers.
    pub answers: Vec<u16>,
    /// Generators of values with a lifetime.
    pub lasting: Vec<u16>,
    pub slots: u16,
}

/// Compiles the generators of a program; only those in use are checked.
pub struct GeneratorCompiler<'a> {
    pub definition: &'a BTreeMap<String, Generator>,
    pub values: &'a Values,
    pub seed: u64,
    /// The number of tables that a permutation covers.
    pub tables: u32,
    pub used: Generators,
    /// The slot of each generator that is used outside of terms, by its index.
    steps: BTreeMap<u16, u16>,
}

/// The generators of statements that share values: those of a step, or of one term.
#[derive(Default)]
pub struct Scope {
    pub generation: Vec<GenerationStep>,
    slots: BTreeMap<String, u16>,
    /// Generators whose sources are being resolved; used to detect cycles.
    open: Vec<String>,
    is_term: bool,
}

impl Scope {
    pub fn of_term() -> Self {
        Self { is_term: true, ..Self::default() }
    }
}

impl<'a> GeneratorCompiler<'a> {
    pub fn new(
        definition: &'a BTreeMap<String, Generator>,
        values: &'a Values,
        seed: u64,
        tables: u32,
    ) -> Self {
        let (used, steps) = (Generators::default(), BTreeMap::new());
        Self { definition, values, seed, tables, used, steps }
    }

    /// Add the generator `name`, which is named at `key`, to the scope if it is missing, and return
    /// its slot.
    pub fn slot(
        &mut self,
        name: &str,
        key: &str,
        scope: &mut Scope,
    ) -> Result<u16, ValidationError> {
        if let Some(&slot) = scope.slots.get(name) {
            return Ok(slot);
        }
        let index = self.index(name, key)?;
        let own_key = format!("generators.{name}");
        let source = self.used.compiled[usize::from(index)].source.clone();
        let mut inputs = Vec::new();
        let mut slot_of =
            |from: &str, part: &str| self.source(name, from, &format!("{own_key}.{part}"), scope);
        let mut second = None;
        let other = match &source {
            ValueSource::Below { from, add, .. } => {
                second = add.as_ref().map(|add| slot_of(add, "add")).transpose()?;
                slot_of(from, "from")?
            }
            ValueSource::Either { from, otherwise, .. } => {
                second = Some(slot_of(otherwise, "otherwise")?);
                slot_of(from, "from")?
            }
            ValueSource::Links { from: None, .. } => {
                return refused(format!("{own_key}.from"), "is missing");
            }
            ValueSource::Links { from: Some(from), .. } | ValueSource::Words { from, .. } => {
                slot_of(from, "from")?
            }
            ValueSource::Computed { from, key: named_in, .. } => {
                for from in from {
                    inputs.push(slot_of(from, named_in)?);
                }
                0
            }
            ValueSource::Answer { row: Some(row), .. } => {
                second = Some(slot_of(row, "row")?);
                position_in(&mut self.used.answers, index)
            }
            ValueSource::Lasting { .. } => position_in(&mut self.used.lasting, index),
            ValueSource::Tail { otherwise: Some(otherwise), .. } => {
                second = Some(slot_of(otherwise, "otherwise")?);
                0
            }
            ValueSource::Permutation { .. } if scope.is_term => {
                let message = "is a permutation, which has no place in repeated terms";
                return refused(key, format!("{name:?} {message}"));
            }
            ValueSource::Permutation { .. } | ValueSource::Sequence { .. } => {
                position_in(&mut self.used.counted, index)
            }
            ValueSource::Segment { .. } => position_in(&mut self.used.segments, index),
            ValueSource::Answer { .. } => position_in(&mut self.used.answers, index),
            _ => 0,
        };
        if matches!(source, ValueSource::Permutation { .. }) && self.has_permutation(scope) {
            let message = "is the second permutation of its step; one is possible";
            return refused(key, format!("{name:?} {message}"));
        }
        let slot = if scope.is_term {
            self.used.slots
        } else {
            *self.steps.entry(index).or_insert(self.used.slots)
        };
        self.used.slots = self.used.slots.max(slot + 1);
        let inputs = inputs.into();
        scope.generation.push(GenerationStep { generator: index, slot, other, second, inputs });
        scope.slots.insert(name.to_owned(), slot);
        Ok(slot)
    }

    pub fn generator_of(&self, slot: u16, scope: &Scope) -> &CompiledGenerator {
        let step = scope.generation.iter().find(|step| step.slot == slot);
        self.generator(step.expect("the scope made the slot"))
    }

    pub fn generator(&self, step: &GenerationStep) -> &CompiledGenerator {
        &self.used.compiled[usize::from(step.generator)]
    }

    /// Return whether a permutation chooses the table.
    pub fn has_permutation(&self, scope: &Scope) -> bool {
        let mut sources = scope.generation.iter().map(|step| &self.generator(step).source);
        sources.any(|source| matches!(source, ValueSource::Permutation { .. }))
    }

    /// Return the indexes of the values that last for one iteration of a loop.
    pub fn of_iterations(&self) -> Vec<u16> {
        let lasting = (0..).zip(&self.used.lasting);
        let of_iteration = lasting.filter(|(_, generator)| {
            let source = &self.used.compiled[usize::from(**generator)].source;
            matches!(source, ValueSource::Lasting { lifetime: Lifetime::Iteration, .. })
        });
        of_iteration.map(|(number, _)| number).collect()
    }

    fn source(
        &mut self,
        name: &str,
        from: &str,
        key: &str,
        scope: &mut Scope,
    ) -> Result<u16, ValidationError> {
        scope.open.push(name.to_owned());
        if scope.open.iter().any(|open| open == from) {
            return refused(key, format!("{name:?} is made from itself"));
        }
        let slot = self.slot(from, key, scope)?;
        scope.open.pop();
        self.check_integer(from, slot, scope, key)?;
        Ok(slot)
    }

    /// Check that the generator `name`, which is named at `key`, generates a single integer.
    pub fn check_integer(
        &self,
        name: &str,
        slot: u16,
        scope: &Scope,
        key: &str,
    ) -> Result<(), ValidationError> {
        if self.generator_of(slot, scope).is_integer() {
            return Ok(());
        }
        refused(key, format!("{name:?} is not a single whole number"))
    }

    fn index(&mut self, name: &str, key: &str) -> Result<u16, ValidationError> {
        if let Some(index) = self.used.compiled.iter().position(|known| known.name == name) {
            return Ok(small(index));
        }
        let generator = find(self.definition, "generator", name, key)?;
        let compiled = reader::compile(name, generator, self.values, self.seed, self.tables)?;
        self.used.compiled.push(compiled);
        Ok(small(self.used.compiled.len() - 1))
    }
}

/// Return the position of `index` in a list; append it if it is missing.
fn position_in(list: &mut Vec<u16>, index: u16) -> u16 {
    small(list.iter().position(|&other| other == index).unwrap_or_else(|| {
        list.push(index);
        list.len() - 1
    }))
}

pub fn small(index: usize) -> u16 {
    u16::try_from(index).expect("a workload has less than 65536 of anything")
}
