use std::collections::BTreeMap;

use super::*;
use crate::goodness::{assert_fits, assert_same};
use proptest::prelude::*;

const DRAWS: u32 = 1_000_000;

/// Count how often each number of 1 to `high` is drawn.
fn counts(shape: &Shape, high: usize, seed: u64) -> Vec<u64> {
    let integers = Integers::new(shape, 1, i64::try_from(high).unwrap());
    let mut random = Random::of(seed, "draws", 0);
    let mut counts = vec![0; high];
    for _ in 0..DRAWS {
        counts[usize::try_from(integers.draw(&mut random)).unwrap() - 1] += 1;
    }
    counts
}

fn assert_distribution(shape: &Shape, high: usize, probability: impl Fn(usize) -> f64) {
    let expected: Vec<f64> = (0..high).map(|n| probability(n) * f64::from(DRAWS)).collect();
    let sum: f64 = expected.iter().sum();
    assert!((sum / f64::from(DRAWS) - 1.0).abs() < 1e-6, "probabilities sum to {sum}");
    assert_fits(&counts(shape, high, 5), &expected);
}

#[test]
fn uniform() {
    for high in [1000, 3] {
        assert_distribution(&Shape::Uniform, high, |_| 1.0 / high as f64);
    }
}

#[test]
fn zipf_from_each_end_and_elsewhere() {
    let all: f64 = (1..=500).map(|rank| f64::from(rank).powf(-0.8)).sum();
    let assert_ranks = |shape: &Shape, rank: &dyn Fn(usize) -> f64| {
        assert_distribution(shape, 500, |n| rank(n).powf(-0.8) / all);
    };
    assert_ranks(&Shape::Zipf { exponent: 0.8, scrambled: false }, &|n| n as f64 + 1.0);
    assert_ranks(&Shape::Latest { exponent: 0.8 }, &|n| 500.0 - n as f64);
    let order = Bijection::new(500, Stream::named(0, "scrambled"));
    let mut rank_of = [0_u32; 500];
    for rank in 0..500_u32 {
        rank_of[usize::try_from(order.at(rank.into())).unwrap()] = rank + 1;
    }
    assert_ranks(&Shape::Zipf { exponent: 0.8, scrambled: true }, &|n| f64::from(rank_of[n]));
    let popular: Vec<u64> = (0..3).map(|rank| order.at(rank)).collect();
    assert!(popular.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 1), "{popular:?}");
}

#[test]
fn pareto() {
    let h: f64 = 0.2;
    let power = h.ln() / (1.0 - h).ln();
    let below = |n: f64| (n / 1000.0).powf(1.0 / power);
    assert_distribution(&Shape::Pareto { power }, 1000, |n| {
        below(n as f64 + 1.0) - below(n as f64)
    });
}

/// Return the probability that the mean of twelve uniform numbers is below `x` (Irwin and Hall).
fn mean_of_twelve_below(x: f64) -> f64 {
    let x = (12.0 * x).clamp(0.0, 12.0);
    let (mut sum, mut binomial, mut factorial) = (0.0, 1.0, 1.0);
    for k in 0..12 {
        if f64::from(k) < x {
            let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
            sum += sign * binomial * (x - f64::from(k)).powi(12);
        }
        binomial *= f64::from(12 - k) / f64::from(k + 1);
        factorial *= f64::from(k + 1);
    }
    sum / factorial
}

#[test]
fn special() {
    let shape = Shape::Special { share: 0.75, central: 0.01 };
    let (length, part) = (999.0, 9.99);
    let (low, high) =
        ((length - part) / 2.0 + 0.25 * (part + 1.0), f64::midpoint(length, part) + 1.0);
    assert_distribution(&shape, 1000, |n| {
        let n = n as f64;
        let bell = mean_of_twelve_below((n + 1.0) / length) - mean_of_twelve_below(n / length);
        let overlap = ((n + 1.0).min(high) - n.max(low)).max(0.0);
        0.25 * bell + 0.75 * overlap / (high - low)
    });
}

