//! Rows that belong to parents, each of which has a number of them: which row is of which parent.

use super::column::{FanOut, Place};

/// The distance between two parents whose first rows are kept: finding a row counts the rows of at
/// most this many parents.
const STRIDE: u64 = 256;

/// The parents of a table's rows.
pub struct Families {
    fan_out: FanOut,
    /// A parent with rows has one, however many it is said to have.
    once: bool,
    /// The first row of every [`STRIDE`]th parent, and the number of all rows.
    firsts: Vec<u64>,
}

impl Families {
    pub fn new(parents: u64, fan_out: FanOut, once: bool) -> Self {
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

    /// Return the number of rows.
    pub fn rows(&self) -> u64 {
        *self.firsts.last().expect("it has the number of all rows")
    }

    /// Hand on the places of the rows from `from` up to, not including, `to`.
    #[inline]
    pub fn each(&self, from: u64, to: u64, mut next: impl FnMut(&Place)) {
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
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| (cut * expected.len() as f64) as usize).collect();
            cuts.sort_unstable();
            let part = places(&families, cuts[0] as u64, cuts[1] as u64);
            prop_assert_eq!(&part[..], &expected[cuts[0]..cuts[1]]);
        }
    }
}
