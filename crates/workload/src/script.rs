//! Scripts: what one client asks, request after request.

use std::sync::Arc;

use super::drawn::Drawn;
use super::making::Sources;
use super::plan::{Plan, Transaction};
use datagen::Stream;
use datagen::random::Random;
use protocol::mysql::binary::{Execute, put_command_with};
use protocol::script::{self, Request};

const COM_QUERY: u8 = 3;

/// What a client asks. Transaction number n of a client depends on the program, the client and n
/// alone, so that a transaction that was given up does not change those that follow.
#[derive(Debug)]
pub struct Script {
    plan: Arc<Plan>,
    stream: Stream,
    sources: Sources,
    drawn: Drawn,
    /// The ids of its prepared statements, and which of them the server knows the types of.
    ids: Vec<u32>,
    declared: Vec<bool>,
    /// Transactions that were begun before the current one.
    number: u64,
    /// The counters at the begin of the current transaction.
    counters: Vec<u64>,
    transaction: u16,
    next: Next,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The first transaction, or the current one again.
    Begin,
    /// The transaction after the current one.
    Another,
    Statement {
        step: u16,
        repetition: u32,
        statement: u16,
    },
    Commit,
}

const FIRST: Next = Next::Statement {
    step: 0,
    repetition: 0,
    statement: 0,
};

impl script::Script for Script {
    /// None where a permutation has not as many values left as the next transaction takes.
    #[inline]
    fn next(&mut self, out: &mut Vec<u8>) -> Option<Request> {
        match self.next {
            Next::Statement {
                step,
                repetition,
                statement,
            } => Some(self.statement(step, repetition, statement, false, out)),
            Next::Commit => {
                self.next = Next::Another;
                let commit = self.current().commit.expect("a transaction that commits");
                self.write(commit, out);
                Some(Request {
                    statement: commit,
                    transaction: self.transaction,
                    first: false,
                    last: true,
                })
            }
            Next::Another => {
                self.finish();
                self.begin(out)
            }
            Next::Begin => self.begin(out),
        }
    }

    fn again(&mut self) {
        self.next = Next::Begin;
    }

    fn abandon(&mut self) {
        self.next = Next::Another;
    }

    fn rollback_needed(&self) -> bool {
        self.current().begin.is_some()
    }
}

impl Script {
    pub(super) fn new(plan: Arc<Plan>, client: u32, ids: Vec<u32>) -> Self {
        Self {
            stream: plan.stream_of(client),
            sources: plan.sources(client),
            drawn: Drawn::new(usize::from(plan.slots)),
            declared: vec![false; ids.len()],
            ids,
            number: 0,
            counters: vec![0; plan.counted.len()],
            transaction: 0,
            next: Next::Begin,
            plan,
        }
    }

    #[inline]
    fn current(&self) -> &Transaction {
        &self.plan.transactions[usize::from(self.transaction)]
    }

    /// Counts the current transaction as done, all of it, however far it came.
    #[inline]
    fn finish(&mut self) {
        self.number += 1;
        let transaction = &self.plan.transactions[usize::from(self.transaction)];
        for (counter, uses) in self.counters.iter_mut().zip(&transaction.uses) {
            *counter += uses;
        }
        self.next = Next::Begin;
    }

    #[inline]
    fn begin(&mut self, out: &mut Vec<u8>) -> Option<Request> {
        self.sources.random = Random::member(self.stream, self.number);
        if self.plan.transactions.len() > 1 {
            let weight = self.sources.random.below(self.plan.weights);
            let chosen = self
                .plan
                .transactions
                .partition_point(|kind| kind.weights <= weight);
            self.transaction = u16::try_from(chosen).expect("a mix is small");
        }
        if self.is_used_up() {
            return None;
        }
        self.sources.counters.copy_from_slice(&self.counters);
        let Some(begin) = self.current().begin else {
            return Some(self.statement(0, 0, 0, true, out));
        };
        self.next = FIRST;
        self.write(begin, out);
        Some(Request {
            statement: begin,
            transaction: self.transaction,
            first: true,
            last: false,
        })
    }

    /// Whether a permutation has not enough values left for the whole transaction.
    #[inline]
    fn is_used_up(&self) -> bool {
        let uses = self.counters.iter().zip(&self.current().uses);
        uses.zip(&self.plan.counted).any(|((begun, uses), &draw)| {
            let Some(values) = self.plan.draws[usize::from(draw)].values() else {
                return false;
            };
            let left = values
                .saturating_sub(self.sources.turn)
                .div_ceil(self.sources.turns);
            begun + uses > left
        })
    }

    #[inline]
    fn statement(
        &mut self,
        step: u16,
        repetition: u32,
        statement: u16,
        first: bool,
        out: &mut Vec<u8>,
    ) -> Request {
        let plan = &*self.plan;
        let transaction = &plan.transactions[usize::from(self.transaction)];
        let of_step = &transaction.steps[usize::from(step)];
        if statement == 0 {
            if of_step.draws_table && repetition == 0 {
                let table = self.sources.random.below(u64::from(plan.tables));
                self.sources.table = u32::try_from(table).expect("it is below a u32");
            }
            self.drawn.clear();
            self.sources
                .make(&of_step.makings, &plan.draws, &mut self.drawn);
        }
        self.next = if usize::from(statement) + 1 < of_step.statements.len() {
            Next::Statement {
                step,
                repetition,
                statement: statement + 1,
            }
        } else if repetition + 1 < of_step.times {
            Next::Statement {
                step,
                repetition: repetition + 1,
                statement: 0,
            }
        } else if usize::from(step) + 1 < transaction.steps.len() {
            Next::Statement {
                step: step + 1,
                repetition: 0,
                statement: 0,
            }
        } else if transaction.commit.is_some() {
            Next::Commit
        } else {
            Next::Another
        };
        let index = of_step.statements[usize::from(statement)];
        self.write(index, out);
        Request {
            statement: index,
            transaction: self.transaction,
            first,
            last: self.next == Next::Another,
        }
    }

    /// Appends the packet of a statement.
    #[inline]
    fn write(&mut self, index: u16, out: &mut Vec<u8>) {
        let plan = &self.plan;
        let statement = &plan.statements[usize::from(index)];
        let table = self.sources.table;
        if !statement.is_prepared() {
            put_command_with(out, COM_QUERY, |out| {
                statement.write_text(table, &plan.draws, &mut self.sources, &mut self.drawn, out);
            });
            return;
        }
        let reachable = if plan.by_client || !statement.per_table {
            0
        } else {
            table as usize
        };
        let id = statement.first_id + reachable;
        let is_declared = std::mem::replace(&mut self.declared[id], true);
        let declared = if is_declared {
            &[][..]
        } else {
            &statement.kinds
        };
        let mut execute = Execute::begin(out, self.ids[id], statement.parameter_count(), declared);
        statement.write_values(
            &plan.draws,
            &mut self.sources,
            &mut self.drawn,
            &mut execute,
        );
        execute.end();
    }
}

#[cfg(test)]
mod tests;
