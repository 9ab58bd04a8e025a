//! The ends of long answers that a client remembers, so that later statements can continue from
//! there.

use crate::definition::TailValue;
use datagen::random::Random;

/// The part of a remembered end that a generator returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailPart {
    Value(TailValue),
    /// A remembered value of the statement, by its index.
    Column(usize),
}

/// The rules by which a statement remembers the ends of its answers.
#[derive(Clone, Debug)]
pub struct Remembered {
    /// The number of rows of a long answer.
    pub rows: u32,
    /// The index of the column.
    pub column: usize,
    pub slots: Vec<u16>,
    pub at_most: usize,
    /// True if the statement continues from an end. If so, its answer replaces that end, or removes
    /// it if the answer is short.
    pub goes_on: bool,
}

/// The end of a long answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    pub values: Vec<i64>,
    pub end: i64,
}

/// The ends that a client remembers.
#[derive(Debug, Default)]
pub struct Tails {
    tails: Vec<Tail>,
    /// The end that the current transaction uses; None if there was none.
    chosen: Option<usize>,
}

impl Tails {
    #[inline]
    pub fn choose(&mut self, mut random: Random) {
        self.chosen = (!self.tails.is_empty()).then(|| place(&mut random, self.tails.len()));
    }

    /// Return a number of the chosen end; None without a chosen end.
    #[inline]
    pub fn number(&self, part: TailPart) -> Option<i64> {
        let tail = &self.tails[self.chosen?];
        Some(match part {
            TailPart::Value(TailValue::Known) => 1,
            TailPart::Value(TailValue::End) => tail.end,
            TailPart::Column(index) => tail.values.get(index).copied().unwrap_or(0),
        })
    }

    /// Store the end of an answer (None for a short answer). If the statement continued from the
    /// chosen end, replace or remove that end.
    pub fn take(&mut self, tail: Option<Tail>, goes_on: bool, at_most: usize, random: Random) {
        match (tail, self.chosen.filter(|_| goes_on)) {
            (Some(tail), Some(chosen)) => self.tails[chosen] = tail,
            (None, Some(chosen)) => {
                self.tails.swap_remove(chosen);
                self.chosen = None;
            }
            (Some(tail), None) => self.remember(tail, at_most, random),
            (None, None) => {}
        }
    }

    /// Remember an end, unless there is one with the same values. If there are already `at_most`,
    /// replace a random one.
    fn remember(&mut self, tail: Tail, at_most: usize, mut random: Random) {
        if self.tails.iter().any(|other| other.values == tail.values) {
            return;
        }
        if self.tails.len() < at_most {
            self.tails.push(tail);
        } else {
            let place = place(&mut random, self.tails.len());
            self.tails[place] = tail;
        }
    }
}

fn place(random: &mut Random, length: usize) -> usize {
    usize::try_from(random.below(length as u64)).expect("it is below a usize")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: TailPart = TailPart::Value(TailValue::Known);
    const END: TailPart = TailPart::Value(TailValue::End);

    fn tail(id: i64, end: i64) -> Tail {
        Tail { values: vec![id], end }
    }

    fn random() -> Random {
        Random::of(1, "tails", 0)
    }

    #[test]
    fn an_end_is_remembered_once_and_gone_on_from() {
        let mut tails = Tails::default();
        tails.choose(random());
        assert_eq!(tails.number(KNOWN), None);
        tails.take(Some(tail(7, 70)), true, 10, random());
        tails.take(Some(tail(7, 60)), false, 10, random());
        tails.choose(random());
        let parts = [KNOWN, TailPart::Column(0), END];
        assert_eq!(parts.map(|part| tails.number(part)), [Some(1), Some(7), Some(70)]);
        tails.take(Some(tail(7, 50)), true, 10, random());
        assert_eq!(tails.number(END), Some(50));
        tails.take(None, false, 10, random());
        assert_eq!(tails.number(END), Some(50));
        tails.take(None, true, 10, random());
        tails.take(None, true, 10, random());
        assert_eq!(tails.number(END), None);
    }

    #[test]
    fn a_new_end_takes_the_place_of_any() {
        let mut tails = Tails::default();
        for id in 0..100 {
            tails.take(Some(tail(id, id)), false, 8, Random::of(1, "tails", id.unsigned_abs()));
        }
        assert_eq!(tails.tails.len(), 8);
        assert!(tails.tails.iter().any(|tail| tail.end > 90));
    }
}
