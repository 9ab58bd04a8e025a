//! A random permutation of a range, computed without a list: the number at each position.
//!
//! A Feistel network (Luby and Rackoff, "How to construct pseudorandom permutations from
//! pseudorandom functions", SIAM J. Comput. 17, 1988) permutes the next power of two. A result
//! outside the range is permuted again until it falls inside (cycle walking; Black and Rogaway,
//! "Ciphers with arbitrary finite domains", CT-RSA 2002). Less than half of the results are
//! outside, so two rounds of the network suffice on average.

use crate::{Stream, mix};

/// Feistel rounds: for ranges of up to 16 bits, and for larger ones. Few bits mix slowly.
const ROUNDS: [usize; 2] = [12, 6];

/// A permutation of the numbers below `span`.
#[derive(Clone, Debug)]
pub struct Bijection {
    pub span: u64,
    /// Bits of the right half; the left half has as many or one less.
    right_bits: u32,
    left_bits: u32,
    keys: [u64; ROUNDS[0]],
    rounds: usize,
}

impl Bijection {
    /// Return the permutation of the numbers below `span` that `stream` determines.
    pub fn new(span: u64, stream: Stream) -> Self {
        let bits = u64::BITS - span.saturating_sub(1).leading_zeros();
        let mut keys = [0; ROUNDS[0]];
        for (position, key) in (0..).zip(&mut keys) {
            *key = stream.at(position);
        }
        Self {
            span,
            right_bits: bits - bits / 2,
            left_bits: bits / 2,
            keys,
            rounds: ROUNDS[usize::from(bits > 16)],
        }
    }

    /// Return the number at `position`, which must be below the span.
    #[inline]
    pub fn at(&self, position: u64) -> u64 {
        debug_assert!(position < self.span);
        let mut value = position;
        loop {
            value = self.turn(value);
            if value < self.span {
                return value;
            }
        }
    }

    #[inline]
    fn turn(&self, value: u64) -> u64 {
        let right_mask = (1u64 << self.right_bits) - 1;
        let left_mask = (1u64 << self.left_bits) - 1;
        let (mut left, mut right) = (value >> self.right_bits, value & right_mask);
        for keys in self.keys[..self.rounds].chunks_exact(2) {
            right ^= mix(left ^ keys[0]) & right_mask;
            left ^= mix(right ^ keys[1]) & left_mask;
        }
        left << self.right_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodness::assert_uniform;
    use proptest::prelude::*;

    fn order(span: u64, seed: u64) -> Vec<u64> {
        let bijection = Bijection::new(span, Stream::named(seed, "order"));
        (0..span).map(|position| bijection.at(position)).collect()
    }

    #[test]
    fn any_number_is_first_equally_often() {
        for span in [2, 3, 5, 10, 64, 100] {
            let mut seed = 0;
            assert_uniform(span, 100_000, || {
                seed += 1;
                Bijection::new(span, Stream::named(seed, "order")).at(0)
            });
        }
    }

    #[test]
    fn neighbours_lie_apart_by_any_distance() {
        let order = order(100_000, 3);
        let mut pairs = order.windows(2);
        assert_uniform(50, 99_999, || {
            let pair = pairs.next().unwrap();
            (pair[1] + 100_000 - pair[0]) % 100_000 / 2000
        });
    }

    #[test]
    fn large_spans() {
        for span in [u64::MAX, 1 << 63, (1 << 63) + 1, 1 << 32, (1 << 53) - 1] {
            let bijection = Bijection::new(span, Stream::named(1, "large"));
            assert!((0..1000).all(|position| bijection.at(position) < span));
        }
    }

    proptest! {
        #[test]
        fn each_number_comes_once(span in 1u64..3000, seed: u64) {
            let mut numbers = order(span, seed);
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..span).collect::<Vec<_>>());
        }
    }
}
