//! The number of links of a node, by LinkBench's distributions: fixed for each id, not drawn.
//!
//! Each id has a rank, and the rank determines the number of links. A distribution is given by
//! knots; between two knots, the share of nodes with more than n links is a power of n.

use crate::rotations::Rotations;

/// The seed of the rotations that map ids to their ranks.
pub const RANK_SEED: u64 = 20_343_988_438_726_021;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Population {
    /// The distribution of the graph of 2011.
    Of2011,
    /// The distribution of the newer fork: each node has at least one link.
    Newer,
}

/// `shares`: numbers of links, each with the share of nodes that have more. `most`: the highest
/// number of links.
struct Knots {
    shares: &'static [(u64, f64)],
    most: u64,
}

const OF_2011: Knots = Knots { shares: &SHARES_OF_2011, most: 961_963 };
const NEWER: Knots = Knots { shares: &SHARES_OF_NEWER, most: 4_181_357 };

#[rustfmt::skip]
const SHARES_OF_2011: [(u64, f64); 49] = [
    (0, 5.467e-1), (1, 2.254e-1), (2, 1.304e-1), (3, 8.007e-2), (4, 5.549e-2), (5, 4.172e-2),
    (6, 3.277e-2), (7, 2.680e-2), (8, 2.239e-2), (9, 1.922e-2), (10, 1.672e-2), (12, 1.300e-2),
    (16, 8.920e-3), (21, 6.380e-3), (29, 4.579e-3), (39, 3.466e-3), (53, 2.655e-3), (72, 2.096e-3),
    (98, 1.711e-3), (132, 1.436e-3), (178, 1.222e-3), (241, 1.046e-3), (325, 9.031e-4),
    (439, 7.750e-4), (593, 6.636e-4), (801, 5.627e-4), (1081, 4.704e-4), (1460, 3.862e-4),
    (1971, 3.098e-4), (2661, 2.397e-4), (3593, 1.798e-4), (4851, 1.301e-4), (6549, 9.046e-5),
    (8841, 5.955e-5), (11_935, 3.711e-5), (16_112, 2.183e-5), (21_751, 1.224e-5),
    (29_363, 6.424e-6), (39_591, 3.253e-6), (53_519, 1.623e-6), (72_171, 7.705e-7),
    (97_501, 3.951e-7), (131_124, 2.272e-7), (177_086, 1.383e-7), (236_508, 5.930e-8),
    (315_801, 1.980e-8), (423_083, 1.320e-8), (485_372, 6.600e-9), (906_857, 3.300e-9),
];

#[rustfmt::skip]
const SHARES_OF_NEWER: [(u64, f64); 54] = [
    (1, 2.025e-1), (2, 9.487e-2), (3, 5.564e-2), (4, 4.317e-2), (5, 3.596e-2), (6, 3.069e-2),
    (7, 2.730e-2), (8, 2.438e-2), (9, 2.210e-2), (10, 1.901e-2), (12, 1.626e-2), (16, 1.287e-2),
    (21, 1.025e-2), (29, 7.828e-3), (39, 6.087e-3), (53, 4.629e-3), (72, 3.400e-3), (98, 2.593e-3),
    (132, 1.990e-3), (178, 1.548e-3), (241, 1.201e-3), (325, 9.321e-4), (439, 7.226e-4),
    (593, 5.596e-4), (801, 4.277e-4), (1081, 3.112e-4), (1460, 2.259e-4), (1971, 1.609e-4),
    (2661, 1.129e-4), (3593, 7.792e-5), (4851, 5.330e-5), (6549, 3.597e-5), (8841, 2.407e-5),
    (11_935, 1.562e-5), (16_112, 9.913e-6), (21_748, 6.590e-6), (29_360, 4.325e-6),
    (39_635, 2.799e-6), (53_517, 1.834e-6), (72_225, 1.104e-6), (97_479, 6.679e-7),
    (131_346, 4.132e-7), (176_778, 2.742e-7), (238_936, 1.847e-7), (323_380, 1.322e-7),
    (431_939, 1.031e-7), (562_700, 7.680e-8), (790_048, 6.416e-8), (1_053_639, 4.569e-8),
    (1_445_638, 2.819e-8), (1_812_731, 9.722e-9), (2_466_371, 8.750e-9), (3_527_636, 2.917e-9),
    (3_879_477, 9.720e-10),
];

impl Knots {
    /// Return the smallest number of links that at most this share of nodes exceeds.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the number is between two knots
    fn degree(&self, share: f64) -> u64 {
        let after = self.shares.partition_point(|&(_, exceeded)| exceeded > share);
        let Some(&(high, least)) = self.shares.get(after) else {
            return self.most;
        };
        let before = after.checked_sub(1).map(|before| self.shares[before]);
        let Some((low, most)) = before.filter(|(low, _)| low + 1 < high) else {
            return high;
        };
        let place = (share / most).ln() / (least / most).ln();
        let degree = low as f64 * (high as f64 / low as f64).powf(place);
        (degree.ceil() as u64).clamp(low + 1, high)
    }
}

/// The numbers of links of all nodes, divided among the types of links.
#[derive(Clone, Debug)]
pub struct LinkDegrees {
    nodes: u64,
    order: Rotations,
    population: Population,
    types: u64,
    at_most: u64,
    counts_twice: bool,
}

impl LinkDegrees {
    /// Limit links to `at_most`. With `counts_twice`, divide as LinkBench does, which counts up to
    /// `types - 1` links twice.
    pub fn new(
        nodes: u64,
        population: Population,
        types: u64,
        at_most: u64,
        counts_twice: bool,
    ) -> Self {
        let order = Rotations::new(nodes, RANK_SEED);
        Self { nodes, order, population, types, at_most, counts_twice }
    }

    /// Return the number of parents: nodes times types.
    pub fn parents(&self) -> u64 {
        self.nodes * self.types
    }

    /// Return the number of links of a node, over all types.
    #[inline]
    pub fn of_node(&self, node: u64) -> u64 {
        let share = self.order.position_of(node) as f64 / self.nodes as f64;
        let knots = match self.population {
            Population::Of2011 => &OF_2011,
            Population::Newer => &NEWER,
        };
        knots.degree(share).min(self.at_most)
    }

    /// Return the number of links of parent `node * types + type`; 0 if the node does not exist.
    #[inline]
    pub fn of_parent(&self, parent: u64) -> u64 {
        let (node, kind) = (parent / self.types, parent % self.types);
        if node >= self.nodes {
            return 0;
        }
        let all = self.of_node(node);
        let each = all / self.types;
        let left = all - if self.counts_twice { each } else { each * self.types };
        each + u64::from(kind < left)
    }
}

#[cfg(test)]
mod tests;
