//! The bounded Zipf distribution, exactly: P(rank) is proportional to rank^-exponent.
//!
//! By rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", ACM TOMACS 6, 1996). With the integral of the hat chosen as
//! `(x^(1-s) - 1) / (1-s)` the method holds for every exponent from 0 on, and 1 is a limit.

#![allow(clippy::cast_precision_loss)] // ranks beyond 2^53 do not tell apart, as nobody can

use super::random::Random;

/// Zipf's distribution over the ranks from 1 to a largest.
#[derive(Clone, Debug)]
pub struct Zipf {
    ranks: u64,
    /// 1 - exponent.
    power: f64,
    exponent: f64,
    /// The hat's integral at the outer ends of the first and the last rank.
    first: f64,
    last: f64,
    /// A candidate that lies at most so far below its rank is taken without a further look.
    certain: f64,
}

impl Zipf {
    /// Over `ranks` ranks, at least one; `exponent` is 0 (uniform) or above.
    pub fn new(ranks: u64, exponent: f64) -> Self {
        let mut zipf =
            Self { ranks, power: 1.0 - exponent, exponent, first: 0.0, last: 0.0, certain: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(ranks as f64 + 0.5);
        zipf.certain = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Return a rank, 1 being the most frequent.
    #[inline]
    pub fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.last + random.unit() * (self.first - self.last);
            let candidate = self.inverse(area);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it saturates
            let rank = ((candidate + 0.5) as u64).clamp(1, self.ranks);
            let exact = rank as f64;
            if exact - candidate <= self.certain
                || area >= self.integral(exact + 0.5) - self.weight(exact)
            {
                return rank;
            }
        }
    }

    /// rank^-exponent.
    fn weight(&self, rank: f64) -> f64 {
        (-self.exponent * rank.ln()).exp()
    }

    /// `(x^power - 1) / power`, which is ln x where the power is 0.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        log * ratio(self.power * log, f64::exp_m1)
    }

    /// Return the x whose integral is `area`.
    fn inverse(&self, area: f64) -> f64 {
        let scaled = (area * self.power).max(-1.0); // rounding must not leave the domain
        (area * ratio(scaled, f64::ln_1p)).exp()
    }
}

/// f(x) / x for an f that is x near 0.
fn ratio(x: f64, f: fn(f64) -> f64) -> f64 {
    if x == 0.0 { 1.0 } else { f(x) / x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodness::assert_fits;

    #[test]
    fn frequencies_are_those_of_zipf() {
        let draws = 400_000;
        for (ranks, exponents) in [
            (1000, &[0.0, 0.2, 0.5, 0.8, 0.99, 1.0, 1.01, 1.5, 2.0, 4.0][..]),
            (2, &[0.0, 1.0, 3.0]),
            (10, &[0.8, 1.0]),
        ] {
            for &exponent in exponents {
                let zipf = Zipf::new(ranks, exponent);
                let mut random = Random::of(11, "zipf", exponent.to_bits());
                let mut observed = vec![0; usize::try_from(ranks).unwrap()];
                for _ in 0..draws {
                    observed[usize::try_from(zipf.rank(&mut random)).unwrap() - 1] += 1;
                }
                let weights: Vec<f64> = (1..=ranks).map(|r| (r as f64).powf(-exponent)).collect();
                let all: f64 = weights.iter().sum();
                let expected: Vec<f64> =
                    weights.iter().map(|w| w / all * f64::from(draws)).collect();
                assert_fits(&observed, &expected);
            }
        }
    }

    #[test]
    fn the_ends_of_large_and_small_ranges() {
        let mut random = Random::of(1, "ends", 0);
        assert_eq!(Zipf::new(1, 0.8).rank(&mut random), 1);
        for exponent in [0.0, 0.8, 1.0, 3.0] {
            let zipf = Zipf::new(1 << 62, exponent);
            for _ in 0..1000 {
                assert!((1..=1 << 62).contains(&zipf.rank(&mut random)));
            }
        }
    }
}
