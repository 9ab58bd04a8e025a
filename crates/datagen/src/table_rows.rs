//! The rows of a table, made column by column.

use super::column::{PADDING, Value};
use super::rows::Rows;

/// The rows of one table.
pub struct TableRows {
    count: u64,
    values: Vec<Value>,
    longest: usize,
}

impl TableRows {
    /// `count` rows of at least one column.
    pub fn new(count: u64, values: Vec<Value>) -> Self {
        let longest = values.iter().map(|value| value.longest() + 1).sum();
        Self { count, values, longest }
    }

    /// Return for each column whether it is a number.
    pub fn numbers(&self) -> Vec<bool> {
        self.values.iter().map(Value::is_number).collect()
    }
}

impl Rows for TableRows {
    fn count(&self) -> u64 {
        self.count
    }

    fn room_for(&self, rows: usize) -> usize {
        rows * self.longest + PADDING
    }

    fn write(&self, from: u64, to: u64, out: &mut [u8]) -> usize {
        let mut at = 0;
        for row in from..to {
            for value in &self.values {
                at += value.write(row, &mut out[at..]);
                out[at] = b'\t';
                at += 1;
            }
            out[at - 1] = b'\n';
        }
        at
    }
}
