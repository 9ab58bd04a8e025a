//! Slowdowns: answers of some sides are held back, so that a comparison has a known difference.
//!
//! A side that is slower by a share takes that much longer from the end of one request to the end of
//! the next. The thread spins meanwhile, as a slower server would keep its CPU busy. Reading the clock
//! takes some ten nanoseconds, so what is too long is subtracted from the next waits.

#![allow(clippy::cast_precision_loss)] // of less than a nanosecond in a month

/// The slowdown of each side, and what it still owes.
#[derive(Debug)]
pub struct Slowdowns {
    shares: Vec<f64>,
    owed_ns: Vec<f64>,
}

impl Slowdowns {
    /// Return the slowdowns by side; None where no side is slower.
    pub fn new(shares: &[f64]) -> Option<Self> {
        let is_any = shares.iter().any(|share| *share > 0.0);
        is_any.then(|| Self { shares: shares.to_vec(), owed_ns: vec![0.0; shares.len()] })
    }

    /// Hold an answer back that came `at_ns`, `took_ns` after the one before, and return the time
    /// then.
    pub fn hold(
        &mut self,
        side: u32,
        took_ns: u64,
        at_ns: u64,
        mut now_ns: impl FnMut() -> u64,
    ) -> u64 {
        let side = side as usize;
        let owed_ns = &mut self.owed_ns[side];
        *owed_ns += self.shares[side] * took_ns as f64;
        let mut held_ns = at_ns;
        while *owed_ns > (held_ns - at_ns) as f64 {
            std::hint::spin_loop();
            held_ns = now_ns();
        }
        *owed_ns -= (held_ns - at_ns) as f64;
        held_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_a_slower_side_there_are_none() {
        assert!(Slowdowns::new(&[]).is_none());
        assert!(Slowdowns::new(&[0.0, 0.0]).is_none());
    }

    proptest! {
        #[test]
        fn what_clocks_add_is_made_up_for(
            share in 0.001_f64..1.0,
            tick_ns in 1_u64..200,
            took_ns in prop::collection::vec(1_000_u64..100_000, 1..200),
        ) {
            let mut slowdowns = Slowdowns::new(&[0.0, share]).unwrap();
            let (mut clock_ns, mut held_ns) = (0, 0);
            for took in &took_ns {
                clock_ns += took;
                let at_ns = clock_ns;
                let end_ns = slowdowns.hold(1, *took, at_ns, || {
                    clock_ns += tick_ns;
                    clock_ns
                });
                held_ns += end_ns - at_ns;
                prop_assert_eq!(slowdowns.hold(0, *took, end_ns, || panic!("no wait")), end_ns);
            }
            let wanted_ns = share * took_ns.iter().sum::<u64>() as f64;
            prop_assert!((held_ns as f64 - wanted_ns).abs() <= 1.0 + tick_ns as f64);
        }
    }
}
