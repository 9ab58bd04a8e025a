//! Integer arithmetic as workloads write it: `{table_size}/2+1`.
//!
//! `+ - * /`, a sign, parentheses, whole numbers and `{names}`. `/` rounds towards zero.

use std::iter::Peekable;
use std::str::Chars;

/// Parentheses deeper than this are refused, so that no text exhausts the stack.
const DEPTH: u32 = 64;

/// Return the value of `expression`, or what is wrong with it. `value_of` knows the names.
///
/// All is computed in 128 bits, so that products of two values do not overflow on the way.
pub fn evaluate(
    expression: &str,
    value_of: &dyn Fn(&str) -> Result<i128, String>,
) -> Result<i64, String> {
    let mut reader = Reader { characters: expression.chars().peekable(), value_of, depth: 0 };
    let result = reader.sum()?;
    match reader.peek() {
        None => i64::try_from(result).map_err(|_| "the result is too large".to_owned()),
        Some(left) => Err(format!("{left:?} is not expected there")),
    }
}

struct Reader<'a> {
    characters: Peekable<Chars<'a>>,
    value_of: &'a dyn Fn(&str) -> Result<i128, String>,
    depth: u32,
}

impl Reader<'_> {
    fn sum(&mut self) -> Result<i128, String> {
        let mut result = self.product()?;
        loop {
            let (sign, right) = match self.peek() {
                Some('+') => (1, self.after_operator(Self::product)?),
                Some('-') => (-1, self.after_operator(Self::product)?),
                _ => return Ok(result),
            };
            result = fits(right.checked_mul(sign).and_then(|r| result.checked_add(r)))?;
        }
    }

    fn product(&mut self) -> Result<i128, String> {
        let mut result = self.signed()?;
        loop {
            result = match self.peek() {
                Some('*') => fits(result.checked_mul(self.after_operator(Self::signed)?))?,
                Some('/') => match self.after_operator(Self::signed)? {
                    0 => return Err("it divides by 0".to_owned()),
                    divisor => fits(result.checked_div(divisor))?,
                },
                _ => return Ok(result),
            };
        }
    }

    fn signed(&mut self) -> Result<i128, String> {
        let mut negative = false;
        while self.peek() == Some('-') {
            self.characters.next();
            negative = !negative;
        }
        let value = self.atom()?;
        fits(if negative { value.checked_neg() } else { Some(value) })
    }

    fn atom(&mut self) -> Result<i128, String> {
        match self.peek() {
            Some('(') => {
                self.characters.next();
                self.depth += 1;
                if self.depth > DEPTH {
                    return Err("it has too many parentheses".to_owned());
                }
                let value = self.sum()?;
                self.depth -= 1;
                self.expect(')')?;
                Ok(value)
            }
            Some('{') => {
                self.characters.next();
                let name = self.while_some(|c| c != '}');
                self.expect('}')?;
                (self.value_of)(&name)
            }
            Some(digit) if digit.is_ascii_digit() => {
                let digits = self.while_some(|c| c.is_ascii_digit() || c == '_');
                let plain = digits.replace('_', "");
                plain.parse().map_err(|_| format!("{digits} is too large"))
            }
            Some(other) => Err(format!("{other:?} is not expected there")),
            None => Err("it ends too early".to_owned()),
        }
    }

    fn after_operator(
        &mut self,
        operand: fn(&mut Self) -> Result<i128, String>,
    ) -> Result<i128, String> {
        self.characters.next();
        operand(self)
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        match self.peek() {
            Some(found) if found == wanted => {
                self.characters.next();
                Ok(())
            }
            Some(found) => Err(format!("{found:?} is not expected there, but {wanted:?}")),
            None => Err(format!("{wanted:?} is missing at its end")),
        }
    }

    fn while_some(&mut self, belongs: fn(char) -> bool) -> String {
        let mut text = String::new();
        while let Some(character) = self.characters.next_if(|&character| belongs(character)) {
            text.push(character);
        }
        text
    }

    fn peek(&mut self) -> Option<char> {
        while self.characters.next_if(|c| c.is_whitespace()).is_some() {}
        self.characters.peek().copied()
    }
}

fn fits(result: Option<i128>) -> Result<i128, String> {
    result.ok_or_else(|| "a part of it is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(expression: &str) -> Result<i64, String> {
        evaluate(expression, &|name| match name {
            "table_size" => Ok(10_000),
            "low" => Ok(-5),
            other => Err(format!("no {other}")),
        })
    }

    #[test]
    fn operators_bind_as_in_school() {
        assert_eq!(value("{table_size}/2+1"), Ok(5001));
        assert_eq!(value(" 2 + 3*4 - 1 "), Ok(13));
        assert_eq!(value("(2+3)*(4-1)"), Ok(15));
        assert_eq!(value("7/2*2"), Ok(6));
        assert_eq!(value("10-{low}"), Ok(15));
        assert_eq!(value("2*{low}-1"), Ok(-11));
        assert_eq!(value("-{low}/-2"), Ok(-2));
        assert_eq!(value("10_000 * 10_000"), Ok(100_000_000));
        assert_eq!(value("-9223372036854775807 - 1"), Ok(i64::MIN));
    }

    #[test]
    fn mistakes_are_told() {
        assert_eq!(value("1/0").unwrap_err(), "it divides by 0");
        assert_eq!(value("1+").unwrap_err(), "it ends too early");
        assert_eq!(value("(1").unwrap_err(), "')' is missing at its end");
        assert_eq!(value("1 2").unwrap_err(), "'2' is not expected there");
        assert_eq!(value("{a}").unwrap_err(), "no a");
        assert_eq!(value("{low").unwrap_err(), "'}' is missing at its end");
        assert_eq!(value("9223372036854775808").unwrap_err(), "the result is too large");
        assert_eq!(value(&"9".repeat(60)).unwrap_err(), format!("{} is too large", "9".repeat(60)));
        let product = ["9000000000000000000"; 3].join("*");
        assert_eq!(value(&product).unwrap_err(), "a part of it is too large");
        assert_eq!(value(&"(".repeat(1000)).unwrap_err(), "it has too many parentheses");
    }

    /// Return an expression with its value, computed separately in 128 bits.
    fn expressions() -> impl Strategy<Value = (String, Option<i128>)> {
        let number = (0i128..1_000_000).prop_map(|n| (n.to_string(), Some(n)));
        number.prop_recursive(6, 40, 2, |inner| {
            (inner.clone(), prop::sample::select(&['+', '-', '*', '/', 'n'][..]), inner).prop_map(
                |((left, a), operator, (right, b))| {
                    if operator == 'n' {
                        return (format!("-({left})"), a.and_then(i128::checked_neg));
                    }
                    let value = a.zip(b).and_then(|(a, b)| match operator {
                        '+' => a.checked_add(b),
                        '-' => a.checked_sub(b),
                        '*' => a.checked_mul(b),
                        _ => a.checked_div(b),
                    });
                    (format!("({left}) {operator}({right})"), value)
                },
            )
        })
    }

    proptest! {
        #[test]
        fn any_expression((text, expected) in expressions()) {
            let expected = expected.and_then(|value| i64::try_from(value).ok());
            prop_assert_eq!(value(&text).ok(), expected);
        }

        #[test]
        fn no_text_panics(text in "[-+*/(){}0-9a-z_ ]{0,40}") {
            let _ = value(&text);
        }
    }
}
