//! One thread and its connections: the event loop.
//!
//! For each event, the thread reads once, follows the answer, records its latency, and immediately
//! writes the script's next request. It sleeps only if no connection has anything to read. Each
//! request needs two readings of the clock, two or three system calls (one wait serves all ready
//! connections), and no allocation.

mod requests;

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::num::NonZeroU64;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use protocol::{ClientError, Session};
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};

use super::arrivals::Arrivals;
use super::budget::ThreadBudget;
use super::client::{Client, State, Transaction};
use super::drive_result::{Pace, PerClient, Punctuality};
use super::interval::Counts;
use super::poller::{Events, Poller, Waker};
use super::record::Records;
use super::settings::DriveSettings;
use super::shared::Shared;
use super::slices::{Slice, Turns};
use super::slowdowns::Slowdowns;
use protocol::script::{Names, Script};

/// Large enough for most answers, small enough for the CPU's level 2 cache.
const RECEIVE_BYTES: usize = 64 << 10;

/// The number of clients that begin before the thread looks at answers that have arrived meanwhile.
const STARTED_AT_ONCE: usize = 32;

/// A message from a thread to the coordinator.
pub enum Message {
    /// The counts since the last hand-over, for this tick.
    Counts(u32, Box<Counts>),
    /// The thread has finished.
    Finished(Box<Finished>),
    /// A maintenance statement failed.
    MaintenanceFailed(ClientError),
}

/// The results of a thread.
pub struct Finished {
    /// The group of the thread's clients: 0, or the number of a background group.
    pub group: usize,
    /// One for each side; a single one without slices.
    pub records: Vec<Records>,
    /// Empty without slices.
    pub slices: Vec<Slice>,
    /// The side whose turn it was at the end; None without slices.
    pub side: Option<u32>,
    /// The counts since the last tick.
    pub counts: Box<Counts>,
    pub per_client: PerClient,
    pub pace: Pace,
    /// The arrivals of the measured part.
    pub punctuality: Punctuality,
    /// The end time of its last measured transaction; 0 if there is none.
    pub last_end_ns: u64,
    /// Requests without an answer at the end.
    pub unanswered: u64,
    /// The age of the oldest transaction under way at the end; 0 if there is none.
    pub unanswered_ns: u64,
    /// The number of clients whose scripts have no further requests.
    pub used_up: usize,
    pub outcome: Result<(), ClientError>,
}

/// A thread's connections and the state for driving them.
pub struct Worker<'a, C: Session, S> {
    group: usize,
    shared: &'a Shared,
    retry: &'a [u16],
    clients: Vec<Client<C, S>>,
    poller: Poller,
    spins: bool,
    /// None in a closed loop.
    arrivals: Option<Arrivals>,
    budget: ThreadBudget<'a>,
    /// None without slices.
    turns: Option<Turns>,
    slowdowns: Slowdowns,
    /// Clients that wait for arrivals, the longest-waiting first; in slices, for their first
    /// transaction.
    idle: VecDeque<usize>,
    /// The number of clients with a transaction under way; in slices, this includes those in
    /// `idle`.
    under_way: usize,
    /// The number of clients whose scripts have no further requests.
    used_up: usize,
    received: Box<[u8]>,
    packet: Vec<u8>,
    records: Vec<Records>,
    counts: Box<Counts>,
    tick: u32,
    last_end_ns: u64,
    sender: Sender<Message>,
}

/// The inputs that all threads share.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub drive: &'a DriveSettings,
    pub names: &'a Names,
    pub shared: &'a Shared,
    /// The group of the clients: 0, or the number of a background group.
    pub group: usize,
}

impl<'a, C: Session, S: Script> Worker<'a, C, S> {
    pub fn new(
        context: Context<'a>,
        clients: Vec<Client<C, S>>,
        arrivals: Option<Arrivals>,
        waker: &Waker,
        sender: Sender<Message>,
    ) -> io::Result<Self> {
        let Context { drive, names, shared, group } = context;
        let poller = Poller::new(waker)?;
        for (index, client) in clients.iter().enumerate() {
            poller.add(&client.session, index as u64)?;
        }
        Ok(Self {
            group,
            shared,
            retry: &drive.retry,
            clients,
            poller,
            spins: drive.spins(),
            arrivals,
            budget: ThreadBudget::new(shared.budget.as_ref()),
            turns: drive.slices.map(|slices| Turns::new(slices, drive.seed)),
            slowdowns: Slowdowns::new(&drive.slowdowns),
            idle: VecDeque::new(),
            under_way: 0,
            used_up: 0,
            received: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            packet: Vec::new(),
            records: vec![Records::new(names, drive); drive.sides() as usize],
            counts: Box::default(),
            tick: 0,
            last_end_ns: 0,
            sender,
        })
    }

