//! Column definitions, and the values of binary rows as text.

use super::wire::Reader;
use crate::ProtocolError;
use crate::error::refused;
use crate::script::Row;

/// The protocol's numbers of the column types.
mod column_type {
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const NULL: u8 = 6;
    pub const TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
}
use column_type as t;

const UNSIGNED: u16 = 1 << 5;

/// The maximum number of decimals of a date or time column; a larger value means that the number is
/// not fixed.
const MAX_DECIMALS: u8 = 6;

/// Unused bits at the start of the NULL bitmap of a binary row.
const NULLS_OFFSET: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub kind: u8,
    pub is_unsigned: bool,
    pub decimals: u8,
}

impl Column {
    pub fn parse(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(message);
        for what in ["catalog", "schema", "table", "original table"] {
            reader.string_or_null(what)?;
        }
        reader.string_or_null("column's name")?;
        reader.string_or_null("column's original name")?;
        reader.length("length of the fixed part")?;
        reader.bytes(6, "character set and width")?;
        let kind = reader.byte("column's type")?;
        let flags = reader.short("column's flags")?;
        let decimals = reader.byte("column's decimals")?;
        Ok(Self { kind, is_unsigned: flags & UNSIGNED != 0, decimals })
    }
}

/// Parse a binary row, which has exactly one value for each column. The texts are the same as in
/// the text protocol, except for digits of floating-point numbers.
pub fn parse_binary_row(message: &[u8], columns: &[Column]) -> Result<Row, ProtocolError> {
    let mut reader = Reader::new(message);
    let first = reader.byte("row")?;
    if first != 0 {
        return refused(format!("a binary row starts with {first} instead of 0"));
    }
    let nulls = reader.bytes((columns.len() + NULLS_OFFSET).div_ceil(8), "bitmap of NULLs")?;
    let mut values = Vec::with_capacity(columns.len());
    for (number, column) in columns.iter().enumerate() {
        let bit = number + NULLS_OFFSET;
        let is_null = nulls[bit / 8] >> (bit % 8) & 1 == 1;
        values.push(if is_null { None } else { parse_value(&mut reader, column)? });
    }
    match reader.rest().len() {
        0 => Ok(values),
        left => refused(format!("{left} bytes follow the last value of a row")),
    }
}

fn parse_value(reader: &mut Reader<'_>, column: &Column) -> Result<Option<String>, ProtocolError> {
    let what = "value of a row";
    let width = match column.kind {
        t::TINY => 1,
        t::SHORT | t::YEAR => 2,
        t::LONG | t::INT24 | t::FLOAT => 4,
        t::LONGLONG | t::DOUBLE => 8,
        t::NULL => return Ok(None),
        t::DATE | t::DATETIME | t::TIMESTAMP => return parse_date(reader, column).map(Some),
        t::TIME => return parse_time(reader, column.decimals).map(Some),
        _ => {
            let bytes = reader.string_or_null(what)?;
            return Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
        }
    };
    let bits = reader.number(width, what)?;
    let [a, b, c, d, ..] = bits.to_le_bytes();
    Ok(Some(match column.kind {
        t::FLOAT => f32::from_le_bytes([a, b, c, d]).to_string(),
        t::DOUBLE => f64::from_bits(bits).to_string(),
        _ if column.is_unsigned => bits.to_string(),
        _ => {
            let unused = 64 - 8 * u32::try_from(width).expect("at most 8 bytes");
            ((bits << unused).cast_signed() >> unused).to_string()
        }
    }))
}

fn parse_date(reader: &mut Reader<'_>, column: &Column) -> Result<String, ProtocolError> {
    let parts = parts_of_time(reader, &[0, 4, 7, 11], "date of a row")?;
    let [low, high, month, day, hour, minute, second, microsecond @ .., _] = parts;
    let date = format!("{:04}-{month:02}-{day:02}", u16::from_le_bytes([low, high]));
    if column.kind == t::DATE {
        return Ok(date);
    }
    let fraction = fraction(microsecond, column.decimals);
    Ok(format!("{date} {hour:02}:{minute:02}:{second:02}{fraction}"))
}

fn parse_time(reader: &mut Reader<'_>, decimals: u8) -> Result<String, ProtocolError> {
    let parts = parts_of_time(reader, &[0, 8, 12], "time of a row")?;
    let [is_negative, a, b, c, d, hour, minute, second, microsecond @ ..] = parts;
    let sign = if is_negative == 0 { "" } else { "-" };
    let hours = u64::from(u32::from_le_bytes([a, b, c, d])) * 24 + u64::from(hour);
    let fraction = fraction(microsecond, decimals);
    Ok(format!("{sign}{hours:02}:{minute:02}:{second:02}{fraction}"))
}

