//! A test's transactions and steps, with the statements and draws they need.

use std::collections::HashSet;

use super::answers::Condition;
use super::compile::{Needs, Setting};
use super::definition::{Number, Step as WrittenStep, Test};
use super::draw::Maker;
use super::making::{Draws, Making, Scope, small};
use super::plan::{Step, Transaction};
use super::program::Protocol;
use super::statement::{Pieces, Statement};
use crate::mistake::Mistake;

/// Repetitions of a step, and a weight, at most.
const MAX_TIMES: i64 = 1_000_000;

/// A test on its way to a program.
pub struct Compiler<'a> {
    pub setting: Setting<'a>,
    pub draws: Draws<'a>,
    pub statements: Vec<Statement>,
    /// For each statement, what its step has to draw.
    pub needs: Vec<Needs>,
}

impl Compiler<'_> {
    /// The transactions of a test, with their names.
    pub fn transactions(
        &mut self,
        name: &str,
        test: &Test,
        key: &str,
    ) -> Result<Vec<(String, Transaction)>, Mistake> {
        let choose = |chosen, key: &str| {
            self.setting
                .values
                .choose(chosen, &format!("{key}.transaction"))
                .copied()
        };
        match (test.steps.is_empty(), test.mix.is_empty()) {
            (false, true) => {
                let wrapped = choose(&test.transaction, key)?;
                let transaction = self.transaction(&test.steps, wrapped, key)?;
                Ok(vec![(
                    name.to_owned(),
                    Transaction {
                        weights: 1,
                        ..transaction
                    },
                )])
            }
            (true, false) => self.mix(test, key),
            _ => Err(Mistake::new(key, "has either steps or a mix")),
        }
    }

    fn mix(&mut self, test: &Test, key: &str) -> Result<Vec<(String, Transaction)>, Mistake> {
        let mut transactions: Vec<(String, Transaction)> = Vec::new();
        let mut weights = 0;
        for (position, written) in test.mix.iter().enumerate() {
            let key = format!("{key}.mix[{position}]");
            if transactions.iter().any(|(name, _)| *name == written.name) {
                return Err(Mistake::new(format!("{key}.name"), "is there twice"));
            }
            let values = self.setting.values;
            let weight =
                values.integer_in(&written.weight, 0..=MAX_TIMES, &format!("{key}.weight"))?;
            let wrapped = *values.choose(&written.transaction, &format!("{key}.transaction"))?;
            let transaction = self.transaction(&written.steps, wrapped, &key)?;
            weights += weight.unsigned_abs();
            transactions.push((
                written.name.clone(),
                Transaction {
                    weights,
                    ..transaction
                },
            ));
        }
        if weights == 0 {
            return Err(Mistake::new(format!("{key}.mix"), "has no weight above 0"));
        }
        Ok(transactions)
    }

    fn transaction(
        &mut self,
        written: &[WrittenStep],
        wrapped: bool,
        key: &str,
    ) -> Result<Transaction, Mistake> {
        let begin = wrapped.then(|| self.fixed("BEGIN", false));
        let mut steps = Vec::new();
        for (position, step) in written.iter().enumerate() {
            let step = self.step(step, &format!("{key}.steps[{position}]"))?;
            if step.times > 0 {
                steps.push(step);
            }
        }
        if steps.is_empty() {
            return Err(Mistake::new(
                format!("{key}.steps"),
                "has nothing to do at these values",
            ));
        }
        self.check_answers(&steps, key)?;
        let is_prepared = self.setting.protocol == Protocol::Prepared;
        Ok(Transaction {
            weights: 0,
            begin,
            commit: wrapped.then(|| self.fixed("COMMIT", is_prepared)),
            uses: self.uses(&steps),
            steps,
        })
    }

    /// BEGIN or COMMIT. The servers prepare the one and not the other, as they do for sysbench.
    fn fixed(&mut self, text: &str, is_prepared: bool) -> u16 {
        if let Some(known) = self.statements.iter().position(|other| other.name == text) {
            return small(known);
        }
        let mut statement = Statement::text(text, Pieces::plain(text));
        if is_prepared {
            statement.prepare();
        }
        self.statements.push(statement);
        self.needs.push(Needs::new());
        small(self.statements.len() - 1)
    }

    fn step(&mut self, written: &WrittenStep, key: &str) -> Result<Step, Mistake> {
        if written.statements.is_empty() {
            return Err(Mistake::new(format!("{key}.statements"), "is empty"));
        }
        let one = Number::Integer(1);
        let times = written.times.as_ref().unwrap_or(&one);
        let times =
            self.setting
                .values
                .integer_in(times, 0..=MAX_TIMES, &format!("{key}.times"))?;
        let mut scope = Scope::default();
        let mut statements = Vec::new();
        for (position, name) in written.statements.iter().enumerate() {
            let index = self.statement(name, &format!("{key}.statements[{position}]"))?;
            for (draw, key) in &self.needs[usize::from(index)] {
                self.draws.slot(draw, key, &mut scope)?;
            }
            statements.push(index);
        }
        let asks_table = statements
            .iter()
            .any(|&s| self.statements[usize::from(s)].per_table);
        let by_permutation = scope.makings.iter().any(|making| {
            matches!(
                self.draws.compiled[usize::from(making.draw)].maker,
                Maker::Permutation { .. }
            )
        });
        let tables = self.setting.tables;
        let condition = match (&written.only_if, &written.unless) {
            (None, None) => None,
            (Some(name), None) => Some(self.condition(name, true, &format!("{key}.only_if"))?),
            (None, Some(name)) => Some(self.condition(name, false, &format!("{key}.unless"))?),
            (Some(_), Some(_)) => {
                return Err(Mistake::new(key, "has both only_if and unless"));
            }
        };
        Ok(Step {
            condition,
            statements,
            times: u32::try_from(times).expect("the range is checked"),
            makings: scope.makings,
            draws_table: asks_table && !by_permutation && !tables.by_client && tables.count() > 1,
        })
    }

    /// Compile the condition that the draw `name` is for a step.
    fn condition(
        &mut self,
        name: &str,
        wants_non_zero: bool,
        key: &str,
    ) -> Result<Condition, Mistake> {
        let mut scope = Scope::default();
        let slot = self.draws.slot(name, key, &mut scope)?;
        let is_of_answer = |making: &Making| {
            let maker = &self.draws.compiled[usize::from(making.draw)].maker;
            matches!(maker, Maker::Answer { .. } | Maker::Derived { .. })
        };
        if !scope.makings.iter().all(is_of_answer) {
            let message = format!("{name:?} is not made from an answer");
            return Err(Mistake::new(key, message));
        }
        Ok(Condition {
            makings: scope.makings,
            slot,
            wants_non_zero,
        })
    }

    /// Check that each draw made from an answer comes after its statement.
    fn check_answers(&self, steps: &[Step], key: &str) -> Result<(), Mistake> {
        let mut asked = HashSet::new();
        for step in steps {
            let statements = step.statements.iter();
            let statements: Vec<&Statement> = statements
                .map(|&statement| &self.statements[usize::from(statement)])
                .collect();
            let of_terms = statements.iter().filter_map(|other| other.terms.as_ref());
            let of_terms = of_terms.flat_map(|terms| &terms.makings);
            let of_condition = step.condition.iter().flat_map(|other| &other.makings);
            for making in step.makings.iter().chain(of_condition).chain(of_terms) {
                let draw = &self.draws.compiled[usize::from(making.draw)];
                if let Maker::Answer { from, .. } = &draw.maker
                    && !asked.contains(from.as_str())
                {
                    let message = format!("no earlier step of {key} asks {from:?}");
                    return Err(Mistake::new(format!("draws.{}.from", draw.name), message));
                }
            }
            asked.extend(statements.iter().map(|statement| statement.name.as_str()));
        }
        Ok(())
    }

    fn statement(&mut self, name: &str, key: &str) -> Result<u16, Mistake> {
        if let Some(known) = self.statements.iter().position(|other| other.name == name) {
            return Ok(small(known));
        }
        let (statement, needs) = self.setting.statement(name, key, &mut self.draws)?;
        self.statements.push(statement);
        self.needs.push(needs);
        Ok(small(self.statements.len() - 1))
    }

    fn uses(&self, steps: &[Step]) -> Vec<u64> {
        let mut uses = vec![0; self.draws.counted.len()];
        let mut count = |makings: &[Making], times: u64| {
            for making in makings {
                if self.draws.counted.contains(&making.draw) {
                    uses[usize::from(making.other)] += times;
                }
            }
        };
        for step in steps {
            count(&step.makings, u64::from(step.times));
            for &statement in &step.statements {
                if let Some(terms) = &self.statements[usize::from(statement)].terms {
                    count(
                        &terms.makings,
                        u64::from(step.times) * u64::from(terms.times),
                    );
                }
            }
        }
        uses
    }
}
