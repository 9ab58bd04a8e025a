//! Numbers, tables and histograms for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use hdrhistogram::Histogram;

use protocol::shown::shown_line;

/// Buckets of the drawing for each factor of ten.
const PER_DECADE: i32 = 10;

/// The longest bar.
const BAR: u64 = 40;

/// A cell of a table; words stand left, numbers right.
pub enum Cell {
    Word(String),
    Number(String),
}

/// Lay rows of cells out as lines, each column as wide as it must be.
pub fn table(rows: &[Vec<Cell>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(Cell::width).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, &width) in row.iter().zip(&widths) {
            // Writing to a string cannot fail.
            let _ = match cell {
                Cell::Word(word) => write!(line, "  {word:width$}"),
                Cell::Number(number) => write!(line, "  {number:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

impl Cell {
    /// Make a cell of a word, which may be a server's; it is shown on one line.
    pub fn word(word: impl AsRef<str>) -> Self {
        Self::Word(shown_line(word.as_ref()).into_owned())
    }

    pub fn number(number: impl Into<String>) -> Self {
        Self::Number(number.into())
    }

    fn width(&self) -> usize {
        let (Self::Word(text) | Self::Number(text)) = self;
        text.chars().count()
    }
}

/// Format seconds as milliseconds with at least three digits.
pub fn milliseconds(seconds: Option<f64>) -> String {
    let Some(seconds) = seconds else {
        return "-".to_owned();
    };
    let value = seconds * 1e3;
    let decimals = [1.0, 10.0, 100.0, 1000.0].into_iter().filter(|limit| value < *limit).count();
    format!("{value:.decimals$}")
}

/// Return a count with its thousands apart.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Return a rate, from a number and the seconds that it took.
pub fn per_second(number: u64, duration_s: f64) -> String {
    if duration_s <= 0.0 {
        return "-".to_owned();
    }
    rate(number as f64 / duration_s)
}

/// Return a rate with about four digits.
pub fn rate(per_second: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a positive rate
    if per_second >= 1000.0 { count(per_second.round() as u64) } else { format!("{per_second:.2}") }
}

/// Bytes in the decimal unit that suits them.
pub fn bytes(bytes: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let value = bytes as f64;
    match units.into_iter().find(|(unit, _)| value >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", value / unit),
        None => format!("{bytes} B"),
    }
}

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

/// Return the upper bound (ns) and the count of each bucket from the first to the last with any.
fn buckets(histogram: &Histogram<u64>) -> Vec<(f64, u64)> {
    let mut counts: BTreeMap<i32, u64> = BTreeMap::new();
    for step in histogram.iter_recorded() {
        *counts.entry(bucket_of(step.value_iterated_to())).or_default() += step.count_at_value();
    }
    let ends = counts.keys().next().zip(counts.keys().last());
    let bound = |index: i32| 10f64.powf(f64::from(index) / f64::from(PER_DECADE));
    let count = |index: i32| counts.get(&index).copied().unwrap_or(0);
    ends.into_iter()
        .flat_map(|(first, last)| *first..=*last)
        .map(|index| (bound(index), count(index)))
        .collect()
}

#[allow(clippy::cast_possible_truncation)] // small logarithms
fn bucket_of(nanoseconds: u64) -> i32 {
    ((nanoseconds.max(1) as f64).log10() * f64::from(PER_DECADE)).ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(rate(12_345.6), "12,346");
        assert_eq!(rate(3.456), "3.46");
        assert_eq!(per_second(10, 0.0), "-");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_500_000), "1.5 MB");
        assert_eq!(milliseconds(Some(0.000_043_21)), "0.0432");
        assert_eq!(milliseconds(Some(1.2345)), "1234");
        assert_eq!(milliseconds(None), "-");
    }

    #[test]
    fn words_stand_left_and_numbers_right() {
        let rows = vec![
            vec![Cell::word("name"), Cell::number("count")],
            vec![Cell::word("a"), Cell::number("1")],
        ];
        assert_eq!(table(&rows), "  name  count\n  a         1\n");
    }

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
        histogram.reset();
        assert_eq!(histogram_lines(&histogram).lines().count(), 1);
    }
}