/// Return the parts of a date or a time, whose length must be one of `lengths`; trailing zeros are
/// omitted on the wire.
fn parts_of_time(
    reader: &mut Reader<'_>,
    lengths: &[u8],
    what: &'static str,
) -> Result<[u8; 12], ProtocolError> {
    let length = reader.byte(what)?;
    if !lengths.contains(&length) {
        return refused(format!("a {what} has {length} bytes"));
    }
    let sent = reader.bytes(usize::from(length), what)?;
    let mut parts = [0; 12];
    parts[..sent.len()].copy_from_slice(sent);
    Ok(parts)
}

/// Return the fraction of a second with the column's number of decimals, including the decimal
/// point.
fn fraction(microsecond: [u8; 4], decimals: u8) -> String {
    let microsecond = u32::from_le_bytes(microsecond);
    let digits = format!(".{microsecond:06}");
    match decimals {
        0 => String::new(),
        1..=MAX_DECIMALS => digits[..=usize::from(decimals)].to_owned(),
        _ if microsecond == 0 => String::new(),
        _ => digits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn column(kind: u8, decimals: u8) -> Column {
        Column { kind, is_unsigned: false, decimals }
    }

    fn text(kind: u8, decimals: u8, value: &[u8]) -> Option<String> {
        let row = [&[0, 0], value].concat();
        parse_binary_row(&row, &[column(kind, decimals)]).unwrap().remove(0)
    }

    #[test]
    fn fractions_have_the_digits_of_their_column() {
        let moment = [11, 0xe8, 0x07, 2, 29, 1, 2, 3, 0xc0, 0xd4, 1, 0];
        for (decimals, expected) in [
            (0, "2024-02-29 01:02:03"),
            (3, "2024-02-29 01:02:03.120"),
            (6, "2024-02-29 01:02:03.120000"),
            (31, "2024-02-29 01:02:03.120000"),
        ] {
            assert_eq!(text(t::DATETIME, decimals, &moment).unwrap(), expected);
        }
        let span = [12, 1, 34, 0, 0, 0, 22, 59, 59, 0xc0, 0xd4, 1, 0];
        assert_eq!(text(t::TIME, 2, &span).unwrap(), "-838:59:59.12");
        // Zeros are omitted on the wire.
        assert_eq!(text(t::TIME, 1, &[0]).unwrap(), "00:00:00.0");
        assert_eq!(text(t::DATE, 0, &[0]).unwrap(), "0000-00-00");
        let day = [4, 0xe8, 0x07, 2, 29];
        assert_eq!(text(t::TIMESTAMP, 0, &day).unwrap(), "2024-02-29 00:00:00");
    }

    #[test]
    fn numbers_keep_their_sign() {
        assert_eq!(text(t::TINY, 0, &[0x80]).unwrap(), "-128");
        assert_eq!(text(t::INT24, 0, &[0, 0, 0x80, 0xff]).unwrap(), "-8388608");
        assert_eq!(text(t::LONGLONG, 0, &[0xff; 8]).unwrap(), "-1");
    }

    #[test]
    fn a_null_has_no_bytes() {
        let columns = [column(t::TINY, 0), column(t::TINY, 0)];
        let values = parse_binary_row(&[0, 0b0100, 7], &columns);
        assert_eq!(values, Ok(vec![None, Some("7".to_owned())]));
    }

    #[test]
    fn rows_that_do_not_fit_their_columns_are_refused() {
        let columns = [column(t::DATE, 0)];
        for row in [
            &[][..],
            &[1, 0],
            &[0],
            &[0, 0],
            &[0, 0, 5, 1, 1, 1, 1, 1],
            &[0, 0, 4, 1],
            &[0, 0, 0, 9],
        ] {
            assert!(parse_binary_row(row, &columns).is_err(), "{row:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            row: Vec<u8>,
            message: Vec<u8>,
            kinds in proptest::collection::vec((any::<u8>(), any::<u8>()), 0..6),
        ) {
            let _ = Column::parse(&message);
            let columns: Vec<Column> = kinds.iter().map(|&(k, d)| column(k, d)).collect();
            let row = [&[0, 0], row.as_slice()].concat();
            if let Ok(values) = parse_binary_row(&row, &columns) {
                prop_assert_eq!(values.len(), columns.len());
            }
        }
    }
}
