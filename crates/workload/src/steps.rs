//! A test's transactions and steps, with the statements and generators they need.

use std::collections::HashSet;

use super::answers::Condition;
use super::compile::{CompileContext, RequiredGenerators};
use super::definition::{Number, Protocol, Step as WrittenStep, Test};
use super::flat_steps::FlatSteps;
use super::generation::{GenerationStep, GeneratorCompiler, Scope, small};
use super::generator::{Form, ValueSource};
use super::plan::{Loop, Step, Times, Transaction};
use super::statement::{Statement, TextPieces};
use crate::validation::ValidationError;

/// Repetitions of a step or a loop, and a weight, at most.
pub const MAX_TIMES: i64 = 1_000_000;

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
        let mut flat = FlatSteps::default();
        self.append(written, &format!("{key}.steps"), None, &mut flat)?;
        let FlatSteps { steps, loops, .. } = flat;
        let Some(first) = steps.first() else {
            return Err(ValidationError::new(
                format!("{key}.steps"),
                "has nothing to do at these values",
            ));
        };
        if begin.is_none() {
            let of_loop = first.in_loop.map(|number| &loops[number]);
            let may_be_left_out = first.condition.is_some()
                || of_loop.is_some_and(|first| {
                    first.condition.is_some() || matches!(first.times, Times::Made { .. })
                });
            if may_be_left_out {
                let message = "may be left out, and no BEGIN comes before it: a transaction begins \
                               with what is always done";
                return Err(ValidationError::new(format!("{key}.steps[0]"), message));
            }
            if steps.iter().any(|step| step.statements.is_empty()) {
                let message = "has a rollback, but no transaction = true";
                return Err(ValidationError::new(format!("{key}.steps"), message));
            }
        }
        self.check_answers(&steps, &loops, key)?;
        let is_prepared = self.context.protocol == Protocol::Prepared;
        let rolls_back = steps.iter().any(|step| step.statements.is_empty());
        Ok(Transaction {
            weights: 0,
            timed: true,
            begin,
            commit: wrapped.then(|| self.fixed("COMMIT", is_prepared)),
            rollback: rolls_back.then(|| self.fixed("ROLLBACK", is_prepared)),
            is_fixed: loops.is_empty()
                && !rolls_back
                && steps.iter().all(|step| step.condition.is_none()),
            uses: self.uses(&steps, &loops, key)?,
            steps,
            loops,
        })
    }

    /// Append steps as they are done one after the other; a loop has none in it.
    fn append(
        &mut self,
        written: &[WrittenStep],
        key: &str,
        in_loop: Option<usize>,
        flat: &mut FlatSteps,
    ) -> Result<(), ValidationError> {
        for (position, step) in written.iter().enumerate() {
            let key = format!("{key}[{position}]");
            if step.steps.is_empty() {
                let step = Step { in_loop, ..self.step(step, &key, &mut flat.scope)? };
                flat.push(step, &key)?;
                continue;
            }
            if in_loop.is_some() {
                return Err(ValidationError::new(format!("{key}.steps"), "is a loop in a loop"));
            }
            if !step.statements.is_empty() || step.rollback {
                let message = "has either statements, steps or a rollback";
                return Err(ValidationError::new(key, message));
            }
            let times = self.loop_times(step.times.as_ref(), &format!("{key}.times"))?;
            let condition = self.step_condition(step, &key)?;
            if matches!(times, Times::Always(0)) {
                continue;
            }
            let number = flat.begin_loop(times, condition);
            self.append(&step.steps, &format!("{key}.steps"), Some(number), flat)?;
            flat.end_loop(number, &key)?;
        }
        Ok(())
    }

    fn loop_times(&mut self, times: Option<&Number>, key: &str) -> Result<Times, ValidationError> {
        let one = Number::Integer(1);
        let times = times.unwrap_or(&one);
        if let Number::Expression(name) = times
            && self.generators.definition.contains_key(name)
        {
            let (generation, slot) = self.lasting(name, key)?;
            return Ok(Times::Made { generation, slot });
        }
        let times = self.context.values.integer_in(times, 0..=MAX_TIMES, key)?;
        Ok(Times::Always(u32::try_from(times).expect("the range is checked")))
    }

    /// BEGIN, COMMIT or ROLLBACK. The servers do not prepare the first, as they do not for sysbench.
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

    /// Compile a step; `scope` is that of the step before, and becomes its own.
    fn step(
        &mut self,
        written: &WrittenStep,
        key: &str,
        scope: &mut Scope,
    ) -> Result<Step, ValidationError> {
        if written.statements.is_empty() != written.rollback {
            let message = "has either statements, steps or a rollback";
            return Err(ValidationError::new(key, message));
        }
        let one = Number::Integer(1);
        let times = written.times.as_ref().unwrap_or(&one);
        let times =
            self.context.values.integer_in(times, 0..=MAX_TIMES, &format!("{key}.times"))?;
        if written.same_values && times != 1 {
            let message = "has no meaning in a step that is repeated";
            return Err(ValidationError::new(format!("{key}.same_values"), message));
        }
        if !written.same_values {
            *scope = Scope::default();
        }
        let mut statements = Vec::new();
        for (position, name) in written.statements.iter().enumerate() {
            let index = self.statement(name, &format!("{key}.statements[{position}]"))?;
            for (generator, key) in &self.needs[usize::from(index)] {
                self.generators.slot(generator, key, scope)?;
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
        Ok(Step {
            in_loop: None,
            condition: self.step_condition(written, key)?,
            statements,
            times: u32::try_from(times).expect("the range is checked"),
            same_values: written.same_values,
            generation: Vec::new(),
            draws_table: asks_table && !by_permutation && !tables.by_client && tables.count() > 1,
        })
    }

    fn step_condition(
        &mut self,
        written: &WrittenStep,
        key: &str,
    ) -> Result<Option<Condition>, ValidationError> {
        let (name, wants_non_zero, key) = match (&written.only_if, &written.unless) {
            (None, None) => return Ok(None),
            (Some(name), None) => (name, true, format!("{key}.only_if")),
            (None, Some(name)) => (name, false, format!("{key}.unless")),
            (Some(_), Some(_)) => {
                return Err(ValidationError::new(key, "has both only_if and unless"));
            }
        };
        let (generation, slot) = self.lasting(name, &key)?;
        Ok(Some(Condition { generation, slot, wants_non_zero }))
    }

    /// Return how the generator `name` is made outside of a step's repetitions, and its slot.
    fn lasting(
        &mut self,
        name: &str,
        key: &str,
    ) -> Result<(Vec<GenerationStep>, u16), ValidationError> {
        let mut scope = Scope::default();
        let slot = self.generators.slot(name, key, &mut scope)?;
        let lasts = |generated: &GenerationStep| {
            matches!(
                self.generators.compiled[usize::from(generated.generator)].source,
                ValueSource::Answer { .. }
                    | ValueSource::ConstantInteger(_)
                    | ValueSource::Computed { .. }
                    | ValueSource::Iteration
                    | ValueSource::Lasting { .. }
            )
        };
        if !scope.generation.iter().all(lasts) {
            let message = format!(
                "{name:?} is made anew for each repetition of a step; expected one made from an \
                 answer, or with per = \"transaction\""
            );
            return Err(ValidationError::new(key, message));
        }
        let generator = self.generators.generator_of(slot, &scope);
        if generator.form() != Form::Integer || generator.is_list {
            let message = format!("{name:?} is not a single whole number");
            return Err(ValidationError::new(key, message));
        }
        Ok((scope.generation, slot))
    }

    /// Check that each generator made from an answer comes after its statement.
    fn check_answers(
        &self,
        steps: &[Step],
        loops: &[Loop],
        key: &str,
    ) -> Result<(), ValidationError> {
        let mut asked = HashSet::new();
        for (position, step) in steps.iter().enumerate() {
            let entered = loops.iter().filter(|each| each.begin == position);
            let of_loop = entered.flat_map(|entered| {
                let of_times = match &entered.times {
                    Times::Always(_) => &[][..],
                    Times::Made { generation, .. } => generation,
                };
                let of_condition = entered.condition.iter().flat_map(|other| &other.generation);
                of_times.iter().chain(of_condition)
            });
            let statements = step.statements.iter();
            let statements: Vec<&Statement> =
                statements.map(|&statement| &self.statements[usize::from(statement)]).collect();
            let of_terms = statements.iter().filter_map(|other| other.terms.as_ref());
            let of_terms = of_terms.flat_map(|terms| &terms.generation);
            let of_condition = step.condition.iter().flat_map(|other| &other.generation);
            let of_step = step.generation.iter().chain(of_condition).chain(of_terms);
            for generated in of_step.chain(of_loop) {
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

    /// Return the number of values that a transaction takes from each counter.
    fn uses(&self, steps: &[Step], loops: &[Loop], key: &str) -> Result<Vec<u64>, ValidationError> {
        let mut uses = vec![0_u64; self.generators.counted.len()];
        let mut count = |generation: &[GenerationStep], times: Option<u64>| {
            for generated in generation {
                if self.generators.counted.contains(&generated.generator) {
                    let Some(times) = times else {
                        let name = &self.generators.compiled[usize::from(generated.generator)].name;
                        let message = format!(
                            "{name:?} is a running number, which has no place in a loop whose times \
                             are a generator's"
                        );
                        return Err(ValidationError::new(format!("{key}.steps"), message));
                    };
                    uses[usize::from(generated.other)] += times;
                }
            }
            Ok(())
        };
        for step in steps {
            let iterations = match step.in_loop.map(|number| &loops[number].times) {
                None => Some(1),
                Some(Times::Always(times)) => Some(u64::from(*times)),
                Some(Times::Made { .. }) => None,
            };
            let times = iterations.map(|iterations| iterations * u64::from(step.times));
            count(&step.generation, times)?;
            for &statement in &step.statements {
                if let Some(terms) = &self.statements[usize::from(statement)].terms {
                    let times = times.map(|times| times * u64::from(terms.times));
                    count(&terms.generation, times)?;
                }
            }
        }
        Ok(uses)
    }
}
