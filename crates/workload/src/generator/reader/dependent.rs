//! Generators that take from others or from answers.

use std::ops::RangeInclusive;

use super::super::{AnswerForm, AnswerPart, ValueSource};
use super::{MAX_COLUMNS, Reader, is_plain};
use crate::arithmetic::{self, Part};
use crate::definition::{Number, Value};
use crate::validation::ValidationError;
use datagen::column::Words;
use datagen::expression::{Expression, Operation};

/// Digits of a number in words.
const MOST_DIGITS: RangeInclusive<i64> = 1..=64;

impl Reader<'_> {
    /// Compile a value of an answer.
    pub(super) fn answer(&self) -> Result<ValueSource, ValidationError> {
        let part = match (&self.generator.column, &self.generator.value) {
            (Some(column), None) => {
                let column = self.values.integer_in(column, 1..=MAX_COLUMNS, &self.at("column"))?;
                AnswerPart::Column(usize::try_from(column - 1).expect("the range is checked"))
            }
            (None, Some(Value::Text(name))) => match name.as_str() {
                "rows" => AnswerPart::Rows,
                "affected_rows" => AnswerPart::AffectedRows,
                "last_insert_id" => AnswerPart::LastInsertId,
                other => {
                    let known = ["rows", "affected_rows", "last_insert_id"];
                    return Err(ValidationError::unknown(
                        self.at("value"),
                        "part of an answer",
                        other,
                        known,
                    ));
                }
            },
            _ => {
                let message = "expected either value, such as \"affected_rows\", or column";
                return Err(ValidationError::new(&self.key, message));
            }
        };
        let scale = self.scale()?;
        let form = match (self.generator.as_form.as_deref(), scale) {
            (None, scale) => AnswerForm::Number { scale: scale.unwrap_or(0) },
            (Some("text"), None) => AnswerForm::Text,
            (Some("text"), Some(_)) => {
                return Err(ValidationError::new(self.at("scale"), "has no meaning of a text"));
            }
            (Some(other), _) => {
                let message = format!("{other:?} is not known, expected \"text\"");
                return Err(ValidationError::new(self.at("as"), message));
            }
        };
        let row = self.generator.row.clone();
        if !matches!(part, AnswerPart::Column(_)) {
            let misplaced = [("row", row.is_some()), ("as", form == AnswerForm::Text)];
            let misplaced = [&misplaced[..], &[("scale", scale.is_some())]].concat();
            if let Some((key, _)) = misplaced.into_iter().find(|(_, is_given)| *is_given) {
                return Err(ValidationError::new(self.at(key), "is of a column"));
            }
        }
        Ok(ValueSource::Answer {
            from: self.from()?,
            part,
            form,
            default: self.integer_or(self.generator.default.as_ref(), "default", 0)?,
            row,
        })
    }

    /// Compile arithmetic over others.
    pub(super) fn computed(&self) -> Result<ValueSource, ValidationError> {
        let key = self.at("value");
        let Some(Value::Text(text)) = &self.generator.value else {
            return Err(ValidationError::new(key, "expected a text of arithmetic over generators"));
        };
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
            scale: self.scale()?,
        })
    }

    /// Compile the digits of another in words.
    pub(super) fn words(&self) -> Result<ValueSource, ValidationError> {
        let words = self.generator.words.as_deref().unwrap_or_default();
        if words.is_empty() {
            return Err(ValidationError::new(self.at("words"), "there are none"));
        }
        if let Some(word) = words.iter().find(|word| !word.bytes().all(is_plain)) {
            let message = format!("{word:?} has other characters than printable ASCII, or ' or \\");
            return Err(ValidationError::new(self.at("words"), message));
        }
        let one = Number::Integer(1);
        let digits = self.generator.digits.as_ref().unwrap_or(&one);
        let digits = self.values.integer_in(digits, MOST_DIGITS, &self.at("digits"))?;
        Ok(ValueSource::Words {
            from: self.from()?,
            words: Words {
                words: words.iter().map(|word| word.as_bytes().into()).collect(),
                digits: u32::try_from(digits).expect("the range is checked"),
            },
        })
    }
}
