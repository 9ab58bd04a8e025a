//! Slices: the clients of one side work at a time, and sides change at the ends of transactions.
//!
//! Whatever changes more slowly than a slice (the speed of a CPU, another program) meets all sides
//! alike. A *group* is a random order of all sides, followed by its mirror image (of two sides ABBA
//! or BAAB), so that a drift inside it meets all sides alike too.

use std::time::Duration;

use datagen::random::Random;
use serde::Serialize;

use super::clock::nanoseconds;

/// The sides of a drive; a slice ends when its least time and its transactions are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceSettings {
    /// At least 2. Connection `n` belongs to side `n % sides`.
    pub sides: u32,
    /// Above 0.
    pub at_least: Duration,
    /// After this time no further transaction begins in a slice, even if it has too few.
    pub at_most: Duration,
    /// That ended, over all clients of a side. At least 1.
    pub transactions: u64,
}

/// A slice that is over: from its first request to its last answer, and the rest of a slower side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "(u32, u64, u64, u64, u64)")]
pub struct Slice {
    pub side: u32,
    /// Nanoseconds from the beginning of the drive, as marks count.
    pub from_ns: u64,
    pub until_ns: u64,
    /// Transactions that succeeded.
    pub transactions: u64,
    /// The time at its end in which a slower side rested.
    pub rested_ns: u64,
}

impl From<Slice> for (u32, u64, u64, u64, u64) {
    fn from(slice: Slice) -> Self {
        (slice.side, slice.from_ns, slice.until_ns, slice.transactions, slice.rested_ns)
    }
}

/// The orders of sides in groups.
#[derive(Debug)]
pub struct Groups {
    sides: u32,
    random: Random,
}

impl Groups {
    pub fn new(sides: u32, seed: u64) -> Self {
        Self { sides, random: Random::of(seed, "slices", 0) }
    }

    /// Return a random order of all sides (Fisher and Yates), and its mirror image.
    pub fn next_group(&mut self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.sides).collect();
        for last in (1..order.len()).rev() {
            let chosen = self.random.below(last as u64 + 1);
            order.swap(last, usize::try_from(chosen).expect("it is at most `last`"));
        }
        order.iter().chain(order.iter().rev()).copied().collect()
    }
}

/// The turn of each side.
#[derive(Debug)]
pub struct Turns {
    groups: Groups,
    at_least_ns: u64,
    at_most_ns: u64,
    transactions: u64,
    /// Sides of this group that have not had their turn, the last one first.
    waiting: Vec<u32>,
    /// The slice under way; it begins at the end of time until its first request is sent.
    slice: Slice,
    /// Transactions of this slice that ended.
    ended: u64,
    /// Whole groups of the measured part, then the begun one.
    slices: Vec<Slice>,
    /// The slices of this group count.
    is_measured: bool,
    /// This slice is the last one, and not whole.
    is_cut: bool,
}

impl Turns {
    pub fn new(settings: SliceSettings, seed: u64) -> Self {
        Self {
            groups: Groups::new(settings.sides, seed),
            at_least_ns: nanoseconds(settings.at_least),
            at_most_ns: nanoseconds(settings.at_most),
            transactions: settings.transactions,
            waiting: Vec::new(),
            slice: Slice::of(0),
            ended: 0,
            slices: Vec::new(),
            is_measured: false,
            is_cut: false,
        }
    }

    /// Return the side whose turn it is.
    pub fn side(&self) -> u32 {
        self.slice.side
    }

    /// Return the time of the first request of this slice.
    pub fn began_ns(&self) -> u64 {
        self.slice.from_ns
    }

    /// Begin the next slice and return its side. Groups that begin in the measured part count.
    pub fn begin(&mut self, is_measured: bool) -> u32 {
        if self.waiting.is_empty() {
            self.is_measured = is_measured;
            self.waiting = self.groups.next_group();
        }
        self.slice = Slice::of(self.waiting.pop().expect("a group has a slice for each side"));
        self.ended = 0;
        self.slice.side
    }

    /// Note the time of a client's first request in this slice.
    pub fn started(&mut self, sent_ns: u64) {
        self.slice.from_ns = self.slice.from_ns.min(sent_ns);
    }

    /// Return whether another transaction may begin in this slice; once it may not, it never may.
    #[inline]
    pub fn admits(&self, now_ns: u64) -> bool {
        let since_ns = now_ns.saturating_sub(self.slice.from_ns);
        !self.is_cut
            && (since_ns < self.at_least_ns
                || (self.ended < self.transactions && since_ns < self.at_most_ns))
    }

