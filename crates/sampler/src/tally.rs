//! The states of a thread's samples, with their counts.

use libc::c_long;

use super::names::Name;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The kernel's: R is on a CPU or waits for one, S waits, D waits and cannot be interrupted.
    pub letter: char,
    /// None where it runs; -1 where it is blocked outside of system calls.
    pub syscall: Option<c_long>,
    pub target: Option<Name>,
    /// The function of the kernel that it is blocked in.
    pub wchan: Option<Name>,
    /// The functions of the kernel on its stack down to that one, joined by semicolons.
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
    /// For how long: each time stands for the time since the one before.
    pub seconds: f64,
    /// The number of these ticks at which another thread was making a log durable.
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
