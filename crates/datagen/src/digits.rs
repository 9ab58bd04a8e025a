//! Fast conversion to decimal digits: several at a time, in one machine word.

#![allow(clippy::cast_possible_truncation)] // the casts are of remainders below 10^8

const EIGHT: u64 = 100_000_000;

/// Return the eight decimal digits of `value` (below 100,000,000) as text, leading zeros included.
///
/// The number is split into numbers of four digits, then pairs, then digits, in parallel lanes of
/// one word. Multiplications replace the divisions by 100 and 10; they are exact in the range of
/// their lanes.
#[inline]
pub fn eight(value: u32) -> [u8; 8] {
    debug_assert!(value < 100_000_000);
    let fours = u64::from(value / 10_000) | u64::from(value % 10_000) << 32;
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | (fours - 100 * hundreds) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    let digits = tens | (pairs - 10 * tens) << 8;
    (digits | 0x3030_3030_3030_3030).to_le_bytes()
}

/// Write the last `length` digits (1 to 16) of `value` (below 10^16) at the start of `out`.
///
/// The bytes after the digits are overwritten, up to the 16th.
#[inline]
pub fn put_digits(out: &mut [u8; 16], value: u64, length: usize) {
    debug_assert!((1..=16).contains(&length) && value < EIGHT * EIGHT);
    if length <= 8 {
        let digits = u64::from_le_bytes(eight((value % EIGHT) as u32));
        out[..8].copy_from_slice(&(digits >> (8 * (8 - length))).to_le_bytes());
    } else {
        let high = u64::from_le_bytes(eight((value / EIGHT) as u32));
        out[..8].copy_from_slice(&(high >> (8 * (16 - length))).to_le_bytes());
        out[length - 8..length].copy_from_slice(&eight((value % EIGHT) as u32));
    }
}

/// The numbers below 100 as two digits each.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut tens = 0;
    while tens < 10 {
        let mut units = 0;
        while units < 10 {
            pairs[(tens * 10 + units) as usize] = [b'0' + tens, b'0' + units];
            units += 1;
        }
        tens += 1;
    }
    pairs
};

/// Return the two decimal digits of `value` (below 100) as text.
#[inline]
pub fn two(value: u32) -> [u8; 2] {
    PAIRS[value as usize]
}

/// Write a number without leading zeros at `at`, and return the position after it.
#[inline]
pub fn put_number<const N: usize>(room: &mut [u8; N], at: usize, value: u64) -> usize {
    if value < EIGHT {
        put_trimmed(room, at, value as u32)
    } else if value < EIGHT * EIGHT {
        let at = put_trimmed(room, at, (value / EIGHT) as u32);
        put_eight(room, at, (value % EIGHT) as u32)
    } else {
        let at = put_trimmed(room, at, (value / EIGHT / EIGHT) as u32);
        let at = put_eight(room, at, (value / EIGHT % EIGHT) as u32);
        put_eight(room, at, (value % EIGHT) as u32)
    }
}

#[inline]
fn put_eight<const N: usize>(room: &mut [u8; N], at: usize, value: u32) -> usize {
    room[at..at + 8].copy_from_slice(&eight(value));
    at + 8
}

#[inline]
fn put_trimmed<const N: usize>(room: &mut [u8; N], at: usize, value: u32) -> usize {
    let digits = u64::from_le_bytes(eight(value));
    // The first digit is the lowest byte. After '0' is subtracted, leading zeros are trailing zero
    // bits.
    let zeros = ((digits ^ 0x3030_3030_3030_3030).trailing_zeros() / 8).min(7);
    room[at..at + 8].copy_from_slice(&(digits >> (8 * zeros)).to_le_bytes());
    at + 8 - zeros as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_pairs_and_the_limits_of_lanes() {
        for value in 0..100 {
            assert_eq!(two(value).as_slice(), format!("{value:02}").as_bytes());
        }
        for value in [0, 9, 99, 9_999, 10_000, 99_990_000, 99_999_999] {
            assert_eq!(eight(value).as_slice(), format!("{value:08}").as_bytes());
        }
    }

    proptest! {
        #[test]
        fn the_last_digits_of_any_length(value in 0u64..10_000_000_000_000_000, length in 1usize..=16) {
            let mut out = [0; 16];
            put_digits(&mut out, value, length);
            let text = format!("{value:016}");
            prop_assert_eq!(&out[..length], &text.as_bytes()[16 - length..]);
        }

        #[test]
        fn any_number(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let mut out = [0; 24];
            let length = put_number(&mut out, 0, value);
            prop_assert_eq!(out[..length].to_vec(), value.to_string().into_bytes());
        }

        #[test]
        fn any_eight_digits(value in 0u32..100_000_000) {
            prop_assert_eq!(eight(value).to_vec(), format!("{value:08}").into_bytes());
        }
    }
}
