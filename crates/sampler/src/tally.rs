//! The states of a thread's samples, with their counts.

use libc::c_long;

use super::names::Name;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The kernel's letter: R runs or waits for a CPU, S sleeps, D waits uninterruptibly.
    pub letter: char,
    /// The number of the system call. None if the thread runs; -1 if it is blocked outside of
    /// system calls.
    pub syscall: Option<c_long>,
    pub target: Option<Name>,
    /// The kernel function in which it is blocked.
    pub wchan: Option<Name>,
    /// The kernel functions on its stack, down to `wchan`, joined by semicolons.
    pub stack: Option<Name>,
}

impl State {
    pub const RUNNING: Self =
        Self { letter: 'R', syscall: None, target: None, wchan: None, stack: None };
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StateCount {
    pub state: State,
    pub times: u64,
    /// The time in this state: each sample counts for the time since the thread's previous sample.
    pub seconds: f64,
    /// The number of these samples during which another thread was flushing a log.
    pub during_sync: u64,
}

#[derive(Debug, Default)]
pub struct Tally(Vec<StateCount>);

impl Tally {
    pub fn add(&mut self, state: State, seconds: f64, during_sync: bool) {
        let during_sync = u64::from(during_sync);
        match self.0.iter_mut().find(|counted| counted.state == state) {
            Some(counted) => {
                counted.times += 1;
                counted.seconds += seconds;
                counted.during_sync += during_sync;
            }
            None => self.0.push(StateCount { state, times: 1, seconds, during_sync }),
        }
    }

    pub fn ticks(&self) -> u64 {
        self.0.iter().map(|counted| counted.times).sum()
    }

    /// Return the states, the most frequent first.
    pub fn counts(&self) -> Vec<StateCount> {
        let mut counts = self.0.clone();
        counts.sort_by_key(|counted| u64::MAX - counted.times);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_lost(seen in prop::collection::vec((0..5i32, any::<bool>()), 0..200)) {
            let mut tally = Tally::default();
            for &(number, during_sync) in &seen {
                let state = State { letter: 'S', syscall: Some(number.into()), ..State::RUNNING };
                tally.add(state, 0.5, during_sync);
            }
            prop_assert_eq!(tally.ticks(), seen.len() as u64);
            let counts = tally.counts();
            prop_assert!(counts.is_sorted_by_key(|counted| u64::MAX - counted.times));
            for counted in counts {
                let same = seen.iter().filter(|(number, _)| counted.state.syscall == Some((*number).into()));
                let times = same.clone().count();
                prop_assert_eq!(counted.times, times as u64);
                let seconds = 0.5 * times as f64;
                prop_assert!((counted.seconds - seconds).abs() < 1e-9);
                prop_assert_eq!(counted.during_sync, same.filter(|(_, during)| *during).count() as u64);
            }
        }
    }
}
