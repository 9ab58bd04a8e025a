//! A test's transactions and steps, with the statements and generators they need.

use std::collections::HashSet;

use super::answers::Condition;
use super::compile::{CompileContext, RequiredGenerators};
use super::definition::{Number, Protocol, Step as WrittenStep, Test};
use super::generation::{GenerationStep, GeneratorCompiler, Scope, small};
use super::generator::ValueSource;
use super::plan::{Step, Transaction};
use super::statement::{Statement, TextPieces};
use crate::validation::ValidationError;

/// Repetitions of a step, and a weight, at most.
const MAX_TIMES: i64 = 1_000_000;

/// A test on its way to a program.
pub struct Compiler<'a> {
    pub context: CompileContext<'a>,
    pub generators: GeneratorCompiler<'a>,
    pub statements: Vec<Statement>,
    /// For each statement, the generators that its step needs.
    pub needs: Vec<RequiredGenerators>,
}

impl Compiler<'_> {
    /// Return the transactions of a test, with their names.
    pub fn transactions(
        &mut self,
        name: &str,
        test: &Test,
        key: &str,
    ) -> Result<Vec<(String, Transaction)>, ValidationError> {
        let choose = |chosen, key: &str| {
            self.context.values.choose(chosen, &format!("{key}.transaction")).copied()
        };
        match (test.steps.is_empty(), test.mix.is_empty()) {
            (false, true) => {
                let wrapped = choose(&test.transaction, key)?;
                let transaction = self.transaction(&test.steps, wrapped, key)?;
                Ok(vec![(name.to_owned(), Transaction { weights: 1, ..transaction })])
            }
            (true, false) => self.mix(test, key),
            _ => Err(ValidationError::new(key, "has either steps or a mix")),
        }
    }

    fn mix(
        &mut self,
        test: &Test,
        key: &str,
    ) -> Result<Vec<(String, Transaction)>, ValidationError> {
        let mut transactions: Vec<(String, Transaction)> = Vec::new();
        let mut weights = 0;
        for (position, written) in test.mix.iter().enumerate() {
            let key = format!("{key}.mix[{position}]");
            if transactions.iter().any(|(name, _)| *name == written.name) {
                return Err(ValidationError::new(format!("{key}.name"), "is there twice"));
            }
            let values = self.context.values;
            let weight =
                values.integer_in(&written.weight, 0..=MAX_TIMES, &format!("{key}.weight"))?;
            let wrapped = *values.choose(&written.transaction, &format!("{key}.transaction"))?;
            let timed = *values.choose(&written.timed, &format!("{key}.timed"))?;
            let transaction = self.transaction(&written.steps, wrapped, &key)?;
            let transaction = Transaction { timed, ..transaction };
            weights += weight.unsigned_abs();
            transactions.push((written.name.clone(), Transaction { weights, ..transaction }));
        }
        if weights == 0 {
            return Err(ValidationError::new(format!("{key}.mix"), "has no weight above 0"));
        }
        Ok(transactions)
    }

    fn transaction(
        &mut self,
        written: &[WrittenStep],
        wrapped: bool,
        key: &str,
    ) -> Result<Transaction, ValidationError> {
        let begin = wrapped.then(|| self.fixed("BEGIN", false));
        let mut steps = Vec::new();
        for (position, step) in written.iter().enumerate() {
            let step = self.step(step, &format!("{key}.steps[{position}]"))?;
            if step.times > 0 {
                steps.push(step);
            }
        }
        if steps.is_empty() {
            return Err(ValidationError::new(
                format!("{key}.steps"),
                "has nothing to do at these values",
            ));
        }
        self.check_answers(&steps, key)?;
        let is_prepared = self.context.protocol == Protocol::Prepared;
        Ok(Transaction {
            weights: 0,
            timed: true,
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
        let mut statement = Statement::text(text, TextPieces::plain(text));
        if is_prepared {
            statement.prepare();
        }
        self.statements.push(statement);
        self.needs.push(RequiredGenerators::new());
        small(self.statements.len() - 1)
    }

    fn step(&mut self, written: &WrittenStep, key: &str) -> Result<Step, ValidationError> {
        if written.statements.is_empty() {
            return Err(ValidationError::new(format!("{key}.statements"), "is empty"));
        }
        let one = Number::Integer(1);
        let times = written.times.as_ref().unwrap_or(&one);
        let times =
            self.context.values.integer_in(times, 0..=MAX_TIMES, &format!("{key}.times"))?;
        let mut scope = Scope::default();
        let mut statements = Vec::new();
        for (position, name) in written.statements.iter().enumerate() {
            let index = self.statement(name, &format!("{key}.statements[{position}]"))?;
            for (generator, key) in &self.needs[usize::from(index)] {
                self.generators.slot(generator, key, &mut scope)?;
            }
            statements.push(index);
        }
        let asks_table = statements.iter().any(|&s| self.statements[usize::from(s)].per_table);
        let by_permutation = scope.generation.iter().any(|generated| {
            matches!(
                self.generators.compiled[usize::from(generated.generator)].source,
                ValueSource::Permutation { .. }
            )
        });
        let tables = self.context.tables;
        let condition = match (&written.only_if, &written.unless) {
            (None, None) => None,
            (Some(name), None) => Some(self.condition(name, true, &format!("{key}.only_if"))?),
            (None, Some(name)) => Some(self.condition(name, false, &format!("{key}.unless"))?),
            (Some(_), Some(_)) => {
                return Err(ValidationError::new(key, "has both only_if and unless"));
            }
        };
        Ok(Step {
            condition,
            statements,
            times: u32::try_from(times).expect("the range is checked"),
            generation: scope.generation,
            draws_table: asks_table && !by_permutation && !tables.by_client && tables.count() > 1,
        })
    }

    /// Compile the condition that the generator `name` is for a step.
    fn condition(
        &mut self,
        name: &str,
        wants_non_zero: bool,
        key: &str,
    ) -> Result<Condition, ValidationError> {
        let mut scope = Scope::default();
        let slot = self.generators.slot(name, key, &mut scope)?;
        let is_of_answer = |generated: &GenerationStep| {
            let source = &self.generators.compiled[usize::from(generated.generator)].source;
            matches!(source, ValueSource::Answer { .. } | ValueSource::Derived { .. })
        };
        if !scope.generation.iter().all(is_of_answer) {
            let message = format!("{name:?} is not made from an answer");
            return Err(ValidationError::new(key, message));
        }
        Ok(Condition { generation: scope.generation, slot, wants_non_zero })
    }

    /// Check that each generator made from an answer comes after its statement.
    fn check_answers(&self, steps: &[Step], key: &str) -> Result<(), ValidationError> {
        let mut asked = HashSet::new();
        for step in steps {
            let statements = step.statements.iter();
            let statements: Vec<&Statement> =
                statements.map(|&statement| &self.statements[usize::from(statement)]).collect();
            let of_terms = statements.iter().filter_map(|other| other.terms.as_ref());
            let of_terms = of_terms.flat_map(|terms| &terms.generation);
            let of_condition = step.condition.iter().flat_map(|other| &other.generation);
            for generated in step.generation.iter().chain(of_condition).chain(of_terms) {
                let generator = &self.generators.compiled[usize::from(generated.generator)];
                if let ValueSource::Answer { from, .. } = &generator.source
                    && !asked.contains(from.as_str())
                {
                    let message = format!("no earlier step of {key} asks {from:?}");
                    return Err(ValidationError::new(
                        format!("generators.{}.from", generator.name),
                        message,
                    ));
                }
            }
            asked.extend(statements.iter().map(|statement| statement.name.as_str()));
        }
        Ok(())
    }

    fn statement(&mut self, name: &str, key: &str) -> Result<u16, ValidationError> {
        if let Some(known) = self.statements.iter().position(|other| other.name == name) {
            return Ok(small(known));
        }
        let (statement, needs) = self.context.statement(name, key, &mut self.generators)?;
        self.statements.push(statement);
        self.needs.push(needs);
        Ok(small(self.statements.len() - 1))
    }

    fn uses(&self, steps: &[Step]) -> Vec<u64> {
        let mut uses = vec![0; self.generators.counted.len()];
        let mut count = |generation: &[GenerationStep], times: u64| {
            for generated in generation {
                if self.generators.counted.contains(&generated.generator) {
                    uses[usize::from(generated.other)] += times;
                }
            }
        };
        for step in steps {
            count(&step.generation, u64::from(step.times));
            for &statement in &step.statements {
                if let Some(terms) = &self.statements[usize::from(statement)].terms {
                    count(&terms.generation, u64::from(step.times) * u64::from(terms.times));
                }
            }
        }
        uses
    }
}
