//! LinkBench's payloads: some chunks are random bytes, the others are pieces of one motif, so the
//! share of random chunks determines how far a payload compresses. Lengths are log-normal.

use std::sync::Arc;

use crate::Stream;
use crate::distribution::standard_normal;
use crate::random::Random;

/// The length of a chunk in bytes; each chunk is either random or a piece of the motif.
const CHUNK: usize = 128;

/// Bytes taken from one random number: 256^6 is 2^48.
const BYTES_AT_ONCE: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MotifOptions {
    /// The smallest and the largest byte.
    pub low: u8,
    pub high: u8,
    /// The median of the lengths, and the standard deviation of their logarithm.
    pub median: f64,
    pub deviation: f64,
    pub longest: usize,
    /// The share of chunks that are random.
    pub uniqueness: f64,
    pub motif_length: usize,
}

/// A generator of payloads.
#[derive(Clone, Debug)]
pub struct Motifs {
    pub options: MotifOptions,
    motif: Arc<[u8]>,
}

impl Motifs {
    pub fn new(options: MotifOptions, stream: Stream) -> Self {
        let mut motif = vec![0; options.motif_length];
        fill(&mut motif, options, &mut Random::member(stream, 0));
        Self { options, motif: motif.into() }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the cast saturates
    pub fn length(&self, random: &mut Random) -> usize {
        let MotifOptions { median, deviation, longest, .. } = self.options;
        let length = median * (deviation * standard_normal(random)).exp();
        (length.round() as usize).min(longest)
    }

    #[inline]
    pub fn fill(&self, random: &mut Random, out: &mut [u8]) {
        for chunk in out.chunks_mut(CHUNK.min(self.motif.len())) {
            if random.unit() < self.options.uniqueness {
                fill(chunk, self.options, random);
            } else {
                let places = (self.motif.len() - chunk.len() + 1) as u64;
                #[allow(clippy::cast_possible_truncation)] // the number is below the motif's length
                let from = random.below(places) as usize;
                chunk.copy_from_slice(&self.motif[from..from + chunk.len()]);
            }
        }
    }
}

/// Fill `out` with uniform bytes of the range. Each is the integer part of fraction times range;
/// the remainder is the next fraction.
#[inline]
#[allow(clippy::cast_possible_truncation)] // the casts take the two words of the product
fn fill(out: &mut [u8], options: MotifOptions, random: &mut Random) {
    let range = u128::from(options.high - options.low) + 1;
    for bytes in out.chunks_mut(BYTES_AT_ONCE) {
        let mut fraction = random.number();
        for byte in bytes {
            let product = u128::from(fraction) * range;
            *byte = options.low + (product >> 64) as u8;
            fraction = product as u64;
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::goodness::{assert_fits, assert_uniform};

    const NODES: MotifOptions = MotifOptions {
        low: 50,
        high: 220,
        median: 128.0,
        deviation: 1.0,
        longest: 1 << 20,
        uniqueness: 0.63,
        motif_length: 512,
    };
    const LINKS: MotifOptions =
        MotifOptions { low: 32, high: 100, median: 8.0, longest: 255, uniqueness: 0.225, ..NODES };

    fn motifs(options: MotifOptions) -> Motifs {
        Motifs::new(options, Stream::named(1, "motifs"))
    }

    /// Return the distribution function of the standard normal, by a series.
    fn normal_below(z: f64) -> f64 {
        if z.abs() > 7.0 {
            return if z < 0.0 { 0.0 } else { 1.0 };
        }
        let (mut term, mut sum) = (z, z);
        for n in 1..200 {
            term *= z * z / f64::from(2 * n + 1);
            sum += term;
        }
        0.5 + sum * (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt()
    }

    #[test]
    fn lengths_are_log_normal() {
        for options in [NODES, LINKS] {
            let (motifs, draws) = (motifs(options), 200_000);
            let longest = options.longest.min(2000);
            let mut random = Random::of(3, "lengths", 0);
            let mut observed = vec![0; longest + 1];
            for _ in 0..draws {
                observed[motifs.length(&mut random).min(longest)] += 1;
            }
            let below = |length: f64| normal_below((length / options.median).ln());
            let expected: Vec<f64> = (0..=longest)
                .map(|length| {
                    let length_f = length as f64;
                    let from = if length == 0 { 0.0 } else { below(length_f - 0.5) };
                    let to = if length == longest { 1.0 } else { below(length_f + 0.5) };
                    (to - from) * f64::from(draws)
                })
                .collect();
            assert_fits(&observed, &expected);
        }
    }

    #[test]
    fn bytes_are_of_the_range_and_even() {
        let unique = MotifOptions { uniqueness: 1.0, ..LINKS };
        let mut bytes = vec![0; 300_000];
        motifs(unique).fill(&mut Random::of(1, "x", 0), &mut bytes);
        let mut bytes = bytes.iter();
        assert_uniform(69, 300_000, || u64::from(bytes.next().unwrap() - 32));
    }

    #[test]
    fn as_many_chunks_as_said_are_pieces_of_the_motif() {
        let motifs = motifs(NODES);
        let mut bytes = vec![0; CHUNK * 20_000];
        motifs.fill(&mut Random::of(1, "x", 0), &mut bytes);
        let is_piece = |chunk: &&[u8]| motifs.motif.windows(CHUNK).any(|piece| piece == *chunk);
        let pieces = bytes.chunks(CHUNK).filter(is_piece).count() as f64 / 20_000.0;
        assert!((pieces - 0.37).abs() < 0.015, "{pieces}");
    }

    #[test]
    fn a_short_motif_makes_chunks_short() {
        let motifs = motifs(MotifOptions { motif_length: 16, uniqueness: 0.0, ..LINKS });
        let mut bytes = vec![0; 100];
        motifs.fill(&mut Random::of(1, "x", 0), &mut bytes);
        assert!(bytes[..96].chunks(16).all(|chunk| chunk == &*motifs.motif));
    }
}