#[test]
fn normal() {
    for (mean, deviation) in [(0.5, 0.125), (0.2, 0.3), (1.0, 0.05)] {
        let density = |x: f64| (-((x - mean) / deviation).powi(2) / 2.0).exp();
        // Simpson's rule; classes are a hundredth of the range, so it is exact enough.
        let area = |from: f64| {
            let step = 0.01 / 20.0;
            (0..10)
                .map(|i| from + 2.0 * f64::from(i) * step)
                .map(|x| density(x) + 4.0 * density(x + step) + density(x + 2.0 * step))
                .sum::<f64>()
        };
        let all: f64 = (0..100).map(|n| area(f64::from(n) / 100.0)).sum();
        assert_distribution(&Shape::Normal { mean, deviation }, 100, |n| {
            area(n as f64 / 100.0) / all
        });
    }
}

#[test]
fn frequencies_are_those_of_sysbench() {
    let shapes = BTreeMap::from([
        ("pareto", Shape::Pareto { power: 0.2f64.ln() / 0.8f64.ln() }),
        ("special", Shape::Special { share: 0.75, central: 0.01 }),
        ("zipf 0.8", Shape::Zipf { exponent: 0.8, scrambled: false }),
        ("zipf 1", Shape::Zipf { exponent: 1.0, scrambled: false }),
    ]);
    let classes: Vec<std::ops::Range<usize>> =
        [(0, 20, 1), (20, 480, 20), (480, 520, 1), (520, 1000, 20)]
            .into_iter()
            .flat_map(|(from, to, step)| (from..to).step_by(step).map(move |n| n..n + step))
            .collect();
    let table = include_str!("sysbench.txt");
    let rows: Vec<_> = table.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(rows.len(), shapes.len());
    for row in rows {
        let (name, numbers) = row.split_once(':').unwrap();
        let sysbench: Vec<u64> = numbers.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let own = counts(&shapes[name], 1000, 9);
        let own: Vec<u64> = classes.iter().map(|class| own[class.clone()].iter().sum()).collect();
        assert_eq!(own.len(), sysbench.len());
        assert_same(&own, &sysbench);
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let scrambled = prop::bool::ANY;
    prop_oneof![
        Just(Shape::Uniform),
        (0.0..3.0, scrambled).prop_map(|(exponent, scrambled)| Shape::Zipf { exponent, scrambled }),
        (0.0..3.0).prop_map(|exponent| Shape::Latest { exponent }),
        (0.0..3.0).prop_map(|exponent| Shape::ZipfRotated { exponent, seed: 7 }),
        (0.1..20.0).prop_map(|power| Shape::Pareto { power }),
        (0.0..=1.0, 0.0..=1.0).prop_map(|(share, central)| Shape::Special { share, central }),
        (0.0..=1.0, 0.001..2.0).prop_map(|(mean, deviation)| Shape::Normal { mean, deviation }),
    ]
}

proptest! {
    #[test]
    fn no_draw_leaves_its_range(shape in shapes(), one: i64, other: i64, narrow in 0i64..3, seed: u64) {
        let mut random = Random::of(seed, "draws", 0);
        for (low, high) in [(one.min(other), one.max(other)), (one, one.saturating_add(narrow))] {
            let integers = Integers::new(&shape, low, high);
            for _ in 0..20 {
                prop_assert!((low..=high).contains(&integers.draw(&mut random)));
            }
        }
    }
}

/// As in LinkBench's accesses of links, the most popular percent of ids has the share of Zipf's
/// law.
#[test]
fn rotated_zipf_has_the_same_frequencies_elsewhere() {
    let shape = Shape::ZipfRotated { exponent: 0.8, seed: 53_238_253_823_453 };
    let weight = |rank: u32| f64::from(rank).powf(-0.8);
    let all: f64 = (1..=100_000).map(weight).sum();
    let top: f64 = (1..=1000).map(weight).sum::<f64>() / all;
    let counts = counts(&shape, 100_000, 5);
    let order = Rotations::new(100_000, 53_238_253_823_453);
    let popular = (0..1000).map(|rank| counts[usize::try_from(order.at(rank)).unwrap()]);
    let found = popular.sum::<u64>() as f64 / f64::from(DRAWS);
    assert!((found - top).abs() < 0.01, "{found} of the accesses, expected {top}");
}

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
            let expected: Vec<f64> = weights.iter().map(|w| w / all * f64::from(draws)).collect();
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
