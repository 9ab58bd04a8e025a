//! The compiled plan that all clients of a test share, and the initial state of each client.

use super::answers::Condition;
use super::definition::Value;
use super::generated::GeneratedValues;
use super::generation::{Answered, GenerationStep, GeneratorState, Generators};
use super::generator::ValueSource;
use super::statement::Statement;
use super::tails::Tails;
use super::values::{Values, mentions};
use crate::validation::ValidationError;
use datagen::Stream;
use datagen::distribution::Integers;
use datagen::random::Random;
use protocol::script::Names;

/// The maximum number of repetitions of a step or a loop, and the maximum weight.
pub const MAX_TIMES: i64 = 1_000_000;

/// The part of a program that all its clients share.
#[derive(Debug)]
pub struct Plan {
    pub statements: Vec<Statement>,
    pub transactions: Vec<Transaction>,
    pub generators: Generators,
    /// The values that last for one iteration of a loop, as indexes among the values with a
    /// lifetime.
    pub of_iterations: Vec<u16>,
    /// True if clients keep values longer than a repetition of a step.
    pub keeps_values: bool,
    pub weights: u64,
    pub tables: u32,
    pub by_client: bool,
    /// The number of prepared statement ids of each client.
    pub ids: usize,
    pub names: Names,
    pub clients: u32,
    /// The tables' names, and the statements that clients run for each table before they begin.
    pub table_names: Vec<String>,
    pub setup: Vec<String>,
    pub setup_key: String,
    pub values: Values,
    /// The stream of random numbers of which each client's stream is a member.
    pub stream: Stream,
}

#[derive(Debug)]
pub struct Transaction {
    /// The sum of the weights up to and including this transaction.
    pub weights: u64,
    /// True if its latencies are recorded.
    pub timed: bool,
    pub begin: Option<u16>,
    pub commit: Option<u16>,
    /// The statement `ROLLBACK`, if a step rolls back.
    pub rollback: Option<u16>,
    pub steps: Vec<Step>,
    pub loops: Vec<Loop>,
    /// True if every step always runs, without loops, conditions or rollbacks.
    pub is_fixed: bool,
    /// The number of values that the transaction takes from each counter.
    pub uses: Vec<u64>,
}

/// Consecutive steps that are repeated together.
#[derive(Debug)]
pub struct Loop {
    /// The index of the first step, and of the first step after the loop.
    pub begin: usize,
    pub end: usize,
    pub times: Times,
    pub condition: Option<Condition>,
}

#[derive(Debug)]
pub enum Times {
    /// The same number each time.
    Always(u32),
    /// The value of a generator, in `slot`.
    Made { generation: Vec<GenerationStep>, slot: u16 },
}

/// Statements that share their values. A step without statements rolls the transaction back.
#[derive(Debug)]
pub struct Step {
    /// The index of the loop that the step is in.
    pub in_loop: Option<usize>,
    pub statements: Vec<u16>,
    pub times: u32,
    /// The step uses the values of an earlier step.
    pub same_values: bool,
    pub generation: Vec<GenerationStep>,
    /// The table is drawn at random, and not chosen by a permutation.
    pub draws_table: bool,
    /// None if the step always runs.
    pub condition: Option<Condition>,
}

impl Plan {
    pub fn state(&self, client: u32) -> GeneratorState {
        let Generators { compiled, segments, counted, answers, lasting, .. } = &self.generators;
        let part =
            |&segment: &u16| part_of(&compiled[usize::from(segment)].source, client, self.clients);
        let (turn, turns) = if self.by_client {
            let others = self.clients.max(client + 1) - 1 - client % self.tables;
            (client / self.tables, others / self.tables + 1)
        } else {
            (client, self.clients)
        };
        GeneratorState {
            random: Random::member(self.stream, 0),
            counters: vec![0; counted.len()],
            parts: segments.iter().map(part).collect(),
            turn: u64::from(turn),
            turns: u64::from(turns),
            answers: vec![Answered::default(); answers.len()],
            tails: Tails::default(),
            lasting: GeneratedValues::new(lasting.len()),
            is_made: vec![false; lasting.len()],
            iteration: 0,
            table: if self.by_client { client % self.tables } else { 0 },
        }
    }

    /// Return the statements, as text, that a client runs before it begins.
    pub fn setup_of(&self, client: u32) -> Result<Vec<String>, ValidationError> {
        let values = self.values.with("client", Value::Integer(i64::from(client)));
        let own = (client % self.tables.max(1)) as usize;
        let mut filled = Vec::new();
        for (position, text) in self.setup.iter().enumerate() {
            let key = format!("{}[{position}]", self.setup_key);
            if !mentions(text, "table") && !mentions(text, "n") {
                filled.push(values.fill(text, &key)?);
                continue;
            }
            for (index, (n, name)) in (1..).zip(&self.table_names).enumerate() {
                if index == own || !self.by_client {
                    filled.push(values.of_table(n, name).fill(text, &key)?);
                }
            }
        }
        Ok(filled)
    }
}

impl Loop {
    /// Return the number of iterations of a loop that is about to begin; 0 if its condition is not
    /// met.
    pub fn iterations(
        &self,
        plan: &Plan,
        state: &mut GeneratorState,
        generated: &mut GeneratedValues,
    ) -> u32 {
        if !holds(self.condition.as_ref(), plan, state, generated) {
            return 0;
        }
        match &self.times {
            Times::Always(times) => *times,
            Times::Made { generation, slot } => {
                generated.clear();
                state.make(generation, &plan.generators.compiled, generated);
                let times = generated.integer(*slot).clamp(0, MAX_TIMES);
                u32::try_from(times).expect("the range is limited")
            }
        }
    }
}

/// Return whether a condition is met; true without a condition.
#[inline]
pub fn holds(
    condition: Option<&Condition>,
    plan: &Plan,
    state: &mut GeneratorState,
    generated: &mut GeneratedValues,
) -> bool {
    condition.is_none_or(|condition| {
        let mark = generated.mark();
        state.make(&condition.generation, &plan.generators.compiled, generated);
        let is_zero = generated.integer(condition.slot) == 0;
        generated.back_to(mark);
        is_zero != condition.wants_non_zero
    })
}

/// Return the client's own part of a range; if there are more clients than numbers, clients share
/// parts.
fn part_of(source: &ValueSource, client: u32, clients: u32) -> Integers {
    let ValueSource::Segment { shape, low, high } = source else {
        unreachable!("{source:?} has no parts");
    };
    let (low, high) = (i128::from(*low), i128::from(*high));
    let span = high - low + 1;
    let start = |client: u32| span * i128::from(client) / i128::from(clients.max(1));
    let first = low + start(client).min(span - 1);
    let last = (low + start(client + 1) - 1).clamp(first, high);
    let within = |place: i128| i64::try_from(place).expect("it is between two of i64");
    Integers::new(shape, within(first), within(last))
}
