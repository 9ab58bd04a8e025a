//! Goodness-of-fit assertions for tests. A correct generator fails one in 10,000 seeds; the tests
//! have fixed seeds, so a test that passes once always passes.

#![allow(clippy::cast_possible_truncation)] // the counts are small

/// The standard normal's quantile at 1 - 1/10,000.
const QUANTILE: f64 = 3.719;

/// Assert Pearson's test: the statistic is below the chi-square quantile (Wilson and Hilferty's
/// approximation). Classes with an expected count below 10 are merged.
pub fn assert_fits(observed: &[u64], expected: &[f64]) {
    assert_eq!(observed.len(), expected.len());
    let (mut statistic, mut classes) = (0.0, 0.0);
    let (mut rest_observed, mut rest_expected) = (0.0, 0.0);
    for (&observed, &expected) in observed.iter().zip(expected) {
        let observed = observed as f64;
        if expected < 10.0 {
            rest_observed += observed;
            rest_expected += expected;
        } else {
            statistic += (observed - expected).powi(2) / expected;
            classes += 1.0;
        }
    }
    if rest_expected >= 10.0 {
        statistic += (rest_observed - rest_expected).powi(2) / rest_expected;
        classes += 1.0;
    } else {
        let unlikely = rest_expected + 10.0 * (rest_expected + 1.0).sqrt();
        assert!(rest_observed <= unlikely, "{rest_observed} where {rest_expected} is expected");
    }
    assert_chi_square(statistic, classes);
}

fn assert_chi_square(statistic: f64, classes: f64) {
    assert!(classes > 1.0, "there is nothing to compare");
    let freedom = classes - 1.0;
    let part = 2.0 / (9.0 * freedom);
    let limit = freedom * (1.0 - part + QUANTILE * part.sqrt()).powi(3);
    assert!(statistic < limit, "chi-square is {statistic:.1} of {limit:.1} at freedom {freedom}");
}

/// Assert that each of the numbers below `classes` is equally frequent.
pub fn assert_uniform(classes: u64, draws: u32, mut draw: impl FnMut() -> u64) {
    let mut observed = vec![0; classes as usize];
    for _ in 0..draws {
        observed[draw() as usize] += 1;
    }
    let expected = vec![f64::from(draws) / classes as f64; classes as usize];
    assert_fits(&observed, &expected);
}

/// Assert that two samples, counted by the same classes, have the same distribution.
pub fn assert_same(one: &[u64], other: &[u64]) {
    let sum = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
    let (all_one, all_other) = (sum(one), sum(other));
    let (mut statistic, mut classes) = (0.0, 0.0);
    for (&a, &b) in one.iter().zip(other) {
        if a + b < 20 {
            continue; // too few values for a test
        }
        let (a, b) = (a as f64, b as f64);
        let scaled = a * (all_other / all_one).sqrt() - b * (all_one / all_other).sqrt();
        statistic += scaled.powi(2) / (a + b);
        classes += 1.0;
    }
    assert_chi_square(statistic, classes);
}

#[test]
fn a_bad_generator_is_found() {
    let off_by_little = |observed: &[u64]| {
        let expected = vec![1000.0; observed.len()];
        std::panic::catch_unwind(|| assert_fits(observed, &expected)).is_err()
    };
    assert!(off_by_little(&[1150, 850, 1000, 1000]));
    assert!(!off_by_little(&[1030, 970, 1010, 990]));
    assert!(std::panic::catch_unwind(|| assert_same(&[1150, 850], &[1000, 1000])).is_err());
}
