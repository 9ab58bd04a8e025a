//! Values as a server gives them back: a column may hold a sent value and show it as another text.
//!
//! A `DATE` shows 19700203 as 1970-02-03, a `DOUBLE` 45000.10 as 45000.1. Here the type of a column
//! gives its values one text, whichever of their texts was sent.

use std::borrow::Cow;

use super::sql::quoted;

/// Digits after the point of a floating-point number, as `DECIMAL` has them at most.
const FLOAT_SCALE: usize = 30;

/// The way in which the values of a column are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text by text.
    Text,
    Integer,
    Decimal {
        scale: usize,
    },
    /// Of double precision, or of single.
    Float {
        is_double: bool,
    },
    Date,
    /// Digits of a second.
    DateTime {
        digits: usize,
    },
    Time {
        digits: usize,
    },
}

impl Form {
    /// Return the form of a type as `information_schema.columns.column_type` has it.
    pub fn of_type(column_type: &str) -> Self {
        let lower = column_type.to_ascii_lowercase();
        let name = lower.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("");
        let numbers: Vec<usize> = lower
            .split_once('(')
            .and_then(|(_, rest)| rest.split_once(')'))
            .map(|(inner, _)| inner.split(',').filter_map(|n| n.trim().parse().ok()).collect())
            .unwrap_or_default();
        let digits = numbers.first().copied().unwrap_or(0);
        match name {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year" => Self::Integer,
            "decimal" => Self::Decimal { scale: numbers.get(1).copied().unwrap_or(0) },
            "double" | "real" => Self::Float { is_double: true },
            "float" => Self::Float { is_double: false },
            "date" => Self::Date,
            "datetime" | "timestamp" => Self::DateTime { digits },
            "time" => Self::Time { digits },
            _ => Self::Text,
        }
    }

    /// Return the expression whose text a server gives for a value of the column.
    pub fn expression(self, column: &str) -> String {
        let name = quoted(column);
        match self {
            // Without the zeros that ZEROFILL puts before them.
            Self::Integer | Self::Decimal { .. } => format!("{name} + 0"),
            Self::Float { .. } => format!("CAST({name} AS DECIMAL(65,{FLOAT_SCALE}))"),
            _ => name,
        }
    }

    /// Return the same text for a value that was sent; one that is not of the form stays as it is.
    pub fn canonical(self, sent: &str) -> Cow<'_, str> {
        let other = match self {
            Self::Text => None,
            Self::Integer => sent.parse::<i128>().ok().map(|number| number.to_string()),
            Self::Decimal { scale } => decimal(sent, scale),
            Self::Float { is_double } => {
                let number = sent.parse::<f64>().ok().filter(|number| number.is_finite());
                #[allow(clippy::cast_possible_truncation)] // as the server rounds
                let number = number.map(|n| if is_double { n } else { f64::from(n as f32) });
                number.and_then(|number| decimal(&number.to_string(), FLOAT_SCALE))
            }
            Self::Date => date(sent),
            Self::DateTime { digits } => date_time(sent, digits),
            Self::Time { digits } => time(sent, digits),
        };
        other.map_or(Cow::Borrowed(sent), Cow::Owned)
    }
}

/// Return a decimal number with `scale` digits after the point; None where it has more digits.
fn decimal(text: &str, scale: usize) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let is_fraction_only = whole.is_empty() && !fraction.is_empty();
    if !are_digits(whole) && !is_fraction_only {
        return None;
    }
    if fraction.len() > scale || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let sign = if whole.is_empty() && fraction.is_empty() { "" } else { sign };
    let whole = if whole.is_empty() { "0" } else { whole };
    if scale == 0 {
        return Some(format!("{sign}{whole}"));
    }
    Some(format!("{sign}{whole}.{fraction:0<scale$}"))
}

/// `1970-02-03` for `19700203`, `700203` and `1970/2/3`.
fn date(text: &str) -> Option<String> {
    if are_digits(text) {
        return match text.len() {
            8 => Some(format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..])),
            6 => Some(format!("{}-{}-{}", year(&text[..2])?, &text[2..4], &text[4..])),
            _ => None,
        };
    }
    let parts: Vec<&str> = text.split(|c: char| c.is_ascii_punctuation()).collect();
    let [of_year, month, day] = parts.as_slice() else {
        return None;
    };
    let is_part = |part: &str| are_digits(part) && part.len() <= 2;
    if !is_part(month) || !is_part(day) {
        return None;
    }
    Some(format!("{}-{month:0>2}-{day:0>2}", year(of_year)?))
}

/// Return the four digits of a year; two are enough from 1970 to 2069.
fn year(text: &str) -> Option<String> {
    match (text.len(), text.parse::<u16>().ok()?) {
        (4, _) => Some(text.to_owned()),
        (2, year @ ..70) => Some((2000 + year).to_string()),
        (2, year) => Some((1900 + year).to_string()),
        _ => None,
    }
}

fn date_time(text: &str, digits: usize) -> Option<String> {
    let (text, fraction) = split_fraction(text);
    let (date_of, time_of) = if are_digits(text) {
        match text.len() {
            8 | 6 => (text, ""),
            14 | 12 => text.split_at(text.len() - 6),
            _ => return None,
        }
    } else {
        text.split_once([' ', 'T']).unwrap_or((text, ""))
    };
    let clock = if time_of.is_empty() { "00:00:00".to_owned() } else { clock(time_of)? };
    Some(format!("{} {clock}{}", date(date_of)?, second_digits(fraction, digits)?))
}

