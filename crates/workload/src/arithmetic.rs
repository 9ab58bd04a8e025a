//! Arithmetic in workloads: numbers such as `{table_size}/2+1`, and generators computed from other
//! generators, such as `if(order < 2101, 0, cents)`.
//!
//! Both have `+ - * /`, a sign, parentheses, integers and `{names}` of values. `/` rounds towards
//! zero. Computed generators also have the names of generators, `%`, `|` (bitwise), comparisons,
//! which give 1 or 0, and `if(condition, then, else)`.

use std::iter::Peekable;
use std::str::Chars;

use datagen::expression::Operator;

/// The maximum depth of parentheses, so that no text overflows the stack.
const DEPTH: u32 = 64;

/// A part of an expression, in postfix order.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Number(i128),
    /// The value with this name, written in braces.
    Value(String),
    /// The generator with this name, written without braces.
    Generator(String),
    Negate,
    Apply(Operator),
    /// If the first of three numbers is not 0, the second; otherwise the third.
    Choose,
}

/// Return the value of `expression`, or an error message. `value_of` returns the value of a name.
///
/// All numbers have 128 bits, so that products of two values do not overflow on the way.
pub fn evaluate(
    expression: &str,
    value_of: &dyn Fn(&str) -> Result<i128, String>,
) -> Result<i64, String> {
    let mut stack: Vec<i128> = Vec::new();
    let pop = |stack: &mut Vec<i128>| stack.pop().expect("parts are in their order");
    for part in parse(expression, false)? {
        let value = match part {
            Part::Number(number) => number,
            Part::Value(name) => value_of(&name)?,
            Part::Negate => fits(pop(&mut stack).checked_neg())?,
            Part::Apply(operator) => {
                let (right, left) = (pop(&mut stack), pop(&mut stack));
                fits(match operator {
                    Operator::Add => left.checked_add(right),
                    Operator::Subtract => left.checked_sub(right),
                    Operator::Multiply => left.checked_mul(right),
                    Operator::Divide if right == 0 => return Err("it divides by 0".to_owned()),
                    Operator::Divide => left.checked_div(right),
                    other => unreachable!("{other:?} is none of a number"),
                })?
            }
            Part::Generator(_) | Part::Choose => unreachable!("{part:?} is none of a number"),
        };
        stack.push(value);
    }
    i64::try_from(pop(&mut stack)).map_err(|_| "the result is too large".to_owned())
}

/// Return the parts of an expression, or an error message. `of_generators` allows the operators and
/// names of computed generators.
pub fn parse(expression: &str, of_generators: bool) -> Result<Vec<Part>, String> {
    let characters = expression.chars().peekable();
    let mut reader = Reader { characters, of_generators, parts: Vec::new(), depth: 0 };
    reader.whole()?;
    match reader.peek() {
        None => Ok(reader.parts),
        Some(left) => Err(unexpected(left)),
    }
}

struct Reader<'a> {
    characters: Peekable<Chars<'a>>,
    of_generators: bool,
    parts: Vec<Part>,
    depth: u32,
}

