//! The state that the threads of a drive share: a few numbers, and nothing that locks.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::budget::Budget;
use super::clock::Clock;
use super::maintenance::Span;

/// A time that never comes, as far as is known so far.
pub const NEVER: u64 = u64::MAX;

/// Written by the coordinator, read by all threads on every turn. Relaxed everywhere: each number
/// stands for itself, and a thread may see it a little later.
#[derive(Debug)]
pub struct Shared {
    pub clock: Clock,
    /// The time of the first requests.
    pub start_ns: u64,
    measure_from_ns: AtomicU64,
    measure_until_ns: AtomicU64,
    /// Rises whenever the threads are to hand their counts over.
    tick: AtomicU32,
    cancelled: AtomicBool,
    /// The time of statements of maintenance.
    pub maintenance: Span,
    /// None where time alone ends the drive.
    pub budget: Option<Budget>,
}

impl Shared {
    pub fn new(clock: Clock, start_ns: u64, budget: Option<Budget>) -> Self {
        Self {
            clock,
            start_ns,
            measure_from_ns: AtomicU64::new(NEVER),
            measure_until_ns: AtomicU64::new(NEVER),
            tick: AtomicU32::new(0),
            cancelled: AtomicBool::new(false),
            maintenance: Span::default(),
            budget,
        }
    }

    /// Fix the measured part.
    pub fn measure(&self, from_ns: u64, until_ns: u64) {
        self.measure_until_ns.store(until_ns, Ordering::Relaxed);
        self.measure_from_ns.store(from_ns, Ordering::Relaxed);
    }

    /// Fix the end of a measured part that has begun.
    pub fn measure_until(&self, until_ns: u64) {
        self.measure_until_ns.store(until_ns, Ordering::Relaxed);
    }

    /// Return the start of the measured part.
    #[inline]
    pub fn measure_from_ns(&self) -> u64 {
        self.measure_from_ns.load(Ordering::Relaxed)
    }

    /// Nothing begins at this time or later.
    #[inline]
    pub fn measure_until_ns(&self) -> u64 {
        self.measure_until_ns.load(Ordering::Relaxed)
    }

    /// Ask for the threads' counts.
    pub fn next_tick(&self) -> u32 {
        self.tick.fetch_add(1, Ordering::Relaxed) + 1
    }

    #[inline]
    pub fn tick(&self) -> u32 {
        self.tick.load(Ordering::Relaxed)
    }

    /// End everything, whatever is under way.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}
