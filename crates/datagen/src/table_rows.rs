//! The rows of a table whose columns have one generator each.

use super::column::{FanOut, PADDING, Place, Value};
use super::rows::Rows;

/// The first row of every parent at this distance is kept; finding a row scans at most this many
/// parents.
const STRIDE: u64 = 256;

pub struct TableRows {
    count: u64,
    /// None if each row is its own parent.
    families: Option<Families>,
    values: Vec<Value>,
    longest: usize,
}

impl TableRows {
    pub fn new(count: u64, values: Vec<Value>) -> Self {
        let longest = values.iter().map(|value| value.longest() + 1).sum();
        Self { count, families: None, values, longest }
    }

    /// Return the rows of a table in which `fan_out` gives each parent its number of rows. With
    /// `once`, a parent with rows has only one.
    pub fn of_parents(parents: u64, fan_out: FanOut, once: bool, values: Vec<Value>) -> Self {
        let families = Families::new(parents, fan_out, once);
        Self { count: families.rows(), families: Some(families), ..Self::new(0, values) }
    }

    /// Return, for each column, whether its values are numbers, which need no quotes in a
    /// statement.
    pub fn numbers(&self) -> Vec<bool> {
        self.values.iter().map(Value::is_number).collect()
    }

    pub fn bytes(&self) -> Vec<bool> {
        self.values.iter().map(Value::is_bytes).collect()
    }

    /// Return the index of the first column that identifies a row by its number.
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
        let mut write = |place: &Place| at += self.write_row(place, &mut out[at..]);
        match &self.families {
            Some(families) => families.each(from, to, write),
            None => (from..to).for_each(|row| {
                write(&Place { row, parent: row, child: 0, children: 1 });
            }),
        }
        at
    }
}

struct Families {
    fan_out: FanOut,
    /// A parent with rows has only one, whatever the fan-out gives.
    once: bool,
    /// The number of the first row of every [`STRIDE`]th parent; last, the number of all rows.
    firsts: Vec<u64>,
}

impl Families {
    fn new(parents: u64, fan_out: FanOut, once: bool) -> Self {
        let mut families = Self { fan_out, once, firsts: Vec::new() };
        let mut rows = 0;
        for parent in 0..parents {
            if parent % STRIDE == 0 {
                families.firsts.push(rows);
            }
            rows += families.size(families.fan_out.of_parent(parent));
        }
        families.firsts.push(rows);
        families
    }

    fn rows(&self) -> u64 {
        *self.firsts.last().expect("it has the number of all rows")
    }

    /// Call `next` for each row from `from` to below `to`.
    #[inline]
    fn each(&self, from: u64, to: u64, mut next: impl FnMut(&Place)) {
        if from >= to {
            return;
        }
        let stride = self.firsts.partition_point(|&first| first <= from) - 1;
        let mut parent = stride as u64 * STRIDE;
        let mut row = self.firsts[stride];
        while row < to {
            let children = self.fan_out.of_parent(parent);
            let size = self.size(children);
            for child in from.saturating_sub(row).min(size)..size.min(to - row) {
                next(&Place { row: row + child, parent, child, children });
            }
            row += size;
            parent += 1;
        }
    }

    #[inline]
    fn size(&self, children: u64) -> u64 {
        if self.once { children.min(1) } else { children }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;
    use crate::column::RandomInteger;
    use crate::distribution::{Integers, Shape};
    use proptest::prelude::*;

    fn fan_out(low: i64, high: i64) -> FanOut {
        FanOut::Random(RandomInteger {
            integers: Integers::new(&Shape::Uniform, low, high),
            stream: Stream::named(1, "fan-out"),
        })
    }

    fn places(families: &Families, from: u64, to: u64) -> Vec<Place> {
        let mut places = Vec::new();
        families.each(from, to, |place| places.push(*place));
        places
    }

    proptest! {
        #[test]
        fn any_slice_is_that_of_the_whole(
            parents in 0u64..1500, high in 0i64..5, once: bool, cuts in prop::collection::vec(0.0..1.0f64, 2)
        ) {
            let families = Families::new(parents, fan_out(0, high), once);
            let mut expected = Vec::new();
            for parent in 0..parents {
                let children = families.fan_out.of_parent(parent);
                for child in 0..if once { children.min(1) } else { children } {
                    expected.push(Place { row: expected.len() as u64, parent, child, children });
                }
            }
            prop_assert_eq!(families.rows(), expected.len() as u64);
            prop_assert_eq!(&places(&families, 0, families.rows()), &expected);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| (cut * expected.len() as f64) as usize).collect();
            cuts.sort_unstable();
            let part = places(&families, cuts[0] as u64, cuts[1] as u64);
            prop_assert_eq!(&part[..], &expected[cuts[0]..cuts[1]]);
        }
    }
}