    #[inline]
    pub fn succeeded(&mut self) {
        self.slice.transactions += 1;
        self.ended += 1;
    }

    pub fn failed(&mut self) {
        self.ended += 1;
    }

    /// Break this slice off, which is the last: the drive's time is over, or a client has nothing
    /// more to ask, and its side would be another one in the next slice.
    pub fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Return true where no further slice begins.
    pub fn is_over(&self) -> bool {
        self.is_cut
    }

    /// End the slice, of whose time the side rested for the last part.
    pub fn end(&mut self, until_ns: u64, rested_ns: u64) {
        if self.is_measured && !self.is_cut {
            self.slices.push(Slice { until_ns, rested_ns, ..self.slice });
        }
    }

    /// Return true once a whole group was measured.
    pub fn has_whole_group(&self) -> bool {
        self.slices.len() >= 2 * self.groups.sides as usize
    }

    /// Return the slices of whole groups.
    pub fn into_slices(mut self) -> Vec<Slice> {
        let group = 2 * self.groups.sides as usize;
        self.slices.truncate(self.slices.len() / group * group);
        self.slices
    }
}

impl Slice {
    /// Return a slice that has not begun.
    fn of(side: u32) -> Self {
        Self { side, from_ns: u64::MAX, until_ns: 0, transactions: 0, rested_ns: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn turns(sides: u32, seed: u64) -> Turns {
        let (at_least, at_most) = (Duration::from_millis(5), Duration::from_millis(50));
        Turns::new(SliceSettings { sides, at_least, at_most, transactions: 3 }, seed)
    }

    /// Let one transaction succeed in a slice of 5 ms.
    fn slice(turns: &mut Turns, number: u64, is_measured: bool) {
        turns.begin(is_measured);
        turns.started(number * 5 * MS);
        turns.succeeded();
        turns.end((number + 1) * 5 * MS, 0);
    }

    #[test]
    fn a_slice_lasts_until_its_time_and_its_transactions_are_over() {
        let mut turns = turns(2, 1);
        turns.begin(true);
        assert!(turns.admits(0), "the first transaction");
        turns.started(MS);
        for _ in 0..3 {
            assert!(turns.admits(9 * MS));
            turns.failed();
        }
        assert!(turns.admits(6 * MS - 1));
        assert!(!turns.admits(6 * MS));
    }

    #[test]
    fn a_slice_admits_no_more_slow_transactions_after_its_longest_time() {
        let mut turns = turns(2, 1);
        turns.begin(true);
        turns.started(MS);
        turns.succeeded();
        assert!(turns.admits(51 * MS - 1));
        assert!(!turns.admits(51 * MS));
    }

    #[test]
    fn only_whole_groups_of_the_measured_part_count() {
        let mut turns = turns(2, 1);
        // The measured part begins in the first group; the third has three slices.
        for number in 0..11 {
            slice(&mut turns, number, number >= 2);
            assert_eq!(turns.has_whole_group(), number >= 7);
        }
        let slices = turns.into_slices();
        assert_eq!(slices.len(), 4);
        assert_eq!((slices[0].from_ns, slices[3].until_ns), (20 * MS, 40 * MS));
        assert!(slices.iter().all(|slice| slice.transactions == 1));
    }

    #[test]
    fn a_slice_that_is_broken_off_breaks_its_group() {
        let mut turns = turns(2, 1);
        for number in 0..7 {
            slice(&mut turns, number, true);
        }
        turns.begin(true);
        turns.started(35 * MS);
        assert!(turns.admits(36 * MS) && !turns.is_over());
        turns.cut();
        assert!(!turns.admits(36 * MS) && turns.is_over());
        turns.end(40 * MS, 0);
        assert_eq!(turns.into_slices().len(), 4);
    }

    #[test]
    fn slices_are_written_as_short_lists() {
        let slice = Slice { side: 1, from_ns: 2, until_ns: 6, transactions: 4, rested_ns: 5 };
        assert_eq!(serde_json::to_string(&[slice]).unwrap(), "[[1,2,6,4,5]]");
    }

    proptest! {
        #[test]
        fn both_orders_of_two_sides_come_about_equally_often(seed: u64) {
            let mut turns = turns(2, seed);
            for number in 0..4_000 {
                slice(&mut turns, number, true);
            }
            let slices = turns.into_slices();
            let first = slices.chunks(4).filter(|group| group[0].side == 0).count();
            // 1000 draws of a fair coin: six standard deviations.
            prop_assert!((405..=595).contains(&first), "{}", first);
        }
    }
}
