//! Scripts: the requests of one client, one after the other.

use std::sync::Arc;

use super::answers;
use super::generated::GeneratedValues;
use super::generation::{GeneratorState, small};
use super::plan::{Plan, Transaction, holds};
use datagen::Stream;
use datagen::random::Random;
use protocol::mysql::binary::{Execute, put_query};
use protocol::script::{self, Answer, Observe, Request};

/// The requests of a client. Transaction number n depends only on the program, the client, n and
/// the answers, so a transaction that is given up does not change those that follow.
#[derive(Debug)]
pub struct Script {
    plan: Arc<Plan>,
    stream: Stream,
    state: GeneratorState,
    generated: GeneratedValues,
    /// The ids of the client's prepared statements, and for each whether the server knows its
    /// parameter types.
    ids: Vec<u32>,
    declared: Vec<bool>,
    /// The number of transactions begun before the current one.
    number: u64,
    /// The counters at the start of the current transaction.
    counters: Vec<u64>,
    transaction: u16,
    /// The last statement, except BEGIN, COMMIT and ROLLBACK.
    position: Position,
    /// The index of the current loop, and its number of iterations.
    current_loop: Option<usize>,
    iterations: u32,
    next: NextRequest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextRequest {
    /// The start of the first transaction, or of the current one again.
    Begin,
    /// The start of the transaction after the current one.
    Another,
    Statement(Position),
    /// The statement after the current one, which is determined when the answer has arrived.
    Answer,
    Commit,
    Rollback,
}

/// A place in a transaction: which statement of which repetition of which step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    step: u16,
    repetition: u32,
    statement: u16,
}

const FIRST: Position = Position { step: 0, repetition: 0, statement: 0 };

impl script::Script for Script {
    /// Return None if a permutation has fewer values left than the next transaction needs.
    #[inline]
    fn next(&mut self, out: &mut Vec<u8>) -> Option<Request> {
        match self.next {
            NextRequest::Statement(position) => Some(self.statement(position, false, out)),
            NextRequest::Answer => {
                // Without an answer, conditions use the default values.
                self.next = self.after(self.position);
                self.next(out)
            }
            NextRequest::Commit => Some(self.end(self.current().commit, out)),
            NextRequest::Rollback => Some(self.end(self.current().rollback, out)),
            NextRequest::Another => {
                self.finish();
                self.begin(out)
            }
            NextRequest::Begin => self.begin(out),
        }
    }

    fn answered(&mut self, answer: &Answer) -> Result<bool, String> {
        let transaction = &self.plan.transactions[usize::from(self.transaction)];
        let step = &transaction.steps[usize::from(self.position.step)];
        let index = step.statements[usize::from(self.position.statement)];
        let statement = &self.plan.statements[usize::from(index)];
        answers::take(statement, answer, &mut self.state.answers)?;
        answers::remember(statement, answer, &mut self.state, &self.generated)?;
        self.next = self.after(self.position);
        Ok(self.next == NextRequest::Another)
    }

    fn again(&mut self) {
        self.next = NextRequest::Begin;
    }

    fn abandon(&mut self) {
        self.next = NextRequest::Another;
    }

    fn rollback_needed(&self) -> bool {
        self.current().begin.is_some()
    }
}

impl Script {
    pub(super) fn new(plan: Arc<Plan>, client: u32, ids: Vec<u32>) -> Self {
        Self {
            stream: Stream::keyed(plan.stream.at(u64::from(client))),
            state: plan.state(client),
            generated: GeneratedValues::new(usize::from(plan.generators.slots)),
            declared: vec![false; ids.len()],
            ids,
            number: 0,
            counters: vec![0; plan.generators.counted.len()],
            transaction: 0,
            position: FIRST,
            current_loop: None,
            iterations: 0,
            next: NextRequest::Begin,
            plan,
        }
    }

    #[inline]
    fn current(&self) -> &Transaction {
        &self.plan.transactions[usize::from(self.transaction)]
    }

    /// Count the current transaction as complete, even if it was given up.
    #[inline]
    fn finish(&mut self) {
        self.number += 1;
        let transaction = &self.plan.transactions[usize::from(self.transaction)];
        for (counter, uses) in self.counters.iter_mut().zip(&transaction.uses) {
            *counter += uses;
        }
        self.next = NextRequest::Begin;
    }

    #[inline]
    fn begin(&mut self, out: &mut Vec<u8>) -> Option<Request> {
        self.state.random = Random::member(self.stream, self.number);
        if self.plan.transactions.len() > 1 {
            let weight = self.state.random.below(self.plan.weights);
            let chosen = self.plan.transactions.partition_point(|kind| kind.weights <= weight);
            self.transaction = u16::try_from(chosen).expect("a mix is small");
        }
        if self.is_used_up() {
            return None;
        }
        if !self.counters.is_empty() {
            self.state.counters.copy_from_slice(&self.counters);
        }
        self.state.iteration = 0;
        if self.plan.keeps_values {
            self.state.begin_transaction();
        }
        self.next = self.after_step(None);
        let Some(begin) = self.current().begin else {
            debug_assert_eq!(self.next, NextRequest::Statement(FIRST));
            return Some(self.statement(FIRST, true, out));
        };
        self.write(begin, out);
        Some(Request { first: true, ..self.request(begin) })
    }

    #[inline]
    fn request(&self, statement: u16) -> Request {
        let untimed = !self.current().timed;
        Request { statement, transaction: self.transaction, untimed, ..Request::default() }
    }

