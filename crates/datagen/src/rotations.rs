//! LinkBench's permutation of a range: each residue class is rotated by a random distance.
//!
//! Neighbours in a class stay neighbours, so this permutation is less random than
//! [`crate::bijection`]. It is here because LinkBench uses it to access ids, and because its
//! inverse is as cheap.

use std::sync::Arc;

use crate::random::Random;

/// The number of residue classes; a range with fewer numbers has one class for each.
const CLASSES: u64 = 1024;

/// A permutation of the numbers below `span`.
#[derive(Clone, Debug)]
pub struct Rotations {
    span: u64,
    distances: Arc<[u64]>,
}

impl Rotations {
    pub fn new(span: u64, seed: u64) -> Self {
        let classes = CLASSES.min(span).max(1);
        let mut random = Random::of(seed, "rotations", 0);
        let distance = |_| random.below((span / classes).max(1));
        Self { span, distances: (0..classes).map(distance).collect() }
    }

    #[inline]
    pub fn at(&self, position: u64) -> u64 {
        self.rotated(position, |place, distance, length| (place + distance) % length)
    }

    #[inline]
    pub fn position_of(&self, number: u64) -> u64 {
        self.rotated(number, |place, distance, length| (place + length - distance) % length)
    }

    #[inline]
    fn rotated(&self, number: u64, rotate: impl FnOnce(u64, u64, u64) -> u64) -> u64 {
        debug_assert!(number < self.span);
        let classes = self.distances.len() as u64;
        let (place, class) = (number / classes, number % classes);
        let length = self.span / classes + u64::from(class < self.span % classes);
        #[allow(clippy::cast_possible_truncation)] // the number is below the number of classes
        let distance = self.distances[class as usize];
        rotate(place, distance, length) * classes + class
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_positions_lie_in_different_classes_anywhere() {
        let order = Rotations::new(1_000_000, 7);
        let first: Vec<u64> = (0..1024).map(|position| order.at(position)).collect();
        let mut classes: Vec<u64> = first.iter().map(|number| number % 1024).collect();
        classes.sort_unstable();
        assert_eq!(classes, (0..1024).collect::<Vec<_>>());
        let low = first.iter().filter(|&&number| number < 500_000).count();
        assert!((400..624).contains(&low), "{low} lie in the lower half");
    }

    #[test]
    fn a_seed_chooses_the_order() {
        let of = |seed| Rotations::new(1 << 20, seed).at(5);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    proptest! {
        #[test]
        fn each_number_comes_once_and_is_found_again(span in 1u64..5000, seed: u64) {
            let order = Rotations::new(span, seed);
            let mut numbers: Vec<u64> = (0..span).map(|position| order.at(position)).collect();
            for (position, &number) in (0..).zip(&numbers) {
                prop_assert_eq!(order.position_of(number), position);
            }
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..span).collect::<Vec<_>>());
        }
    }
}
