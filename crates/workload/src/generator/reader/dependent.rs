//! Generators that take from others or from answers.

use std::ops::RangeInclusive;

use super::super::{AnswerForm, AnswerPart, ValueSource};
use super::{MAX_COLUMNS, Reader, is_plain};
use crate::arithmetic::{self, Part};
use crate::definition::{Answer, Number};
use crate::validation::ValidationError;
use datagen::column::Words;
use datagen::expression::{Expression, Operation};

/// Digits of a number in words.
const MOST_DIGITS: RangeInclusive<i64> = 1..=64;

impl Reader<'_> {
    /// Compile a value of an answer.
    pub(super) fn answer(&self, answer: &Answer) -> Result<ValueSource, ValidationError> {
        let part = match (&answer.column, answer.value) {
            (Some(column), None) => {
                let column = self.values.integer_in(column, 1..=MAX_COLUMNS, &self.at("column"))?;
                AnswerPart::Column(usize::try_from(column - 1).expect("the range is checked"))
            }
            (None, Some(value)) => AnswerPart::Value(value),
            _ => {
                let message = "expected either value, such as \"affected_rows\", or column";
                return Err(ValidationError::new(&self.key, message));
            }
        };
        let scale = self.scale(answer.scale.as_ref())?;
        let form = match (answer.form, scale) {
            (None, scale) => AnswerForm::Number { scale: scale.unwrap_or(0) },
            (Some(_), None) => AnswerForm::Text,
            (Some(_), Some(_)) => {
                return Err(ValidationError::new(self.at("scale"), "has no meaning of a text"));
            }
        };
        if !matches!(part, AnswerPart::Column(_)) {
            let of_columns = [
                ("row", answer.row.is_some()),
                ("as", answer.form.is_some()),
                ("scale", scale.is_some()),
            ];
            self.refuse(&of_columns, "is of a column")?;
        }
        Ok(ValueSource::Answer {
            from: answer.from.clone(),
            part,
            form,
            default: self.integer_or(answer.default.as_ref(), "default", 0)?,
            row: answer.row.clone(),
        })
    }

    /// Compile arithmetic over others.
    pub(super) fn computed(
        &self,
        text: &str,
        scale: Option<&Number>,
    ) -> Result<ValueSource, ValidationError> {
        let key = self.at("value");
        let wrong = |why: String| ValidationError::new(&key, format!("{text:?}: {why}"));
        let mut from: Vec<String> = Vec::new();
        let mut operations = Vec::new();
        for part in arithmetic::parse(text, true).map_err(wrong)? {
            operations.push(match part {
                Part::Number(number) => {
                    let number = i64::try_from(number);
                    Operation::Number(number.map_err(|_| wrong("a number is too large".into()))?)
                }
                Part::Value(name) => {
                    let value = Number::Expression(format!("{{{name}}}"));
                    Operation::Number(self.values.integer(&value, &key)?)
                }
                Part::Generator(name) => Operation::Input(
                    from.iter().position(|other| *other == name).unwrap_or_else(|| {
                        from.push(name);
                        from.len() - 1
                    }),
                ),
                Part::Negate => Operation::Negate,
                Part::Apply(operator) => Operation::Apply(operator),
                Part::Choose => Operation::Choose,
            });
        }
        Ok(ValueSource::Computed {
            expression: Expression::new(operations)
                .ok_or_else(|| wrong("it has too many parts within parts".into()))?,
            from: from.into(),
            named_in: "value",
            scale: self.scale(scale)?,
        })
    }

    /// Compile the digits of another in words.
    pub(super) fn words(
        &self,
        from: &str,
        words: &[String],
        digits: Option<&Number>,
    ) -> Result<ValueSource, ValidationError> {
        if words.is_empty() {
            return Err(ValidationError::new(self.at("words"), "there are none"));
        }
        if let Some(word) = words.iter().find(|word| !word.bytes().all(is_plain)) {
            let message = format!("{word:?} has other characters than printable ASCII, or ' or \\");
            return Err(ValidationError::new(self.at("words"), message));
        }
        let digits = digits.unwrap_or(&Number::Integer(1));
        let digits = self.values.integer_in(digits, MOST_DIGITS, &self.at("digits"))?;
        Ok(ValueSource::Words {
            from: from.to_owned(),
            words: Words {
                words: words.iter().map(|word| word.as_bytes().into()).collect(),
                digits: u32::try_from(digits).expect("the range is checked"),
            },
        })
    }
}