    /// Drive the clients until no transaction is under way or will begin, and return the clients.
    /// With `cpu`, the thread is pinned to it.
    pub fn run(mut self, cpu: Option<usize>) -> Vec<Client<C, S>> {
        let outcome = set_up(cpu).and_then(|()| self.drive());
        let waits = |client: &&Client<C, S>| !client.rests();
        let unanswered = self.clients.iter().filter(waits).count() as u64;
        let now_ns = self.shared.clock.now_ns();
        let begun = |client: &Client<C, S>| client.transaction.begun_ns;
        let oldest_ns = self.clients.iter().filter(waits).filter_map(begun).min();
        let counts = self.take_counts();
        drop(self.budget); // returns unused transactions before the number left is read
        let finished = Finished {
            group: self.group,
            records: self.records,
            side: self.turns.as_ref().map(Turns::side),
            slices: self.turns.map(Turns::into_slices).unwrap_or_default(),
            counts,
            pace: Pace::of(self.clients.iter().map(|client| &client.span)),
            per_client: PerClient::of(self.clients.iter().map(|client| client.transactions)),
            punctuality: self.arrivals.map(|all| all.measured).unwrap_or_default(),
            last_end_ns: self.last_end_ns,
            unanswered,
            unanswered_ns: oldest_ns.map_or(0, |begun_ns| now_ns.saturating_sub(begun_ns)),
            used_up: self.used_up,
            outcome,
        };
        // The coordinator receives until every thread has ended.
        let _ = self.sender.send(Message::Finished(Box::new(finished)));
        self.clients
    }

    fn drive(&mut self) -> Result<(), ClientError> {
        let mut events = Events::new();
        self.start(&mut events)?;
        while !self.is_over() && !self.shared.is_cancelled() {
            self.hand_over_on_tick();
            let timeout = self.begin_due_transactions()?;
            self.turn(&mut events, timeout)?;
        }
        Ok(())
    }

