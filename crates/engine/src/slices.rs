//! Slices: only the clients of one side work at a time, and sides change between transactions.
//!
//! Anything that changes more slowly than a slice (the speed of a CPU, another program) affects all
//! sides equally. A *group* is a random order of all sides, followed by its mirror image (with two
//! sides ABBA or BAAB), so that drift within a group affects all sides equally too.

use std::time::Duration;

use datagen::random::Random;
use serde::Serialize;

use super::clock::nanoseconds;

/// The settings of slices. A slice ends when both `at_least` and `transactions` are reached, or at
/// `at_most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceSettings {
    /// The number of sides, at least 2. Connection `n` belongs to side `n % sides`.
    pub sides: u32,
    /// The minimum duration of a slice, above 0.
    pub at_least: Duration,
    /// The time after which no transaction begins in a slice, even if there were too few.
    pub at_most: Duration,
    /// The minimum number of ended transactions in a slice, over all clients of a side. At least 1.
    pub transactions: u64,
}

/// A finished slice: from its first request to its last answer, and the rest of a slowed-down side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "(u32, u64, u64, u64, u64)")]
pub struct Slice {
    pub side: u32,
    /// Nanoseconds since the start of the drive, as for marks.
    pub from_ns: u64,
    pub until_ns: u64,
    /// Successful transactions.
    pub transactions: u64,
    /// The time at the end of the slice in which a slowed-down side rested.
    pub rested_ns: u64,
}

impl From<Slice> for (u32, u64, u64, u64, u64) {
    fn from(slice: Slice) -> Self {
        (slice.side, slice.from_ns, slice.until_ns, slice.transactions, slice.rested_ns)
    }
}

/// Generates the orders of sides in groups.
#[derive(Debug)]
pub struct Groups {
    sides: u32,
    random: Random,
}

impl Groups {
    pub fn new(sides: u32, seed: u64) -> Self {
        Self { sides, random: Random::of(seed, "slices", 0) }
    }

    /// Return a random order of all sides (Fisher-Yates shuffle), and its mirror image.
    pub fn next_group(&mut self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.sides).collect();
        for last in (1..order.len()).rev() {
            let chosen = self.random.below(last as u64 + 1);
            order.swap(last, usize::try_from(chosen).expect("it is at most `last`"));
        }
        order.iter().chain(order.iter().rev()).copied().collect()
    }
}

/// Whose turn it is, and the slices so far.
#[derive(Debug)]
pub struct Turns {
    groups: Groups,
    at_least_ns: u64,
    at_most_ns: u64,
    transactions: u64,
    /// The sides of this group that still have a turn, in reverse order.
    waiting: Vec<u32>,
    /// The current slice. Its start is `NEVER` until its first request is sent.
    slice: Slice,
    /// Transactions of the current slice that ended.
    ended: u64,
    /// The complete groups of the measured part, and after them the current group.
    slices: Vec<Slice>,
    /// True if the slices of the current group count.
    is_measured: bool,
    /// True if the current slice is the last one, and incomplete.
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

    /// Return the time of the first request of the current slice.
    pub fn began_ns(&self) -> u64 {
        self.slice.from_ns
    }

    /// Begin the next slice and return its side. A group counts if it begins in the measured part.
    pub fn begin(&mut self, is_measured: bool) -> u32 {
        if self.waiting.is_empty() {
            self.is_measured = is_measured;
            self.waiting = self.groups.next_group();
        }
        self.slice = Slice::of(self.waiting.pop().expect("a group has a slice for each side"));
        self.ended = 0;
        self.slice.side
    }

    /// Record the time of a client's first request in this slice.
    pub fn started(&mut self, sent_ns: u64) {
        self.slice.from_ns = self.slice.from_ns.min(sent_ns);
    }

    /// Return whether another transaction may begin in this slice; once false, it stays false.
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

    /// End the drive with this slice, because the time is over, or because a client has no further
    /// requests, so that its side would be a different one in the next slice.
    pub fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Return whether the current slice is the last one.
    pub fn is_over(&self) -> bool {
        self.is_cut
    }

    /// End the slice; its side rested for the last `rested_ns`.
    pub fn end(&mut self, until_ns: u64, rested_ns: u64) {
        if self.is_measured && !self.is_cut {
            self.slices.push(Slice { until_ns, rested_ns, ..self.slice });
        }
    }

    /// Return whether a complete group was measured.
    pub fn has_whole_group(&self) -> bool {
        self.slices.len() >= 2 * self.groups.sides as usize
    }

    /// Return the slices of complete groups.
    pub fn into_slices(mut self) -> Vec<Slice> {
        let group = 2 * self.groups.sides as usize;
        self.slices.truncate(self.slices.len() / group * group);
        self.slices
    }
}

impl Slice {
    /// Return a slice of `side` that has not begun.
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

    /// Run a slice of 5 ms with one successful transaction.
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
        // The measured part begins in the first group; the third group has three slices.
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
            // 1000 tosses of a fair coin: six standard deviations.
            prop_assert!((405..=595).contains(&first), "{}", first);
        }
    }
}
