//! A histogram drawn in characters.

use std::fmt::Write;

use hdrhistogram::Histogram;

use super::figures::count;

/// Buckets of the drawing for each factor of ten.
const PER_DECADE: i32 = 10;

/// The longest bar.
const BAR: u64 = 40;

/// Lines of value (ms), bar and count, from the least to the greatest latency of nanoseconds.
///
/// Bucket bounds are powers of 10^(1/10), so that drawings of different runs have the same rows.
pub fn histogram_lines(histogram: &Histogram<u64>) -> String {
    let buckets = buckets(histogram);
    let most = buckets.iter().map(|bucket| bucket.1).max().unwrap_or(0);
    let mut text =
        String::from("  up to (ms)  distribution                                   count\n");
    for (bound_ns, number) in buckets {
        let length = (number * BAR).div_ceil(most.max(1));
        let bar = "*".repeat(usize::try_from(length).unwrap_or(0));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:>10.4}  {bar:40}  {:>10}", bound_ns / 1e6, count(number));
    }
    text
}

/// Return the upper bound in nanoseconds and the count of each bucket between the first and the
/// last that has any.
fn buckets(histogram: &Histogram<u64>) -> Vec<(f64, u64)> {
    let mut buckets: Vec<(i32, u64)> = Vec::new();
    for step in histogram.iter_recorded() {
        let index = bucket_of(step.value_iterated_to());
        while buckets.last().is_some_and(|last| last.0 < index - 1) {
            let next = buckets[buckets.len() - 1].0 + 1;
            buckets.push((next, 0));
        }
        match buckets.last_mut() {
            Some(last) if last.0 == index => last.1 += step.count_at_value(),
            _ => buckets.push((index, step.count_at_value())),
        }
    }
    buckets
        .into_iter()
        .map(|(index, count)| (10f64.powf(f64::from(index) / f64::from(PER_DECADE)), count))
        .collect()
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // small logarithms
fn bucket_of(nanoseconds: u64) -> i32 {
    ((nanoseconds.max(1) as f64).log10() * f64::from(PER_DECADE)).ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_is_in_one_bucket() {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        for latency in [20_000, 20_000, 25_000, 400_000] {
            histogram.record(latency).unwrap();
        }
        let buckets = buckets(&histogram);
        assert_eq!(buckets.iter().map(|bucket| bucket.1).sum::<u64>(), 4);
        assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(buckets.len(), 14, "{buckets:?}"); // 10^4.4 to 10^5.7
        let lines = histogram_lines(&histogram);
        assert_eq!(lines.lines().count(), 15);
        assert!(lines.contains(&"*".repeat(40)), "{lines}");
    }

    #[test]
    fn nothing_recorded_has_no_rows() {
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        assert_eq!(histogram_lines(&histogram).lines().count(), 1);
    }
}