impl Reader<'_> {
    fn whole(&mut self) -> Result<(), String> {
        if self.of_generators { self.comparison() } else { self.sum() }
    }

    fn comparison(&mut self) -> Result<(), String> {
        self.bits()?;
        while let Some(first @ ('<' | '>' | '=')) = self.peek() {
            self.characters.next();
            let second = self.characters.next_if(|&c| c == '=' || c == '>' && first == '<');
            let operator = match (first, second) {
                ('<', None) => Operator::Less,
                ('<', Some('=')) => Operator::AtMost,
                ('<', Some(_)) => Operator::Unlike,
                ('>', None) => Operator::Greater,
                ('>', Some('=')) => Operator::AtLeast,
                ('=', None) => Operator::Equal,
                _ => return Err(unexpected('=')),
            };
            self.bits()?;
            self.parts.push(Part::Apply(operator));
        }
        Ok(())
    }

    fn bits(&mut self) -> Result<(), String> {
        let operators: &[_] = if self.of_generators { &[('|', Operator::Or)] } else { &[] };
        self.operands(Self::sum, operators)
    }

    fn sum(&mut self) -> Result<(), String> {
        self.operands(Self::product, &[('+', Operator::Add), ('-', Operator::Subtract)])
    }

    fn product(&mut self) -> Result<(), String> {
        let operators =
            [('*', Operator::Multiply), ('/', Operator::Divide), ('%', Operator::Remainder)];
        let known = if self.of_generators { 3 } else { 2 };
        self.operands(Self::signed, &operators[..known])
    }

    /// Read operands joined by any of the operators, which group from left to right.
    fn operands(
        &mut self,
        operand: fn(&mut Self) -> Result<(), String>,
        operators: &[(char, Operator)],
    ) -> Result<(), String> {
        operand(self)?;
        loop {
            let next = self.peek();
            let Some((_, operator)) = operators.iter().find(|(sign, _)| next == Some(*sign)) else {
                return Ok(());
            };
            self.characters.next();
            operand(self)?;
            self.parts.push(Part::Apply(*operator));
        }
    }

    fn signed(&mut self) -> Result<(), String> {
        let mut negative = false;
        while self.peek() == Some('-') {
            self.characters.next();
            negative = !negative;
        }
        self.atom()?;
        if negative {
            self.parts.push(Part::Negate);
        }
        Ok(())
    }

    fn atom(&mut self) -> Result<(), String> {
        match self.peek() {
            Some('(') => {
                self.open()?;
                self.whole()?;
                self.close()
            }
            Some('{') => {
                self.characters.next();
                let name = self.while_some(|c| c != '}');
                self.expect('}')?;
                self.parts.push(Part::Value(name));
                Ok(())
            }
            Some(digit) if digit.is_ascii_digit() => {
                let digits = self.while_some(|c| c.is_ascii_digit() || c == '_');
                let plain = digits.replace('_', "");
                let number = plain.parse().map_err(|_| format!("{digits} is too large"))?;
                self.parts.push(Part::Number(number));
                Ok(())
            }
            Some(letter) if self.of_generators && letter.is_ascii_alphabetic() => {
                let name = self.while_some(|c| c.is_ascii_alphanumeric() || c == '_');
                if name == "if" && self.peek() == Some('(') {
                    return self.choice();
                }
                self.parts.push(Part::Generator(name));
                Ok(())
            }
            Some(other) => Err(unexpected(other)),
            None => Err("it ends too early".to_owned()),
        }
    }

    /// Read the parenthesized arguments of `if`.
    fn choice(&mut self) -> Result<(), String> {
        self.open()?;
        self.whole()?;
        for _ in 0..2 {
            self.expect(',')?;
            self.whole()?;
        }
        self.close()?;
        self.parts.push(Part::Choose);
        Ok(())
    }

    fn open(&mut self) -> Result<(), String> {
        self.expect('(')?;
        self.depth += 1;
        if self.depth > DEPTH {
            return Err("it has too many parentheses".to_owned());
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        self.depth -= 1;
        self.expect(')')
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
        std::iter::from_fn(|| self.characters.next_if(|&sign| belongs(sign))).collect()
    }

    fn peek(&mut self) -> Option<char> {
        while self.characters.next_if(|c| c.is_whitespace()).is_some() {}
        self.characters.peek().copied()
    }
}

fn unexpected(found: char) -> String {
    format!("{found:?} is not expected there")
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

    #[test]
    fn generators_have_more_operators_and_bare_names() {
        let parts = |text: &str| {
            let parts = parse(text, true)?;
            Ok::<_, String>(
                parts.iter().map(|part| format!("{part:?}")).collect::<Vec<_>>().join(" "),
            )
        };
        assert_eq!(
            parts("if(a_1 <> 2, b | 3 % {c}, -d)").unwrap(),
            r#"Generator("a_1") Number(2) Apply(Unlike) Generator("b") Number(3) Value("c") Apply(Remainder) Apply(Or) Generator("d") Negate Choose"#
        );
        for (text, operator) in [
            ("1<2", "Less"),
            ("1 <= 2", "AtMost"),
            ("1=2", "Equal"),
            ("1>=2", "AtLeast"),
            ("1>2", "Greater"),
        ] {
            assert_eq!(parts(text).unwrap(), format!("Number(1) Number(2) Apply({operator})"));
        }
        assert_eq!(parts("iffy + if").unwrap(), r#"Generator("iffy") Generator("if") Apply(Add)"#);
        assert_eq!(parts("if(1, 2)").unwrap_err(), "')' is not expected there, but ','");
        assert_eq!(parts("1 == 2").unwrap_err(), "'=' is not expected there");
        for text in ["a", "1 % 2", "1 < 2", "1 | 2", "if(1, 2, 3)"] {
            assert!(parse(text, false).is_err(), "{text}");
        }
    }

    /// Generate expressions, each with its value computed independently in 128 bits.
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
        fn no_text_panics(text in "(if|[-+*/%|<>=,(){}0-9a-z_ ]){0,40}") {
            let _ = value(&text);
            let _ = parse(&text, true);
        }
    }
}
