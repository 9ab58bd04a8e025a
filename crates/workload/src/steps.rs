//! Compiles a test's transactions and steps, with the statements and generators they need.

use std::collections::HashSet;

use super::answers::Condition;
use super::compile::{CompileContext, RequiredGenerators};
use super::definition::{Number, Protocol, Step as WrittenStep, Test};
use super::generation::{GenerationStep, GeneratorCompiler, Scope, small};
use super::generator::ValueSource;
use super::plan::{Loop, MAX_TIMES, Step, Times, Transaction};
use super::statement::{Statement, TextPieces};
use crate::validation::{ValidationError, refused};

/// A test that is being compiled.
pub struct Compiler<'a> {
    pub context: CompileContext<'a>,
    pub generators: GeneratorCompiler<'a>,
    pub statements: Vec<Statement>,
    /// For each statement, the generators that its step needs for it.
    pub needs: Vec<RequiredGenerators>,
}

const NOTHING_TO_DO: &str = "has nothing to do at these values";

const EITHER: &str = "has either statements, steps or a rollback";

impl Compiler<'_> {
    pub fn transactions(
        &mut self,
        name: &str,
        test: &Test,
        key: &str,
    ) -> Result<Vec<(String, Transaction)>, ValidationError> {
        match (test.steps.is_empty(), test.mix.is_empty()) {
            (false, true) => {
                let wrapped_key = format!("{key}.transaction");
                let wrapped = *self.context.values.choose(&test.transaction, &wrapped_key)?;
                let transaction = self.transaction(&test.steps, wrapped, key)?;
                Ok(vec![(name.to_owned(), Transaction { weights: 1, ..transaction })])
            }
            (true, false) => self.mix(test, key),
            _ => refused(key, "has either steps or a mix"),
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
                return refused(format!("{key}.name"), "is there twice");
            }
            let values = self.context.values;
            let weight_key = format!("{key}.weight");
            let weight: u64 = values.integer_in(&written.weight, 0..=MAX_TIMES, &weight_key)?;
            let wrapped = *values.choose(&written.transaction, &format!("{key}.transaction"))?;
            let timed = *values.choose(&written.timed, &format!("{key}.timed"))?;
            let transaction = self.transaction(&written.steps, wrapped, &key)?;
            weights += weight;
            let transaction = Transaction { weights, timed, ..transaction };
            transactions.push((written.name.clone(), transaction));
        }
        if weights == 0 {
            return refused(format!("{key}.mix"), "has no weight above 0");
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
        let steps_key = format!("{key}.steps");
        let mut flat = FlatSteps::default();
        self.append(written, &steps_key, None, &mut flat)?;
        let FlatSteps { steps, loops, .. } = flat;
        let Some(first) = steps.first() else {
            return refused(steps_key, NOTHING_TO_DO);
        };
        let rolls_back = steps.iter().any(|step| step.statements.is_empty());
        if begin.is_none() {
            let of_loop = first.in_loop.map(|number| &loops[number]);
            let may_be_left_out = first.condition.is_some()
                || of_loop.is_some_and(|first| {
                    first.condition.is_some() || matches!(first.times, Times::Made { .. })
                });
            if may_be_left_out {
                let message = "may be left out, and no BEGIN comes before it: a transaction begins \
                               with what is always done";
                return refused(format!("{steps_key}[0]"), message);
            }
            if rolls_back {
                return refused(steps_key, "has a rollback, but no transaction = true");
            }
        }
        self.check_answers(&steps, &loops, key)?;
        let is_prepared = self.context.protocol == Protocol::Prepared;
        Ok(Transaction {
            weights: 0,
            timed: true,
            begin,
            commit: wrapped.then(|| self.fixed("COMMIT", is_prepared)),
            rollback: rolls_back.then(|| self.fixed("ROLLBACK", is_prepared)),
            is_fixed: loops.is_empty()
                && !rolls_back
                && steps.iter().all(|step| step.condition.is_none()),
            uses: self.uses(&steps, &loops, &steps_key)?,
            steps,
            loops,
        })
    }

    /// Append steps in the order in which they run. A loop cannot contain another loop.
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
                return refused(format!("{key}.steps"), "is a loop in a loop");
            }
            if !step.statements.is_empty() || step.rollback {
                return refused(key, EITHER);
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
        if let Some(Number::Expression(name)) = times
            && self.generators.definition.contains_key(name)
        {
            let (generation, slot) = self.lasting(name, key)?;
            return Ok(Times::Made { generation, slot });
        }
        Ok(Times::Always(self.context.values.integer_in_or(times, 1, 0..=MAX_TIMES, key)?))
    }

    /// Return the index of BEGIN, COMMIT or ROLLBACK. Servers do not prepare BEGIN; sysbench does
    /// not prepare it either.
    fn fixed(&mut self, text: &str, is_prepared: bool) -> u16 {
        self.position(text).unwrap_or_else(|| {
            let mut statement = Statement::text(text, TextPieces::plain(text));
            if is_prepared {
                statement.prepare();
            }
            self.push(statement, RequiredGenerators::new())
        })
    }

    /// Compile a step. `scope` is the scope of the step before, and becomes that of this step.
    fn step(
        &mut self,
        written: &WrittenStep,
        key: &str,
        scope: &mut Scope,
    ) -> Result<Step, ValidationError> {
        if written.statements.is_empty() != written.rollback {
            return refused(key, EITHER);
        }
        let (times, times_key) = (written.times.as_ref(), format!("{key}.times"));
        let times = self.context.values.integer_in_or(times, 1, 0..=MAX_TIMES, &times_key)?;
        if written.same_values && times != 1 {
            let message = "has no meaning in a step that is repeated";
            return refused(format!("{key}.same_values"), message);
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
        let asks_table = statements.iter().any(|&index| self.statement_at(index).per_table);
        let by_permutation = self.generators.has_permutation(scope);
        let tables = self.context.tables;
        Ok(Step {
            in_loop: None,
            condition: self.step_condition(written, key)?,
            statements,
            times,
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
            (Some(_), Some(_)) => return refused(key, "has both only_if and unless"),
        };
        let (generation, slot) = self.lasting(name, &key)?;
        Ok(Some(Condition { generation, slot, wants_non_zero }))
    }

    /// Return how to generate `name` outside of a step's repetitions, and its slot.
    fn lasting(
        &mut self,
        name: &str,
        key: &str,
    ) -> Result<(Vec<GenerationStep>, u16), ValidationError> {
        let mut scope = Scope::default();
        let slot = self.generators.slot(name, key, &mut scope)?;
        let lasts = |generated: &GenerationStep| {
            matches!(
                self.generators.generator(generated).source,
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
            return refused(key, message);
        }
        self.generators.check_integer(name, slot, &scope, key)?;
        Ok((scope.generation, slot))
    }

    /// Check that each generator of an answer's value is used only after the statement that it
    /// takes from.
    fn check_answers(
        &self,
        steps: &[Step],
        loops: &[Loop],
        key: &str,
    ) -> Result<(), ValidationError> {
        let mut asked = HashSet::new();
        for (position, step) in steps.iter().enumerate() {
            let entered = loops.iter().filter(|each| each.begin == position);
            let of_times = entered.clone().filter_map(|each| match &each.times {
                Times::Always(_) => None,
                Times::Made { generation, .. } => Some(generation),
            });
            let conditions = entered.filter_map(|each| each.condition.as_ref());
            let of_conditions =
                conditions.chain(&step.condition).map(|condition| &condition.generation);
            let statements = step.statements.iter().map(|&index| self.statement_at(index));
            let terms = statements.clone().filter_map(|statement| statement.terms.as_ref());
            let of_terms = terms.map(|terms| &terms.generation);
            let all = [&step.generation].into_iter().chain(of_conditions).chain(of_terms);
            for generated in all.chain(of_times).flatten() {
                let generator = self.generators.generator(generated);
                if let ValueSource::Answer { from, .. } = &generator.source
                    && !asked.contains(from.as_str())
                {
                    let message = format!("no earlier step of {key} asks {from:?}");
                    return refused(format!("generators.{}.from", generator.name), message);
                }
            }
            asked.extend(statements.map(|statement| statement.name.as_str()));
        }
        Ok(())
    }

    fn statement(&mut self, name: &str, key: &str) -> Result<u16, ValidationError> {
        if let Some(known) = self.position(name) {
            return Ok(known);
        }
        let (statement, needs) = self.context.statement(name, key, &mut self.generators)?;
        Ok(self.push(statement, needs))
    }

    fn position(&self, name: &str) -> Option<u16> {
        self.statements.iter().position(|other| other.name == name).map(small)
    }

    fn push(&mut self, statement: Statement, needs: RequiredGenerators) -> u16 {
        self.statements.push(statement);
        self.needs.push(needs);
        small(self.statements.len() - 1)
    }

    fn statement_at(&self, index: u16) -> &Statement {
        &self.statements[usize::from(index)]
    }

    /// Return the number of values that a transaction takes from each counter.
    fn uses(&self, steps: &[Step], loops: &[Loop], key: &str) -> Result<Vec<u64>, ValidationError> {
        let mut uses = vec![0_u64; self.generators.used.counted.len()];
        let mut count = |generation: &[GenerationStep], times: Option<u64>| {
            for generated in generation {
                if self.generators.used.counted.contains(&generated.generator) {
                    let Some(times) = times else {
                        let name = &self.generators.generator(generated).name;
                        let message = "is a running number, which has no place in a loop whose \
                                       times are a generator's";
                        return refused(key, format!("{name:?} {message}"));
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
                if let Some(terms) = &self.statement_at(statement).terms {
                    let times = times.map(|times| times * u64::from(terms.times));
                    count(&terms.generation, times)?;
                }
            }
        }
        Ok(uses)
    }
}

/// The steps of a transaction in one list, and the loops over them.
#[derive(Default)]
struct FlatSteps {
    steps: Vec<Step>,
    loops: Vec<Loop>,
    /// The scope of the last step, and the step that generates its values: the first of those that
    /// share them.
    scope: Scope,
    maker: Option<usize>,
}

impl FlatSteps {
    /// Append a step, unless it has no repetitions, and have its values generated.
    fn push(&mut self, step: Step, key: &str) -> Result<(), ValidationError> {
        if !step.same_values {
            self.maker = (step.times > 0).then_some(self.steps.len());
        }
        if step.times == 0 {
            return Ok(());
        }
        self.steps.push(step);
        let Some(maker) = self.maker else {
            let message = "has the values of the step before it, and there is none";
            return refused(format!("{key}.same_values"), message);
        };
        self.steps[maker].generation.clone_from(&self.scope.generation);
        Ok(())
    }

    fn begin_loop(&mut self, times: Times, condition: Option<Condition>) -> usize {
        self.maker = None;
        let begin = self.steps.len();
        self.loops.push(Loop { begin, end: begin, times, condition });
        self.loops.len() - 1
    }

    fn end_loop(&mut self, number: usize, key: &str) -> Result<(), ValidationError> {
        self.maker = None;
        let entered = &mut self.loops[number];
        entered.end = self.steps.len();
        if entered.end > entered.begin {
            return Ok(());
        }
        refused(format!("{key}.steps"), NOTHING_TO_DO)
    }
}
