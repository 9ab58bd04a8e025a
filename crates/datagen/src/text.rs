//! Values as text, written at the start of a buffer that has room to spare.

#![allow(clippy::cast_possible_truncation)] // the values are scaled below the type's limit before

use super::counter::{Stream, high_product};
use super::digits::{put_digits, put_number};

/// Digits taken from one random number: few enough that probabilities differ by at most 1 in 10^7.
const DIGITS_AT_ONCE: usize = 12;

/// The powers of ten.
const POWERS: [u64; 20] = {
    let mut powers = [1; 20];
    let mut exponent = 1;
    while exponent < powers.len() {
        powers[exponent] = 10 * powers[exponent - 1];
        exponent += 1;
    }
    powers
};

/// Letters taken from one random number; 62^8 is below 2^48.
const LETTERS_AT_ONCE: usize = 8;

const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Write an integer at the start of `out`, which needs room for 25 bytes; return its length.
#[inline]
pub fn put_integer(out: &mut [u8], value: i64) -> usize {
    put_signed(out, value < 0, value.unsigned_abs())
}

#[inline]
fn put_signed(out: &mut [u8], is_negative: bool, magnitude: u64) -> usize {
    out[0] = b'-';
    let sign = usize::from(is_negative);
    let room: &mut [u8; 24] =
        (&mut out[sign..sign + 24]).try_into().expect("the slice has this length");
    sign + put_number(room, 0, magnitude)
}

/// Write `units` of 10^-scale (scale up to 15) at the start of `out`, which needs room for 48
/// bytes.
#[inline]
pub fn put_decimal(out: &mut [u8], units: i64, scale: u32) -> usize {
    if scale == 0 {
        return put_integer(out, units);
    }
    let one = POWERS[scale as usize];
    let magnitude = units.unsigned_abs();
    let point = put_signed(out, units < 0, magnitude / one);
    out[point] = b'.';
    let scale = scale as usize;
    let mut fraction = [0; 16];
    put_digits(&mut fraction, magnitude % one, scale);
    out[point + 1..point + 1 + scale].copy_from_slice(&fraction[..scale]);
    point + 1 + scale
}

/// Write groups of digits, joined by `-`, to `out`, which needs room for 16 more bytes; return
/// their length.
#[inline]
pub fn put_groups(out: &mut [u8], stream: Stream, row: u64, groups: usize, length: usize) -> usize {
    let pieces = length.div_ceil(DIGITS_AT_ONCE);
    let last = length - (pieces - 1) * DIGITS_AT_ONCE;
    let mut position = row.wrapping_mul((groups * pieces) as u64);
    let mut at = 0;
    for _ in 0..groups {
        for _ in 1..pieces {
            at += put_piece(&mut out[at..], stream.at(position), DIGITS_AT_ONCE);
            position = position.wrapping_add(1);
        }
        at += put_piece(&mut out[at..], stream.at(position), last);
        position = position.wrapping_add(1);
        out[at] = b'-';
        at += 1;
    }
    at - 1
}

#[inline]
fn put_piece(out: &mut [u8], random: u64, digits: usize) -> usize {
    let room: &mut [u8; 16] = (&mut out[..16]).try_into().expect("the slice has this length");
    put_digits(room, high_product(random, POWERS[digits]), digits);
    digits
}

/// Write letters and digits to `out` and return their number, drawn from `shortest` to `longest`.
#[inline]
pub fn put_letters(
    out: &mut [u8],
    stream: Stream,
    row: u64,
    shortest: usize,
    longest: usize,
) -> usize {
    let numbers = 1 + longest.div_ceil(LETTERS_AT_ONCE) as u64;
    let first = row.wrapping_mul(numbers);
    let choices = (longest - shortest) as u64 + 1;
    let length = shortest + high_product(stream.at(first), choices) as usize;
    for (letters, position) in out[..length].chunks_mut(LETTERS_AT_ONCE).zip(1..) {
        let mut fraction = stream.at(first.wrapping_add(position));
        for letter in letters {
            let product = u128::from(fraction) * LETTERS.len() as u128;
            *letter = LETTERS[(product >> 64) as usize];
            fraction = product as u64;
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_integer(value: i64) {
            let mut out = [0; 32];
            let length = put_integer(&mut out, value);
            prop_assert_eq!(out[..length].to_vec(), value.to_string().into_bytes());
        }

        #[test]
        fn any_decimal(units: i64, scale in 0u32..=15) {
            let mut out = [0; 48];
            let length = put_decimal(&mut out, units, scale);
            let text = std::str::from_utf8(&out[..length]).unwrap();
            let fraction = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
            prop_assert_eq!(fraction, scale as usize);
            let digits = text.replace('.', "");
            prop_assert_eq!(digits.parse::<i64>().unwrap(), units);
        }

        #[test]
        fn groups_of_digits(seed: u64, groups in 1usize..5, length in 1usize..40) {
            let mut out = [0; 256];
            let all = put_groups(&mut out, Stream::named(seed, "x"), 3, groups, length);
            let text = std::str::from_utf8(&out[..all]).unwrap();
            let found: Vec<&str> = text.split('-').collect();
            prop_assert_eq!(found.len(), groups);
            for group in found {
                prop_assert_eq!(group.len(), length);
                prop_assert!(group.bytes().all(|byte| byte.is_ascii_digit()));
            }
        }

        #[test]
        fn letters(seed: u64, shortest in 0usize..40, more in 0usize..40) {
            let mut out = [0; 128];
            let length = put_letters(&mut out, Stream::named(seed, "x"), 3, shortest, shortest + more);
            prop_assert!((shortest..=shortest + more).contains(&length));
            prop_assert!(out[..length].iter().all(u8::is_ascii_alphanumeric));
            prop_assert!(out[length..].iter().all(|&byte| byte == 0));
        }
    }
}