fn time(text: &str, digits: usize) -> Option<String> {
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |text| ("-", text));
    let (text, fraction) = split_fraction(text);
    let (clock, fraction) = (clock(text)?, second_digits(fraction, digits)?);
    let is_zero = clock.bytes().chain(fraction.bytes()).all(|byte| b"0:.".contains(&byte));
    Some(format!("{}{clock}{fraction}", if is_zero { "" } else { sign }))
}

/// `10:11:12` for `101112` and `10:11:12`; `10:11` has no seconds, `10` is seconds only.
fn clock(text: &str) -> Option<String> {
    if are_digits(text) && text.len() <= 7 {
        let padded = format!("{text:0>6}");
        let (hours, rest) = padded.split_at(padded.len() - 4);
        let hours = hours.trim_start_matches('0');
        return Some(format!("{hours:0>2}:{}:{}", &rest[..2], &rest[2..]));
    }
    let parts: Vec<&str> = text.split(':').collect();
    let (hours, minutes, seconds) = match parts.as_slice() {
        [hours, minutes] => (*hours, *minutes, "0"),
        [hours, minutes, seconds] => (*hours, *minutes, *seconds),
        _ => return None,
    };
    let is_part = |part: &str, most: usize| are_digits(part) && part.len() <= most;
    if !is_part(hours, 3) || !is_part(minutes, 2) || !is_part(seconds, 2) {
        return None;
    }
    Some(format!("{hours:0>2}:{minutes:0>2}:{seconds:0>2}"))
}

fn split_fraction(text: &str) -> (&str, &str) {
    text.split_once('.').unwrap_or((text, ""))
}

/// Return the point and `digits` digits of a second; None where more were sent.
fn second_digits(fraction: &str, digits: usize) -> Option<String> {
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > digits || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(if digits == 0 { String::new() } else { format!(".{fraction:0<digits$}") })
}

fn are_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_their_form() {
        for (column_type, form) in [
            ("int(10) unsigned zerofill", Form::Integer),
            ("bigint unsigned", Form::Integer),
            ("year(4)", Form::Integer),
            ("DECIMAL(12,2) unsigned", Form::Decimal { scale: 2 }),
            ("decimal(10,0)", Form::Decimal { scale: 0 }),
            ("double(8,3)", Form::Float { is_double: true }),
            ("float", Form::Float { is_double: false }),
            ("date", Form::Date),
            ("datetime(6)", Form::DateTime { digits: 6 }),
            ("timestamp", Form::DateTime { digits: 0 }),
            ("time(3)", Form::Time { digits: 3 }),
            ("varchar(40)", Form::Text),
            ("enum('date','1')", Form::Text),
            ("", Form::Text),
        ] {
            assert_eq!(Form::of_type(column_type), form, "{column_type}");
        }
    }

    #[test]
    fn numbers_are_compared_by_value() {
        let decimal = Form::Decimal { scale: 3 };
        let double = Form::Float { is_double: true };
        let float = Form::Float { is_double: false };
        for (form, sent, canonical) in [
            (Form::Integer, "007", "7"),
            (Form::Integer, "-0", "0"),
            (Form::Integer, "1.5", "1.5"),
            (decimal, "12.5", "12.500"),
            (decimal, "-00.10", "-0.100"),
            (decimal, "-0.00", "0.000"),
            (decimal, "5", "5.000"),
            (decimal, "0.1234", "0.1234"), // the server rounds it: another value
            (decimal, "0.12340", "0.12340"),
            (decimal, "x", "x"),
            (Form::Decimal { scale: 0 }, "7.0", "7"),
            (double, "45000.10", "45000.100000000000000000000000000000"),
            (double, "9007199254740993", "9007199254740992.000000000000000000000000000000"),
            (double, "-0", "0.000000000000000000000000000000"),
            (float, "0.1", "0.100000001490116120000000000000"),
            (float, "0.5", "0.500000000000000000000000000000"),
        ] {
            assert_eq!(form.canonical(sent), canonical, "{form:?} {sent}");
        }
    }

    #[test]
    fn dates_and_times_are_compared_by_value() {
        let seconds = Form::DateTime { digits: 0 };
        let millis = Form::DateTime { digits: 3 };
        let clock = Form::Time { digits: 0 };
        for (form, sent, canonical) in [
            (Form::Date, "19700203", "1970-02-03"),
            (Form::Date, "700203", "1970-02-03"),
            (Form::Date, "690203", "2069-02-03"),
            (Form::Date, "1970/2/3", "1970-02-03"),
            (Form::Date, "1970-02-03", "1970-02-03"),
            (Form::Date, "1970", "1970"),
            (seconds, "19700203101112", "1970-02-03 10:11:12"),
            (seconds, "700203101112", "1970-02-03 10:11:12"),
            (seconds, "19700203", "1970-02-03 00:00:00"),
            (seconds, "1970-02-03 1:2:3", "1970-02-03 01:02:03"),
            (seconds, "1970-02-03T10:11:12.000", "1970-02-03 10:11:12"),
            (seconds, "19700203101112.5", "19700203101112.5"), // rounded or cut by the server
            (millis, "19700203101112.5", "1970-02-03 10:11:12.500"),
            (millis, "19700203", "1970-02-03 00:00:00.000"),
            (clock, "101112", "10:11:12"),
            (clock, "7", "00:00:07"),
            (clock, "8385959", "838:59:59"),
            (clock, "-1:02", "-01:02:00"),
            (clock, "-0", "00:00:00"),
            (Form::Time { digits: 2 }, "1.5", "00:00:01.50"),
            (clock, "soon", "soon"),
        ] {
            assert_eq!(form.canonical(sent), canonical, "{form:?} {sent}");
        }
    }
}
