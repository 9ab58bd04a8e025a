//! Numbers and tables for people.

use std::fmt::Write;

use protocol::shown::shown_line;

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
    let decimals = match value {
        value if value < 1.0 => 4,
        value if value < 10.0 => 3,
        value if value < 100.0 => 2,
        value if value < 1000.0 => 1,
        _ => 0,
    };
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
#[allow(clippy::cast_precision_loss)] // counts below 2^53
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
#[allow(clippy::cast_precision_loss)] // it is rounded anyway
pub fn bytes(bytes: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let value = bytes as f64;
    match units.into_iter().find(|(unit, _)| value >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", value / unit),
        None => format!("{bytes} B"),
    }
}

/// Return a percentile's name: `p99.9`.
pub fn percentile_name(percentile: f64) -> String {
    format!("p{percentile}")
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
        assert_eq!(percentile_name(99.9), "p99.9");
        assert_eq!(percentile_name(50.0), "p50");
    }

    #[test]
    fn words_stand_left_and_numbers_right() {
        let rows = vec![
            vec![Cell::word("name"), Cell::number("count")],
            vec![Cell::word("a"), Cell::number("1")],
        ];
        assert_eq!(table(&rows), "  name  count\n  a         1\n");
    }
}
