//! Numbers that a transaction takes from answers, and steps that depend on them.

use protocol::script::{Answer, Observe, RowFormat};

use super::generated::GeneratedValues;
use super::generation::{GenerationStep, GeneratorState};
use super::generator::{AnswerPart, CompiledGenerator, ValueSource};
use super::statement::{Capture, Statement};

/// A condition of a step.
#[derive(Debug)]
pub struct Condition {
    /// Generators that take from answers alone.
    pub generation: Vec<GenerationStep>,
    pub slot: u16,
    /// The step is done where the value is not 0, or where it is.
    pub wants_non_zero: bool,
}

impl Condition {
    pub fn holds(
        &self,
        generators: &[CompiledGenerator],
        state: &mut GeneratorState,
        made: &mut GeneratedValues,
    ) -> bool {
        made.clear();
        state.make(&self.generation, generators, made);
        (made.integer(self.slot) != 0) == self.wants_non_zero
    }
}

/// Have each statement give the numbers that the generators `answers` are made from.
pub fn assign(statements: &mut [Statement], generators: &[CompiledGenerator], answers: &[u16]) {
    for (answer, &generator) in answers.iter().enumerate() {
        let generator = &generators[usize::from(generator)];
        let ValueSource::Answer { from, part, default } = &generator.source else {
            unreachable!("{} is not made from an answer", generator.name);
        };
        let asked = statements.iter_mut().find(|other| other.name == *from);
        asked.expect("the steps are checked").takes.push(Capture {
            answer,
            part: *part,
            default: *default,
        });
    }
    for statement in statements {
        let is_column = |taken: &Capture| matches!(taken.part, AnswerPart::Column(_));
        statement.observe = if statement.takes.is_empty() {
            Observe::Nothing
        } else if !statement.takes.iter().any(is_column) {
            Observe::Counts
        } else if statement.is_prepared() {
            Observe::FirstRow(RowFormat::Binary)
        } else {
            Observe::FirstRow(RowFormat::Text)
        };
    }
}

/// Take the numbers of an answer to `statement` into `answers`.
pub fn take(statement: &Statement, answer: &Answer, answers: &mut [i64]) -> Result<(), String> {
    for taken in &statement.takes {
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        answers[taken.answer] = match taken.part {
            AnswerPart::Rows => count(answer.rows),
            AnswerPart::AffectedRows => count(answer.affected_rows),
            AnswerPart::LastInsertId => count(answer.last_insert_id),
            AnswerPart::Column(column) => {
                let value = match &answer.first_row {
                    None => None,
                    Some(row) => row
                        .get(column)
                        .ok_or_else(|| {
                            let (name, columns) = (&statement.name, row.len());
                            format!(
                                "statement {name} gave {columns} columns, and not {}",
                                column + 1
                            )
                        })?
                        .as_deref(),
                };
                value.map_or(Ok(taken.default), |text| {
                    text.parse().map_err(|_| {
                        let name = &statement.name;
                        format!("column {} of statement {name} gave {text:?}, and no whole number of 64 bits", column + 1)
                    })
                })?
            }
        };
    }
    Ok(())
}
