//! Random numbers in sequence, for clients and rows: `SplitMix64`.
//!
//! A generator is two words, so the state at the start of a transaction is saved by copying it.

use crate::Stream;

/// A stream of random numbers, and the position in it.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    stream: Stream,
    position: u64,
}

impl Random {
    /// Return the generator of member `member` (a client, a row) of the stream named `name`.
    pub fn of(seed: u64, name: &str, member: u64) -> Self {
        Self::member(Stream::named(seed, name), member)
    }

    /// Return the generator of member `member` of a stream with many members.
    #[inline]
    pub fn member(stream: Stream, member: u64) -> Self {
        Self { stream: Stream::keyed(stream.at(member)), position: 0 }
    }

    /// Return the next number, uniform over all of `u64`.
    #[inline]
    pub fn number(&mut self) -> u64 {
        let number = self.stream.at(self.position);
        self.position += 1;
        number
    }

    /// Return an integer below `bound`, uniformly distributed (Lemire, "Fast random integer
    /// generation in an interval", ACM TOMACS 29, 2019). `bound` must be above 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        loop {
            let product = u128::from(self.number()) * u128::from(bound);
            #[allow(clippy::cast_possible_truncation)] // the two words of the product
            let (high, low) = ((product >> 64) as u64, product as u64);
            // Reject the lowest 2^64 mod bound remainders, which are too frequent; all of them are
            // below bound.
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return high;
            }
        }
    }

    /// Return a number from 0 to below 1: a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodness::assert_uniform;
    use proptest::prelude::*;

    #[test]
    fn members_have_numbers_of_their_own() {
        let mut first = Random::of(1, "client", 0);
        let mut again = Random::of(1, "client", 0);
        assert_eq!(first.number(), again.number());
        assert_ne!(first.number(), Random::of(1, "client", 1).number());
        assert_ne!(Random::of(1, "client", 0).number(), Random::of(2, "client", 0).number());
        assert_ne!(Random::of(1, "client", 0).number(), Random::of(1, "row", 0).number());
    }

    #[test]
    fn ranges_are_even() {
        for bound in [2, 3, 7, 100] {
            let mut random = Random::of(1, "even", bound);
            assert_uniform(bound, 200_000, || random.below(bound));
        }
        // With plain scaling, every third of the numbers below 3 * 2^62 would be twice as likely.
        let mut random = Random::of(1, "large", 0);
        assert_uniform(3, 200_000, || random.below(3 << 62) % 3);
    }

    #[test]
    fn the_first_numbers_of_neighbours_are_unrelated() {
        let mut client = 0;
        assert_uniform(64, 200_000, || {
            client += 1;
            Random::of(7, "client", client).below(64)
        });
    }

    proptest! {
        #[test]
        fn below_is_below(seed: u64, bound in 1u64..) {
            let mut random = Random::of(seed, "x", 0);
            prop_assert!(random.below(bound) < bound);
            prop_assert!((0.0..1.0).contains(&random.unit()));
        }
    }
}
