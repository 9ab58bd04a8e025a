//! Integers computed from other integers.

/// The maximum stack depth of an expression; the whole stack is cleared for each value.
const DEPTH: usize = 32;

/// An operator of two numbers. A result that does not fit into 64 bits saturates. Division by 0
/// gives 0; comparisons give 1 or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    /// Rounds towards 0.
    Divide,
    Remainder,
    /// Bitwise.
    Or,
    Less,
    AtMost,
    Equal,
    Unlike,
    AtLeast,
    Greater,
}

impl Operator {
    #[inline]
    fn apply(self, left: i64, right: i64) -> i64 {
        match self {
            Self::Add => left.saturating_add(right),
            Self::Subtract => left.saturating_sub(right),
            Self::Multiply => left.saturating_mul(right),
            Self::Divide if right == 0 => 0,
            Self::Divide => left.saturating_div(right),
            Self::Remainder => left.checked_rem(right).unwrap_or(0),
            Self::Or => left | right,
            Self::Less => i64::from(left < right),
            Self::AtMost => i64::from(left <= right),
            Self::Equal => i64::from(left == right),
            Self::Unlike => i64::from(left != right),
            Self::AtLeast => i64::from(left >= right),
            Self::Greater => i64::from(left > right),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Number(i64),
    /// The input with this number.
    Input(usize),
    Negate,
    Apply(Operator),
    /// If the first of three numbers is not 0, the second; otherwise the third.
    Choose,
}

/// Operations in postfix order, which leave one number on the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    operations: Box<[Operation]>,
}

impl Expression {
    /// Return None if the operations need more stack than is available.
    ///
    /// # Panics
    /// If an operation has too few operands, or not exactly one number is left.
    pub fn new(operations: Vec<Operation>) -> Option<Self> {
        let mut height = 0_usize;
        for operation in &operations {
            let (taken, given) = match operation {
                Operation::Number(_) | Operation::Input(_) => (0, 1),
                Operation::Negate => (1, 1),
                Operation::Apply(_) => (2, 1),
                Operation::Choose => (3, 1),
            };
            height = height.checked_sub(taken).expect("an operation has its operands") + given;
            if height > DEPTH {
                return None;
            }
        }
        assert_eq!(height, 1, "an expression leaves one number");
        Some(Self { operations: operations.into() })
    }

    /// Return the expression's value; `input` returns each input by its number.
    #[inline]
    pub fn value(&self, input: impl Fn(usize) -> i64) -> i64 {
        let mut stack = [0_i64; DEPTH];
        let mut height = 0;
        for operation in &self.operations {
            match *operation {
                Operation::Number(number) => {
                    stack[height] = number;
                    height += 1;
                }
                Operation::Input(number) => {
                    stack[height] = input(number);
                    height += 1;
                }
                Operation::Negate => stack[height - 1] = stack[height - 1].saturating_neg(),
                Operation::Apply(operator) => {
                    height -= 1;
                    stack[height - 1] = operator.apply(stack[height - 1], stack[height]);
                }
                Operation::Choose => {
                    height -= 2;
                    let is_first = stack[height - 1] != 0;
                    stack[height - 1] = if is_first { stack[height] } else { stack[height + 1] };
                }
            }
        }
        stack[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Operation::{Apply, Choose, Input, Negate, Number};

    fn value(operations: &[Operation]) -> i64 {
        Expression::new(operations.to_vec()).unwrap().value(|number| [7, -2][number])
    }

    #[test]
    fn operators_are_of_64_bits_and_never_fail() {
        assert_eq!(value(&[Input(0), Input(1), Apply(Operator::Divide)]), -3);
        assert_eq!(value(&[Input(0), Number(0), Apply(Operator::Divide)]), 0);
        assert_eq!(value(&[Number(i64::MIN), Number(-1), Apply(Operator::Divide)]), i64::MAX);
        assert_eq!(value(&[Number(i64::MIN), Number(-1), Apply(Operator::Remainder)]), 0);
        assert_eq!(value(&[Number(i64::MAX), Input(0), Apply(Operator::Multiply)]), i64::MAX);
        assert_eq!(value(&[Number(i64::MIN), Negate]), i64::MAX);
        assert_eq!(value(&[Input(0), Number(8), Apply(Operator::Or)]), 15);
    }

    #[test]
    fn a_choice_takes_one_of_two() {
        let choice = |operator| [Input(1), Input(0), Apply(operator), Number(1), Number(2), Choose];
        assert_eq!(value(&choice(Operator::Less)), 1);
        assert_eq!(value(&choice(Operator::AtLeast)), 2);
    }

    #[test]
    fn a_stack_has_its_limit() {
        let deep = |height: usize| {
            let sums = vec![Apply(Operator::Add); height - 1];
            Expression::new([vec![Number(1); height], sums].concat())
        };
        assert_eq!(deep(DEPTH).unwrap().value(|_| 0), i64::try_from(DEPTH).unwrap());
        assert_eq!(deep(DEPTH + 1), None);
    }
}
