//! Values that a transaction takes from the server's answers, and the conditions of steps that
//! depend on them.

use protocol::script::{Answer, Observe, Row, RowFormat};

use super::definition::AnswerValue;
use super::generated::GeneratedValues;
use super::generation::{Answered, GenerationStep, GeneratorState};
use super::generator::{AnswerForm, AnswerPart, CompiledGenerator, LONGEST_ANSWER, ValueSource};
use super::statement::{Capture, Statement};
use super::tails::Tail;

/// The condition of a step or a loop.
#[derive(Debug)]
pub struct Condition {
    /// The steps that make the value: generators of lasting values, that is, of answers and of values
    /// computed from them.
    pub generation: Vec<GenerationStep>,
    pub slot: u16,
    /// If true, the step runs if the value is not 0; otherwise it runs if the value is 0.
    pub wants_non_zero: bool,
}

/// Assign to each statement the values to capture for the generators `answers`.
pub fn assign(statements: &mut [Statement], generators: &[CompiledGenerator], answers: &[u16]) {
    for (answer, &generator) in answers.iter().enumerate() {
        let generator = &generators[usize::from(generator)];
        let ValueSource::Answer { from, part, form, default, row } = &generator.source else {
            unreachable!("{} is not made from an answer", generator.name);
        };
        let asked = statements.iter_mut().find(|other| other.name == *from);
        asked.expect("the steps are checked").takes.push(Capture {
            answer,
            part: *part,
            form: *form,
            of_all_rows: row.is_some(),
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
        } else if statement.takes.iter().any(|taken| taken.of_all_rows) {
            Observe::Rows(format)
        } else {
            Observe::FirstRow(format)
        };
    }
}

/// Store the captured values of an answer to `statement` in `answers`.
pub fn take(
    statement: &Statement,
    answer: &Answer,
    answers: &mut [Answered],
) -> Result<(), String> {
    for taken in &statement.takes {
        let into = &mut answers[taken.answer];
        into.clear();
        let column = match taken.part {
            AnswerPart::Column(column) => column,
            AnswerPart::Value(value) => {
                let count = match value {
                    AnswerValue::Rows => answer.rows,
                    AnswerValue::AffectedRows => answer.affected_rows,
                    AnswerValue::LastInsertId => answer.last_insert_id,
                };
                into.numbers.push(i64::try_from(count).unwrap_or(i64::MAX));
                continue;
            }
        };
        for row in answer.row.iter().chain(&answer.more_rows) {
            match (taken.form, value_in(statement, row, column)?) {
                (AnswerForm::Number { .. }, None) => into.numbers.push(taken.default),
                (AnswerForm::Number { scale }, Some(text)) => {
                    let number = units(text, scale).ok_or_else(|| {
                        let fraction = format!("not a number with {scale} digits after the point");
                        let what = if scale == 0 { NOT_WHOLE } else { &fraction };
                        wrong(statement, column, text, what)
                    })?;
                    into.numbers.push(number);
                }
                (AnswerForm::Text, None) => into.texts.push(taken.default.to_string()),
                (AnswerForm::Text, Some(text)) if text.len() > LONGEST_ANSWER => {
                    let what = format!("more than {LONGEST_ANSWER} bytes");
                    return Err(wrong(statement, column, text, &what));
                }
                (AnswerForm::Text, Some(text)) => into.texts.push(text.clone()),
            }
        }
    }
    Ok(())
}

const NOT_WHOLE: &str = "not a whole number of 64 bits";

/// Return the value in a column of a row; None if it is NULL.
fn value_in<'a>(
    statement: &Statement,
    row: &'a Row,
    column: usize,
) -> Result<Option<&'a String>, String> {
    let (name, columns) = (&statement.name, row.len());
    let missing = || format!("statement {name} gave {columns} columns, and not {}", column + 1);
    Ok(row.get(column).ok_or_else(missing)?.as_ref())
}

/// Return an error message for a value that is `what`; it quotes the beginning of the value.
fn wrong(statement: &Statement, column: usize, text: &str, what: &str) -> String {
    const SHOWN: usize = 40;
    let text: String = text.chars().take(SHOWN).collect();
    format!("column {} of statement {} gave {text:?}, which is {what}", column + 1, statement.name)
}

/// Remember where a long answer ended. After a short answer, forget the end that its statement
/// continued from.
pub fn remember(
    statement: &Statement,
    answer: &Answer,
    state: &mut GeneratorState,
    made: &GeneratedValues,
) -> Result<(), String> {
    let Some(remembered) = &statement.remembers else {
        return Ok(());
    };
    let column = remembered.column;
    let value = answer.row.as_ref().map(|row| value_in(statement, row, column)).transpose()?;
    let parse = |text: &String| text.parse().map_err(|_| wrong(statement, column, text, NOT_WHOLE));
    let end = value.flatten().map(parse).transpose()?;
    let tail = end.map(|end| Tail {
        values: remembered.slots.iter().map(|&slot| made.integer(slot)).collect(),
        end,
    });
    state.tails.take(tail, remembered.goes_on, remembered.at_most, state.random);
    Ok(())
}

/// Return a number in units of 10^-scale; None if the text is not a number or has too many digits.
fn units(text: &str, scale: u32) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.trim_start_matches('-').is_empty() {
        return None;
    }
    let scale = scale as usize;
    let (kept, rest) = fraction.split_at_checked(scale.min(fraction.len()))?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) || rest.bytes().any(|byte| byte != b'0')
    {
        return None;
    }
    format!("{whole}{kept:0<scale$}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_units_of_their_last_digit() {
        assert_eq!(units("-12.3", 2), Some(-1230));
        assert_eq!(units("-0.05", 2), Some(-5));
        assert_eq!(units("7", 2), Some(700));
        assert_eq!(units("7.000", 0), Some(7));
        assert_eq!(units("7.125", 2), None);
        assert_eq!(units("9223372036854775807", 0), Some(i64::MAX));
        assert_eq!(units("9223372036854775807", 1), None);
        for text in ["", "a", "1e3", "1.2.3", "1.-2", "\u{e9}.\u{e9}"] {
            assert_eq!(units(text, 2), None, "{text}");
        }
    }
}
