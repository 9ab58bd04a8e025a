//! Random numbers by position: number `n` of a stream is computed without number `n - 1`.
//!
//! The numbers are those of `SplitMix64` (Steele, Lea and Flood, "Fast splittable pseudorandom
//! number generators", OOPSLA 2014), whose state after `n` steps is a multiple of `n`. The
//! generator is implemented here because every byte of a data set depends on it, and a library's
//! may change.

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// One stream of random numbers, addressed by position.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    key: u64,
}

impl Stream {
    /// Return the stream named `name` of a seed; streams of different names are unrelated.
    pub fn named(seed: u64, name: &str) -> Self {
        let key = name.bytes().fold(mix(seed), |key, byte| mix(key ^ u64::from(byte)));
        Self { key }
    }

    /// Return the stream of a key, which must itself be random.
    #[inline]
    pub fn keyed(key: u64) -> Self {
        Self { key }
    }

    /// Return number `position` of the stream, uniform over all of `u64`.
    #[inline]
    pub fn at(self, position: u64) -> u64 {
        mix(self.key.wrapping_add(position.wrapping_add(1).wrapping_mul(GAMMA)))
    }
}

/// The output function of `SplitMix64`: a bijection that spreads every input bit over the output.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Scale the low `bits` bits of `random` to a whole number below `bound`.
#[inline]
pub fn scale(random: u64, bits: u32, bound: u64) -> u64 {
    debug_assert!(bits <= 32 && bound < 1 << 32);
    ((random & ((1 << bits) - 1)) * bound) >> bits
}

/// Return `random * bound / 2^64`, uniform below `bound`.
#[inline]
pub fn high_product(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_splitmix64() {
        // The reference program's first outputs for the seed 1234567.
        let stream = Stream::keyed(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!([0, 1, 2, 3, 4].map(|position| stream.at(position)), expected);
    }

    #[test]
    fn streams_differ_by_seed_and_by_name() {
        let first = Stream::named(1, "rows").at(0);
        assert_ne!(first, Stream::named(2, "rows").at(0));
        assert_ne!(first, Stream::named(1, "edits").at(0));
    }

    #[test]
    fn scale_covers_its_range() {
        assert_eq!(scale(0, 16, 10), 0);
        assert_eq!(scale(0xffff, 16, 10), 9);
        assert_eq!(scale(u64::MAX, 32, 7), 6);
    }
}
