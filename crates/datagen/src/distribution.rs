//! Integers of a range, drawn from the distributions that workloads can name.

use super::bijection::Bijection;
use super::random::Random;
use super::rotations::Rotations;
use crate::Stream;

#[cfg(test)]
mod tests;

/// The distribution of the numbers of a range, independent of the range.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// All equally likely.
    Uniform,
    /// P(rank) is proportional to rank^-exponent. Rank 1 is the lowest number. If `scrambled`, a
    /// fixed permutation, the same for every seed, maps ranks to numbers.
    Zipf { exponent: f64, scrambled: bool },
    /// As Zipf, but the rotations of a seed map ranks to numbers.
    ZipfRotated { exponent: f64, seed: u64 },
    /// As Zipf, but rank 1 is the highest number. The range does not grow with inserts: a client's
    /// statements depend only on the seed and the client, not on the inserts of other clients.
    Latest { exponent: f64 },
    /// sysbench's Pareto: `low + (high - low + 1) * u^power` with power = ln h / ln(1 - h).
    Pareto { power: f64 },
    /// sysbench's special: `share` of the draws lie in the `central` part of the range; the others
    /// are means of twelve uniform numbers. As in sysbench, one random number decides both the part
    /// and the position in it, so the lowest quarter (1 - share) of the central part is never
    /// drawn.
    Special { share: f64, central: f64 },
    /// A normal distribution cut off at both ends; mean and deviation are fractions of the range.
    Normal { mean: f64, deviation: f64 },
}

/// The integers of a range, with the distribution `shape`.
#[derive(Clone, Debug)]
pub struct Integers {
    low: i64,
    /// The length of the range.
    span: u64,
    spread: PreparedShape,
}

/// A shape with everything precomputed that depends on the range.
#[derive(Clone, Debug)]
enum PreparedShape {
    Uniform,
    Zipf(Zipf),
    Scrambled(Zipf, Bijection),
    Rotated(Zipf, Rotations),
    Latest(Zipf),
    Pareto { power: f64 },
    Special { share: f64, central: f64 },
    Normal { mean: f64, deviation: f64 },
}

impl Integers {
    /// Distribute the numbers from `low` to `high` (at least one number) by `shape`.
    pub fn new(shape: &Shape, low: i64, high: i64) -> Self {
        // The count of all i64 values does not fit into u64; the highest value is left out.
        let span = high.abs_diff(low).saturating_add(1);
        let spread = match *shape {
            Shape::Uniform => PreparedShape::Uniform,
            Shape::Zipf { exponent, scrambled: false } => {
                PreparedShape::Zipf(Zipf::new(span, exponent))
            }
            Shape::Zipf { exponent, scrambled: true } => {
                let order = Bijection::new(span, Stream::named(0, "scrambled"));
                PreparedShape::Scrambled(Zipf::new(span, exponent), order)
            }
            Shape::ZipfRotated { exponent, seed } => {
                PreparedShape::Rotated(Zipf::new(span, exponent), Rotations::new(span, seed))
            }
            Shape::Latest { exponent } => PreparedShape::Latest(Zipf::new(span, exponent)),
            Shape::Pareto { power } => PreparedShape::Pareto { power },
            Shape::Special { share, central } => PreparedShape::Special { share, central },
            Shape::Normal { mean, deviation } => PreparedShape::Normal { mean, deviation },
        };
        Self { low, span, spread }
    }

    /// Draw one number.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> i64 {
        let offset = match &self.spread {
            PreparedShape::Uniform => random.below(self.span),
            PreparedShape::Zipf(zipf) => zipf.rank(random) - 1,
            PreparedShape::Scrambled(zipf, order) => order.at(zipf.rank(random) - 1),
            PreparedShape::Rotated(zipf, order) => order.at(zipf.rank(random) - 1),
            PreparedShape::Latest(zipf) => self.span - zipf.rank(random),
            PreparedShape::Pareto { power } => self.part(random.unit().powf(*power)),
            PreparedShape::Special { share, central } => self.special(*share, *central, random),
            PreparedShape::Normal { mean, deviation } => loop {
                let place = mean + deviation * standard_normal(random);
                if (0.0..1.0).contains(&place) {
                    break self.part(place);
                }
            },
        };
        self.low.wrapping_add_unsigned(offset)
    }

    /// Return the offset of the number at a fraction of the range, from 0 to below 1.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    #[inline]
    fn part(&self, place: f64) -> u64 {
        // A fraction just below 1 may round to the end of a large range.
        ((place * self.span as f64) as u64).min(self.span - 1)
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    #[inline]
    fn special(&self, share: f64, central: f64, random: &mut Random) -> u64 {
        let last = self.span - 1;
        let length = last as f64;
        let number = random.unit();
        let place = if number < 1.0 - share {
            let sum: f64 = (0..12).map(|_| random.unit()).sum();
            sum / 12.0 * length
        } else {
            let part = length * central;
            (length - part) / 2.0 + number * (part + 1.0)
        };
        (place as u64).min(last)
    }
}

/// Return a normally distributed number with mean 0 and standard deviation 1 (Box and Muller, "A
/// note on the generation of random normal deviates", Ann. Math. Stat. 29, 1958). The second number
/// of the method is discarded, so that a stream has no state except its position.
#[inline]
pub(crate) fn standard_normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// Zipf's distribution, exact, over the ranks from 1 to a maximum: P(rank) is proportional to
/// rank^-exponent.
///
/// The method is rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate
/// variates from monotone discrete distributions", ACM TOMACS 6, 1996). With `(x^(1-s) - 1) /
/// (1-s)` as the integral of the hat function, it works for every exponent from 0 on; 1 is the
/// limit case.
#[derive(Clone, Debug)]
struct Zipf {
    ranks: u64,
    /// 1 - exponent.
    power: f64,
    exponent: f64,
    /// The integral of the hat function at the outer ends of the first and the last rank.
    first: f64,
    last: f64,
    /// A candidate at most this far below its rank is accepted without a further check.
    certain: f64,
}

impl Zipf {
    /// `ranks` is at least 1; `exponent` is 0 (uniform) or above.
    fn new(ranks: u64, exponent: f64) -> Self {
        let mut zipf =
            Self { ranks, power: 1.0 - exponent, exponent, first: 0.0, last: 0.0, certain: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(ranks as f64 + 0.5);
        zipf.certain = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Return a rank; 1 is the most frequent.
    #[inline]
    fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.last + random.unit() * (self.first - self.last);
            let candidate = self.inverse(area);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the cast saturates
            let rank = ((candidate + 0.5) as u64).clamp(1, self.ranks);
            let exact = rank as f64;
            if exact - candidate <= self.certain
                || area >= self.integral(exact + 0.5) - self.weight(exact)
            {
                return rank;
            }
        }
    }

    /// Return rank^-exponent.
    fn weight(&self, rank: f64) -> f64 {
        (-self.exponent * rank.ln()).exp()
    }

    /// Return `(x^power - 1) / power`, or its limit ln x if the power is 0.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        log * ratio(self.power * log, f64::exp_m1)
    }

    fn inverse(&self, area: f64) -> f64 {
        let scaled = (area * self.power).max(-1.0); // rounding must not leave the function's domain
        (area * ratio(scaled, f64::ln_1p)).exp()
    }
}

/// Return f(x) / x, for an f that is approximately x near 0.
fn ratio(x: f64, f: fn(f64) -> f64) -> f64 {
    if x == 0.0 { 1.0 } else { f(x) / x }
}
