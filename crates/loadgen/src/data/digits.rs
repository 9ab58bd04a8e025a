//! Decimal digits at speed: several at a time, in one machine word.

/// The eight decimal digits of `value` (below 100,000,000) as text, leading zeros included.
///
/// Halves, then pairs, then digits are split in parallel lanes of one word. The multiplications
/// stand for divisions by 100 and 10 and are exact in the range of their lanes.
#[inline]
pub fn eight(value: u32) -> [u8; 8] {
    debug_assert!(value < 100_000_000);
    let halves = u64::from(value / 10_000) | u64::from(value % 10_000) << 32;
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | (halves - 100 * hundreds) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    let digits = tens | (pairs - 10 * tens) << 8;
    (digits | 0x3030_3030_3030_3030).to_le_bytes()
}

/// Every number below 100 as two digits.
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

/// The two decimal digits of `value` (below 100) as text.
#[inline]
pub fn two(value: u32) -> [u8; 2] {
    PAIRS[value as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_pairs() {
        for value in 0..100 {
            assert_eq!(two(value).as_slice(), format!("{value:02}").as_bytes());
        }
    }

    #[test]
    fn lane_limits() {
        for value in [0, 9, 99, 9_999, 10_000, 99_990_000, 99_999_999] {
            assert_eq!(eight(value).as_slice(), format!("{value:08}").as_bytes());
        }
    }

    proptest! {
        #[test]
        fn any_eight_digits(value in 0u32..100_000_000) {
            prop_assert_eq!(eight(value).to_vec(), format!("{value:08}").into_bytes());
        }
    }
}
