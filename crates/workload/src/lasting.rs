//! Values that last longer than a repetition of a step: those taken from answers, and those that are made
//! once for an iteration or a transaction.

use super::definition::Lifetime;
use super::generated::GeneratedValues;
use super::generation::{GenerationStep, GeneratorCompiler, GeneratorState};
use super::generator::{AnswerForm, CompiledGenerator, Form, ValueSource};
use datagen::put_decimal;

/// The values of one column of an answer, or one of its counts: numbers or texts.
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

impl GeneratorState {
    /// Put the value of a row of the last answer.
    pub(super) fn put_answer(
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
                Some(text) => push_bytes(text.as_bytes(), made),
                None => push_bytes(default.to_string().as_bytes(), made),
            },
        }
    }

    /// Put the values that last, which are made where they are not yet.
    pub(super) fn put_lasting(
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

/// Put a whole number, or a decimal in units of 10^-scale.
#[inline]
pub fn put_number(slot: u16, value: i64, scale: Option<u32>, made: &mut GeneratedValues) {
    made.begin(slot, 1);
    match scale {
        None => made.push(value),
        Some(scale) => made.push_text(48, |out| put_decimal(out, value, scale)),
    }
}

#[inline]
fn push_bytes(text: &[u8], made: &mut GeneratedValues) {
    made.push_text(text.len(), |out| {
        out.copy_from_slice(text);
        text.len()
    });
}

impl GeneratorCompiler<'_> {
    /// Return the numbers of the values that last for an iteration only.
    pub fn of_iterations(&self) -> Vec<u16> {
        let lasting = (0..).zip(&self.lasting);
        let of_iteration = lasting.filter(|(_, generator)| {
            let source = &self.compiled[usize::from(**generator)].source;
            matches!(source, ValueSource::Lasting { lifetime: Lifetime::Iteration, .. })
        });
        of_iteration.map(|(number, _)| number).collect()
    }
}
