//! The rows of a table, made column by column.

use super::column::{FanOut, PADDING, Place, Value};
use super::families::Families;
use super::rows::Rows;

/// The rows of one table.
pub struct TableRows {
    count: u64,
    /// None where each row is its own parent.
    families: Option<Families>,
    values: Vec<Value>,
    longest: usize,
}

impl TableRows {
    pub fn new(count: u64, values: Vec<Value>) -> Self {
        let longest = values.iter().map(|value| value.longest() + 1).sum();
        Self { count, families: None, values, longest }
    }

    /// As many rows for each of `parents` as its fan-out says, or one where it says so `once`.
    pub fn of_parents(parents: u64, fan_out: FanOut, once: bool, values: Vec<Value>) -> Self {
        let families = Families::new(parents, fan_out, once);
        Self { count: families.rows(), families: Some(families), ..Self::new(0, values) }
    }

    /// Return true for each column whose values need no quotes in a statement.
    pub fn numbers(&self) -> Vec<bool> {
        self.values.iter().map(Value::is_number).collect()
    }

    /// Return true for each column of any bytes.
    pub fn bytes(&self) -> Vec<bool> {
        self.values.iter().map(Value::is_bytes).collect()
    }

    /// Return the number of the first column that identifies a row by its number.
    pub fn row_number_column(&self) -> Option<usize> {
        self.values.iter().position(Value::is_row_number)
    }

    #[inline]
    fn write_row(&self, place: &Place, out: &mut [u8]) -> usize {
        let mut at = 0;
        for value in &self.values {
            at += value.write(place, &mut out[at..]);
            out[at] = b'\t';
            at += 1;
        }
        out[at - 1] = b'\n';
        at
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
        if let Some(families) = &self.families {
            families.each(from, to, |place| at += self.write_row(place, &mut out[at..]));
            return at;
        }
        for row in from..to {
            let place = Place { row, parent: row, child: 0, children: 1 };
            at += self.write_row(&place, &mut out[at..]);
        }
        at
    }
}