    /// Begin the first transactions.
    fn start(&mut self, events: &mut Events) -> Result<(), ClientError> {
        let left_ns = self.shared.start_ns.saturating_sub(self.shared.clock.now_ns());
        thread::sleep(Duration::from_nanos(left_ns));
        if self.arrivals.is_some() {
            self.idle.extend(0..self.clients.len());
            return Ok(());
        }
        if self.turns.is_some() {
            return Ok(()); // the first slice begins the first transactions
        }
        self.under_way = self.clients.len();
        for index in 0..self.clients.len() {
            self.next_transaction(index, self.shared.clock.now_ns())?;
            if index % STARTED_AT_ONCE == STARTED_AT_ONCE - 1 {
                self.turn(events, Some(Duration::ZERO))?; // the first answers must not wait for the last clients to begin
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let may_arrive = self.arrivals.as_ref().is_some_and(|all| !all.is_over());
        let may_begin = self.turns.as_ref().is_some_and(|turns| !turns.is_over());
        self.under_way == 0 && !may_arrive && !may_begin
    }

    fn hand_over_on_tick(&mut self) {
        let tick = self.shared.tick();
        if tick != self.tick {
            self.tick = tick;
            let counts = self.take_counts();
            let _ = self.sender.send(Message::Counts(tick, counts));
        }
    }

    fn take_counts(&mut self) -> Box<Counts> {
        if let Some(arrivals) = &mut self.arrivals {
            let recent = mem::take(&mut arrivals.recent);
            self.counts.totals.late = recent.late;
            self.counts.totals.skipped = recent.skipped;
        }
        self.counts.under_way = self.under_way as u64;
        let counts = mem::take(&mut self.counts);
        if self.group == 0 {
            return counts;
        }
        // The counts of background groups are not added to those of the drive.
        Box::new(Counts { heard: counts.heard, under_way: counts.under_way, ..Counts::default() })
    }

    /// Wait, and serve every connection with an event.
    fn turn(&mut self, events: &mut Events, timeout: Option<Duration>) -> Result<(), ClientError> {
        let count = self.poller.wait(events, timeout).map_err(cannot_wait)?;
        for event in 0..count {
            if let Some((token, has_hung_up)) = events.get(event) {
                let index = usize::try_from(token).expect("tokens are indexes");
                self.serve(index, has_hung_up).map_err(|error| self.of_side(index, error))?;
            }
        }
        Ok(())
    }

    /// Begin arrived transactions on idle clients, or the next slice; return the time to wait for
    /// events.
    fn begin_due_transactions(&mut self) -> Result<Option<Duration>, ClientError> {
        if self.turns.is_some() && !self.go_on_with_slices()? {
            return Ok(Some(Duration::ZERO));
        }
        let mut left_ns = None;
        if self.arrivals.is_some() && (!self.idle.is_empty() || self.under_way == 0) {
            let Some(now_ns) = self.begin_arrived()? else {
                return Ok(Some(Duration::ZERO));
            };
            left_ns = self
                .arrivals
                .as_ref()
                .filter(|_| !self.idle.is_empty())
                .map(|arrivals| arrivals.next_ns(self.shared).saturating_sub(now_ns));
        }
        let spins = self.spins || self.is_over();
        Ok(if spins { Some(Duration::ZERO) } else { left_ns.map(Duration::from_nanos) })
    }

    /// Give arrivals to idle clients and return the current time. Return None if arrivals may be
    /// left, but answers should be looked at first.
    fn begin_arrived(&mut self) -> Result<Option<u64>, ClientError> {
        for _ in 0..STARTED_AT_ONCE {
            let now_ns = self.shared.clock.now_ns();
            let Some(arrivals) = &mut self.arrivals else {
                return Ok(Some(now_ns));
            };
            let due = arrivals.next_due(now_ns, self.shared, &mut self.budget);
            if self.used_up == self.clients.len() {
                arrivals.give_up();
                return Ok(Some(now_ns));
            }
            let (Some(_), Some(index)) = (due, self.idle.front().copied()) else {
                return Ok(Some(now_ns));
            };
            self.idle.pop_front();
            self.under_way += 1;
            self.next_transaction(index, now_ns)?;
        }
        Ok(None)
    }

    /// Begin a client's next transaction, if there is one. The client counts as under way until
    /// then.
    #[inline]
    fn next_transaction(&mut self, index: usize, now_ns: u64) -> Result<(), ClientError> {
        if let Some(turns) = &self.turns
            && !turns.admits(now_ns)
        {
            self.stop_client(index, State::Idle);
            return Ok(());
        }
        let due = match &mut self.arrivals {
            Some(arrivals) => arrivals
                .next_due(now_ns, self.shared, &mut self.budget)
                .map(|arrival| (arrival.measured, arrival.intended_ns)),
            None => self.begins_measured(now_ns).map(|measured| (measured, now_ns)),
        };
        let Some((measured, intended_ns)) = due else {
            self.cut_slice();
            self.stop_client(index, State::Idle);
            return Ok(());
        };
        self.clients[index].transaction =
            Transaction { measured, intended_ns, ..Transaction::default() };
        if self.ask(index, intended_ns)? {
            if let Some(arrivals) = &mut self.arrivals {
                arrivals.begun(now_ns);
            }
        } else {
            // In an open loop, another client takes the arrival.
            if self.arrivals.is_none() && measured {
                self.budget.put_back();
            }
            self.cut_slice();
            self.stop_client(index, State::Ended);
        }
        Ok(())
    }

    /// Return whether a transaction of a closed loop that begins now is measured; None if it may
    /// not begin.
    #[inline]
    fn begins_measured(&mut self, now_ns: u64) -> Option<bool> {
        if now_ns >= self.shared.measure_until_ns() {
            return None;
        }
        let measured = now_ns >= self.shared.measure_from_ns();
        (!measured || self.budget.take()).then_some(measured)
    }

    /// Record that a client's transaction has ended, successfully or not.
    #[inline]
    fn note_end(&mut self, index: usize, now_ns: u64) {
        let Transaction { measured, begun_ns, .. } = self.clients[index].transaction;
        if measured {
            self.clients[index].span.add(begun_ns.unwrap_or(now_ns), now_ns);
            self.last_end_ns = now_ns;
        }
        if self.group == 0 {
            self.shared.has_ended_one(now_ns);
            if measured && self.turns.is_none() {
                self.shared.is_sufficient_from(now_ns);
            }
        }
    }

    fn stop_client(&mut self, index: usize, state: State) {
        self.under_way -= 1;
        self.clients[index].state = state;
        match state {
            State::Ended => self.used_up += 1,
            _ if self.arrivals.is_some() => self.idle.push_back(index),
            _ => {}
        }
    }

    /// If the current slice is over, begin the next one and the first transactions of its clients.
    /// Return false if some have not begun, because answers should be looked at first.
    fn go_on_with_slices(&mut self) -> Result<bool, ClientError> {
        if self.under_way == 0 {
            self.end_slice();
            self.begin_slice();
        }
        for _ in 0..STARTED_AT_ONCE {
            let Some(index) = self.idle.pop_front() else {
                return Ok(true);
            };
            let now_ns = self.shared.clock.now_ns();
            let begun = self.next_transaction(index, now_ns);
            begun.map_err(|error| self.of_side(index, error))?;
            let client = &self.clients[index];
            if let (State::Asking, Some(turns)) = (client.state, &mut self.turns) {
                turns.started(client.sent_ns);
            }
        }
        Ok(self.idle.is_empty())
    }

    /// End the slice after its last answer, and pause if a side is slowed down.
    fn end_slice(&mut self) {
        let Some(turns) = &mut self.turns else {
            return;
        };
        let last_side = turns.side();
        let clients = self.clients.iter().filter(|client| client.side == last_side);
        if let Some(answered_ns) = clients.filter_map(|client| client.answered_ns).max() {
            let mut until_ns = answered_ns;
            if !turns.is_over() {
                let (shared, from_ns) = (self.shared, turns.began_ns());
                let is_over = || shared.is_cancelled();
                let side = last_side as usize;
                until_ns = self.slowdowns.pause(side, shared.clock, from_ns, answered_ns, is_over);
            }
            turns.end(until_ns, until_ns - answered_ns);
            if turns.has_whole_group() {
                self.shared.is_sufficient_from(until_ns);
            }
        }
    }

    /// Begin the next slice, if there is one. Its clients wait in `idle` for their first
    /// transactions and already count as under way: the slice is over when no client is under way.
    fn begin_slice(&mut self) {
        let Some(turns) = &mut self.turns else {
            return;
        };
        if turns.is_over() {
            return;
        }
        let is_measured = self.shared.clock.now_ns() >= self.shared.measure_from_ns();
        let side = turns.begin(is_measured);
        for (index, client) in self.clients.iter_mut().enumerate() {
            if client.side == side {
                client.answered_ns = None; // the time before its turn is not a gap
                self.idle.push_back(index);
            }
        }
        self.under_way = self.idle.len();
    }

    /// Abort the slice: no transaction begins any more, in any slice.
    #[cold]
    fn cut_slice(&mut self) {
        if let Some(turns) = &mut self.turns {
            turns.cut();
        }
    }

    /// Add the side of a client to its error, in slices.
    #[cold]
    fn of_side(&self, index: usize, error: ClientError) -> ClientError {
        match &self.turns {
            Some(_) => error.of_side(self.clients[index].side),
            None => error,
        }
    }
}

fn cannot_wait(source: io::Error) -> ClientError {
    ClientError::System { context: "cannot wait for the connections".to_owned(), source }
}

/// Pin the calling thread to a CPU.
pub fn pin(cpu: usize) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

/// Make the timer of the calling thread precise, and pin the thread if `cpu` is given.
fn set_up(cpu: Option<usize>) -> Result<(), ClientError> {
    let failed = |context: String| {
        |errno: rustix::io::Errno| ClientError::System { context, source: errno.into() }
    };
    set_current_timer_slack(NonZeroU64::new(1))
        .map_err(failed("cannot make the timer precise".to_owned()))?;
    let Some(cpu) = cpu else {
        return Ok(());
    };
    pin(cpu).map_err(failed(format!("cannot run a client thread on CPU {cpu}")))
}

/// Return the first of these CPUs to which no thread can be pinned.
pub fn first_unusable_cpu(cpus: &[usize]) -> Option<usize> {
    // Tried in a separate thread: a container may deny CPUs that the host lists.
    let find = || cpus.iter().copied().find(|&cpu| pin(cpu).is_err());
    thread::scope(|scope| scope.spawn(find).join().ok().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_host_has_all_cpus() {
        let all: Vec<usize> = (0..CpuSet::MAX_CPU).collect();
        let missing = first_unusable_cpu(&all).unwrap();
        assert_eq!(first_unusable_cpu(&all[..missing]), None);
    }
}