    /// Return whether a permutation has too few values left for the whole transaction.
    #[inline]
    fn is_used_up(&self) -> bool {
        let uses = self.counters.iter().zip(&self.current().uses);
        uses.zip(&self.plan.generators.counted).any(|((begun, uses), &generator)| {
            let Some(values) = self.plan.generators.compiled[usize::from(generator)].values()
            else {
                return false;
            };
            let left = values.saturating_sub(self.state.turn).div_ceil(self.state.turns);
            begun + uses > left
        })
    }

    #[inline]
    fn statement(&mut self, position: Position, first: bool, out: &mut Vec<u8>) -> Request {
        let plan = &*self.plan;
        let transaction = &plan.transactions[usize::from(self.transaction)];
        let step = &transaction.steps[usize::from(position.step)];
        if position.statement == 0 && !step.same_values {
            if step.draws_table && position.repetition == 0 {
                let table = self.state.random.below(u64::from(plan.tables));
                self.state.table = u32::try_from(table).expect("it is below a u32");
            }
            self.generated.clear();
            self.state.make(&step.generation, &plan.generators.compiled, &mut self.generated);
        }
        let index = step.statements[usize::from(position.statement)];
        let observe = plan.statements[usize::from(index)].observe;
        self.write(index, out);
        self.position = position;
        self.next = match observe {
            Observe::Nothing => self.after(position),
            _ => NextRequest::Answer,
        };
        let last = self.next == NextRequest::Another;
        Request { first, last, observe, ..self.request(index) }
    }

    /// Return what follows a statement, given the answers so far.
    #[inline]
    fn after(&mut self, position: Position) -> NextRequest {
        let plan = &*self.plan;
        let transaction = &plan.transactions[usize::from(self.transaction)];
        let step = &transaction.steps[usize::from(position.step)];
        if usize::from(position.statement) + 1 < step.statements.len() {
            let statement = position.statement + 1;
            return NextRequest::Statement(Position { statement, ..position });
        }
        if position.repetition + 1 < step.times {
            let repetition = position.repetition + 1;
            return NextRequest::Statement(Position { repetition, statement: 0, ..position });
        }
        self.after_step(Some(position.step))
    }

    /// Return what follows a step, or the start of the transaction if `step` is None, given the
    /// answers so far.
    #[inline]
    fn after_step(&mut self, step: Option<u16>) -> NextRequest {
        let transaction = self.current();
        if !transaction.is_fixed {
            return self.after_conditional_step(step);
        }
        let next = step.map_or(0, |step| step + 1);
        if usize::from(next) < transaction.steps.len() {
            NextRequest::Statement(Position { step: next, ..FIRST })
        } else {
            end_of(transaction)
        }
    }

    /// Like `after_step`, for transactions with loops, conditions or rollbacks.
    fn after_conditional_step(&mut self, step: Option<u16>) -> NextRequest {
        let plan = &*self.plan;
        let (state, generated) = (&mut self.state, &mut self.generated);
        let transaction = &plan.transactions[usize::from(self.transaction)];
        let mut next = step.map_or(0, |step| usize::from(step) + 1);
        if step.is_none() {
            self.current_loop = None;
        }
        loop {
            if let Some(number) = self.current_loop
                && next == transaction.loops[number].end
            {
                if state.iteration + 1 < self.iterations {
                    begin_iteration(state.iteration + 1, plan, state);
                    next = transaction.loops[number].begin;
                } else {
                    self.current_loop = None;
                }
            }
            let Some(step) = transaction.steps.get(next) else {
                return end_of(transaction);
            };
            if let Some(number) = step.in_loop
                && self.current_loop.is_none()
            {
                self.iterations = transaction.loops[number].iterations(plan, state, generated);
                if self.iterations == 0 {
                    next = transaction.loops[number].end;
                    continue;
                }
                self.current_loop = Some(number);
                begin_iteration(0, plan, state);
            }
            if !holds(step.condition.as_ref(), plan, state, generated) {
                next += 1;
            } else if step.statements.is_empty() {
                return NextRequest::Rollback;
            } else {
                return NextRequest::Statement(Position { step: small(next), ..FIRST });
            }
        }
    }

    /// Write the statement that ends the transaction.
    fn end(&mut self, statement: Option<u16>, out: &mut Vec<u8>) -> Request {
        let statement = statement.expect("the transaction ends with it");
        self.next = NextRequest::Another;
        self.write(statement, out);
        Request { last: true, ..self.request(statement) }
    }

    #[inline]
    fn write(&mut self, index: u16, out: &mut Vec<u8>) {
        let plan = &self.plan;
        let statement = &plan.statements[usize::from(index)];
        let (generators, state, generated) =
            (&plan.generators.compiled, &mut self.state, &mut self.generated);
        let table = state.table;
        if !statement.is_prepared() {
            put_query(out, |out| statement.write_text(table, generators, state, generated, out));
            return;
        }
        let reachable = if plan.by_client || !statement.per_table { 0 } else { table as usize };
        let id = statement.first_id + reachable;
        let is_declared = std::mem::replace(&mut self.declared[id], true);
        let declared = if is_declared { &[][..] } else { &statement.kinds };
        let mut execute = Execute::begin(out, self.ids[id], statement.parameter_count(), declared);
        statement.write_values(generators, state, generated, &mut execute);
        execute.end();
    }
}

/// Return what follows the last step.
#[inline]
fn end_of(transaction: &Transaction) -> NextRequest {
    if transaction.commit.is_some() { NextRequest::Commit } else { NextRequest::Another }
}

/// Begin an iteration of the current loop; values with that lifetime are generated anew.
fn begin_iteration(iteration: u32, plan: &Plan, state: &mut GeneratorState) {
    state.iteration = iteration;
    for &number in &plan.of_iterations {
        state.is_made[usize::from(number)] = false;
    }
}

#[cfg(test)]
mod tests;
