//! A fixed number of transactions that all threads share exactly.

use std::sync::atomic::{AtomicU64, Ordering};

/// The transactions that no thread has taken yet.
#[derive(Debug)]
pub struct Budget {
    left: AtomicU64,
    threads: u64,
}

/// The largest grant: small enough for threads to end together, large enough for few requests.
const LARGEST_GRANT: u64 = 64;

impl Budget {
    pub fn new(transactions: u64, threads: u32) -> Self {
        Self { left: AtomicU64::new(transactions), threads: threads.into() }
    }

    /// Return the number of transactions that no thread has taken.
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Take some of the remaining transactions; grants become smaller towards the end. Return 0 if
    /// none is left.
    fn grant(&self) -> u64 {
        let share = |left: u64| (left / (4 * self.threads)).clamp(1, LARGEST_GRANT).min(left);
        let granted = |left| left - share(left);
        // Relaxed: the number does not guard other memory.
        match self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(granted(left)))
        {
            Ok(left) | Err(left) => share(left),
        }
    }
}

/// The transactions that one thread may still begin.
#[derive(Debug)]
pub struct ThreadBudget<'a> {
    budget: Option<&'a Budget>,
    left: u64,
}

impl<'a> ThreadBudget<'a> {
    /// Without a budget, the number of transactions is not limited.
    pub fn new(budget: Option<&'a Budget>) -> Self {
        Self { budget, left: 0 }
    }

    /// Take one transaction; return false if none is left.
    #[inline]
    pub fn take(&mut self) -> bool {
        let Some(budget) = self.budget else {
            return true;
        };
        if self.left == 0 {
            self.left = budget.grant();
        }
        let may = self.left > 0;
        self.left -= u64::from(may);
        may
    }

    /// Return one transaction that was taken but not begun, so that any thread can take it.
    #[inline]
    pub fn put_back(&mut self) {
        if let Some(budget) = self.budget {
            budget.left.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for ThreadBudget<'_> {
    /// Return the rest to the other threads.
    fn drop(&mut self) {
        if let Some(budget) = self.budget {
            budget.left.fetch_add(self.left, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn threads_take_exactly_the_budget(transactions in 0u64..5_000, threads in 1u32..6) {
            let budget = Budget::new(transactions, threads);
            let taken = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        let mut own = ThreadBudget::new(Some(&budget));
                        while own.take() {
                            taken.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
            });
            prop_assert_eq!(taken.into_inner(), transactions);
        }
    }

    #[test]
    fn what_is_put_back_can_be_taken_by_others() {
        let budget = Budget::new(1, 2);
        let mut first = ThreadBudget::new(Some(&budget));
        assert!(first.take());
        first.put_back();
        assert!(ThreadBudget::new(Some(&budget)).take());
    }

    #[test]
    fn without_a_budget_everything_may_begin() {
        let mut own = ThreadBudget::new(None);
        assert!((0..1000).all(|_| own.take()));
    }
}
