//! Whole numbers of a range, by the distributions that workloads name.

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
    /// P(rank) is proportional to rank^-exponent. Rank 1 is the lowest number, or, `scrambled`,
    /// any: ranks are laid over the range by one fixed bijection, the same for every seed.
    Zipf { exponent: f64, scrambled: bool },
    /// As Zipf, but ranks are laid over the range by the rotations of a seed.
    ZipfRotated { exponent: f64, seed: u64 },
    /// As Zipf, but rank 1 is the highest number. The range is as defined and does not grow with
    /// inserts: what other clients have inserted is not known to a client whose statements
    /// depend on nothing but seed and client.
    Latest { exponent: f64 },
    /// sysbench's Pareto: `low + (high - low + 1) * u^power` with power = ln h / ln(1 - h).
    Pareto { power: f64 },
    /// sysbench's special: `share` of the draws lie in the `central` part of the range, the
    /// others are means of twelve uniform numbers. As in sysbench, one number decides both the
    /// part and the place, so that the lowest quarter (1 - share) of the central part is never
    /// drawn by it.
    Special { share: f64, central: f64 },
    /// A normal distribution cut off at both ends; mean and deviation are fractions of the range.
    Normal { mean: f64, deviation: f64 },
}

/// The whole numbers from a lowest to a highest, spread by a shape.
#[derive(Clone, Debug)]
pub struct Integers {
    low: i64,
    /// The length of the range.
    span: u64,
    spread: PreparedShape,
}

/// A shape with what it needs of the range computed beforehand.
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
    /// Spread the numbers from `low` to `high`, at least one, by `shape`.
    pub fn new(shape: &Shape, low: i64, high: i64) -> Self {
        // The whole of i64 is one number too many for the count of it; nobody misses that one.
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

    /// Return the number at a place from 0 up to 1 of the range.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    #[inline]
    fn part(&self, place: f64) -> u64 {
        // A place just below 1 may round to the end of a large range.
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

/// Return a normally distributed number of mean 0 and deviation 1 (Box and Muller, "A note on the
/// generation of random normal deviates", Ann. Math. Stat. 29, 1958). The second one that the
/// method gives is not kept, so that a stream has no state but its position.
#[inline]
pub(crate) fn standard_normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// Zipf's distribution over the ranks from 1 to a largest, exactly: P(rank) is proportional to
/// rank^-exponent.
///
/// By rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
/// monotone discrete distributions", ACM TOMACS 6, 1996). With the integral of the hat chosen as
/// `(x^(1-s) - 1) / (1-s)` the method holds for every exponent from 0 on, and 1 is a limit.
#[derive(Clone, Debug)]
struct Zipf {
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
    fn new(ranks: u64, exponent: f64) -> Self {
        let mut zipf =
            Self { ranks, power: 1.0 - exponent, exponent, first: 0.0, last: 0.0, certain: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(ranks as f64 + 0.5);
        zipf.certain = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Return a rank, 1 being the most frequent.
    #[inline]
    fn rank(&self, random: &mut Random) -> u64 {
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

    fn inverse(&self, area: f64) -> f64 {
        let scaled = (area * self.power).max(-1.0); // rounding must not leave the domain
        (area * ratio(scaled, f64::ln_1p)).exp()
    }
}

/// f(x) / x for an f that is x near 0.
fn ratio(x: f64, f: fn(f64) -> f64) -> f64 {
    if x == 0.0 { 1.0 } else { f(x) / x }
}
