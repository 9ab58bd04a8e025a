//! Numbers that a transaction takes from answers, and steps that depend on them.

use protocol::script::{Answer, Observe, RowFormat};

use super::generated::GeneratedValues;
use super::generation::{GenerationStep, GeneratorState};
use super::generator::{AnswerPart, CompiledGenerator, ValueSource};
use super::statement::{Capture, Statement};
use super::tails::Tail;

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
        let format = if statement.is_prepared() { RowFormat::Binary } else { RowFormat::Text };
        statement.observe = if let Some(remembered) = &statement.remembers {
            Observe::LastRow { format, of_rows: remembered.rows }
        } else if statement.takes.is_empty() {
            Observe::Nothing
        } else if !statement.takes.iter().any(is_column) {
            Observe::Counts
        } else {
            Observe::FirstRow(format)
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
                number(statement, answer, column)?.unwrap_or(taken.default)
            }
        };
    }
    Ok(())
}

/// Return the number in a column of the observed row; None where there is no row, or it holds NULL.
fn number(statement: &Statement, answer: &Answer, column: usize) -> Result<Option<i64>, String> {
    let Some(row) = &answer.row else {
        return Ok(None);
    };
    let name = &statement.name;
    let value = row.get(column).ok_or_else(|| {
        format!("statement {name} gave {} columns, and not {}", row.len(), column + 1)
    })?;
    let parse = |text: &String| {
        text.parse().map_err(|_| {
            let column = column + 1;
            format!(
                "column {column} of statement {name} gave {text:?}, and no whole number of 64 bits"
            )
        })
    };
    value.as_ref().map(parse).transpose()
}

/// Remember where a long answer ended, or forget the end that a short one went on from.
pub fn remember(
    statement: &Statement,
    answer: &Answer,
    state: &mut GeneratorState,
    made: &GeneratedValues,
) -> Result<(), String> {
    let Some(remembered) = &statement.remembers else {
        return Ok(());
    };
    let end = number(statement, answer, remembered.column)?;
    let tail = end.map(|end| Tail {
        values: remembered.slots.iter().map(|&slot| made.integer(slot)).collect(),
        end,
    });
    state.tails.take(tail, remembered.goes_on, remembered.at_most, state.random);
    Ok(())
}
