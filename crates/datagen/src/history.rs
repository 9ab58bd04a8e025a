//! The growth of the map: the creation times of its nodes, and the changeset open at a time.
//!
//! Both curves follow the public history of the map that the data set imitates: linear interpolation
//! between a few known points, in integer arithmetic, so that every machine computes the same.

use super::digits::two;

/// Seconds from the epoch of the data set, 2007-01-01 00:00:00 UTC.
pub type Seconds = u32;

const DAY: u32 = 86_400;

/// The last day of the data set, 2016-11-01, in days from the epoch.
const LAST_DAY: u32 = 3_592;

/// The latest possible timestamp.
pub const END: Seconds = LAST_DAY * DAY;

pub const TIMESTAMP_LENGTH: usize = 19;

/// A day, the fraction of ids assigned by then (of 2^32), and the number of changesets opened by
/// then.
type Knot = (u32, u64, u64);

const KNOTS: [Knot; 11] = [
    (0, 0, 10_000),
    (365, 0x07ae_147a, 120_000),
    (731, 0x147a_e147, 700_000),
    (1_096, 0x23d7_0a3d, 3_550_000),
    (1_461, 0x3d70_a3d7, 6_850_000),
    (1_826, 0x5999_9999, 10_250_000),
    (2_192, 0x770a_3d70, 14_500_000),
    (2_557, 0x947a_e147, 19_800_000),
    (2_922, 0xb999_9999, 27_900_000),
    (3_287, 0xdf7c_ed91, 36_300_000),
    (LAST_DAY, 0x1_0000_0000, 43_400_000),
];

/// Return the creation time of the node at `progress` (a fraction of the ids, of 2^32).
pub fn time_of(progress: u64) -> Seconds {
    let ((day, low, _), (next_day, high, _)) = segment(|knot| knot.1 <= progress);
    let seconds =
        u64::from(day * DAY) + (progress - low) * u64::from((next_day - day) * DAY) / (high - low);
    u32::try_from(seconds).map_or(END, |seconds| seconds.min(END))
}

/// Return the changeset open at `time`; it does not decrease with time.
pub fn changeset_at(time: Seconds) -> u64 {
    let ((day, _, low), (next_day, _, high)) = segment(|knot| knot.0 <= time / DAY);
    low + u64::from(time - day * DAY) * (high - low) / u64::from((next_day - day) * DAY)
}

/// Return the last knot for which `before` is true, and the next knot.
fn segment(before: impl Fn(&Knot) -> bool) -> (Knot, Knot) {
    let above = KNOTS[1..KNOTS.len() - 1].iter().take_while(|knot| before(knot)).count();
    (KNOTS[above], KNOTS[above + 1])
}

/// The precomputed text of every day of the data set.
pub struct Calendar {
    days: Vec<[u8; 10]>,
}

impl Calendar {
    pub fn new() -> Self {
        let days = (2007..=2016)
            .flat_map(|year| (1..=12).map(move |month| (year, month)))
            .flat_map(|(year, month)| {
                (1..=days_in_month(year, month)).map(move |day| day_text(year, month, day))
            })
            .collect();
        Self { days }
    }

    /// Return `time` as `YYYY-MM-DD HH:MM:SS`.
    #[inline]
    pub fn timestamp(&self, time: Seconds) -> [u8; TIMESTAMP_LENGTH] {
        let second_of_day = time % DAY;
        let mut text = *b"YYYY-MM-DD HH:MM:SS";
        text[..10].copy_from_slice(&self.days[(time / DAY) as usize]);
        text[11..13].copy_from_slice(&two(second_of_day / 3_600));
        text[14..16].copy_from_slice(&two(second_of_day / 60 % 60));
        text[17..].copy_from_slice(&two(second_of_day % 60));
        text
    }
}

fn day_text(year: u32, month: u32, day: u32) -> [u8; 10] {
    let mut text = *b"YYYY-MM-DD";
    text[..2].copy_from_slice(&two(year / 100));
    text[2..4].copy_from_slice(&two(year % 100));
    text[5..7].copy_from_slice(&two(month));
    text[8..].copy_from_slice(&two(day));
    text
}

fn days_in_month(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) => 29, // correct from 1901 to 2099
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(time: Seconds) -> String {
        String::from_utf8(Calendar::new().timestamp(time).to_vec()).unwrap()
    }

    #[test]
    fn known_instants() {
        assert_eq!(text(0), "2007-01-01 00:00:00");
        assert_eq!(text(365 * DAY + 59 * DAY + 86_399), "2008-02-29 23:59:59");
        assert_eq!(text(178_245_466), "2012-08-25 00:37:46");
        assert_eq!(text(END), "2016-11-01 00:00:00");
    }

    #[test]
    fn the_curves_meet_their_ends() {
        assert_eq!(time_of(0), 0);
        assert_eq!(time_of(1 << 32), END);
        assert_eq!(changeset_at(0), 10_000);
        assert_eq!(changeset_at(END), 43_400_000);
    }

    proptest! {
        #[test]
        fn the_curves_never_fall(a in 0u64..1 << 32, b in 0u64..1 << 32) {
            let (early, late) = (a.min(b), a.max(b));
            prop_assert!(time_of(early) <= time_of(late));
            prop_assert!(changeset_at(time_of(early)) <= changeset_at(time_of(late)));
        }
    }
}
