//! The settings of a drive: clients, pacing, length and threads.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use rustix::thread::CpuSet;
use serde::{Deserialize, Serialize};

use super::slices::SliceSettings;
use protocol::script::Names;

/// CPUs below this number can be used for pinning.
pub const CPU_NUMBERS: usize = CpuSet::MAX_CPU;

/// The default of the maximum silence of a server that owes answers. It is longer than a lock wait,
/// which servers end after 50 s by default.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The settings of one drive.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveSettings {
    /// Connections, each with at most one request under way; in slices, those of one side. At least
    /// 1.
    pub clients: u32,
    /// Threads that drive the connections; 0 means the default of [`DriveSettings::thread_count`].
    pub threads: u32,
    pub pacing: Pacing,
    pub warmup: Warmup,
    pub end: End,
    /// Error codes after which a transaction is restarted.
    pub retry: Vec<u16>,
    /// Use busy polling instead of sleeping, if a thread has so few connections that it pays.
    pub busy_poll: bool,
    /// CPUs to which the threads are pinned in turn; empty for no pinning.
    pub cpus: Vec<usize>,
    /// The maximum duration of a drive, including the opening of connections.
    pub limit: Option<Duration>,
    /// A server that owes answers but sends none for this time is given up; at least several
    /// seconds.
    pub idle_timeout: Duration,
    /// The time that clients stay connected after the measured part, for samplers of threads.
    pub linger: Duration,
    /// The file in which clients publish their current statement; None for no file. With a file,
    /// clients begin a moment after they have connected, so that samplers see each server thread
    /// wait for its client.
    pub statement_activity: Option<PathBuf>,
    /// Clients of several servers take turns, on one thread, in a closed loop; None for a single
    /// server.
    pub slices: Option<SliceSettings>,
    /// The time in the measured part after which maintenance statements run; the measured part
    /// becomes longer by their duration. None without maintenance. Needs an end by time, and no
    /// slices.
    pub maintenance_after: Option<Duration>,
    /// For each side of slices, the share by which it is slowed down; empty for none.
    pub slowdowns: Vec<f64>,
    /// Further groups of clients that work at the same time. They have separate records, and need
    /// an end by time.
    pub background_clients: Vec<BackgroundClients>,
    /// The seed of random arrivals and of the order of slices.
    pub seed: u64,
}

/// Clients that work during the measurement of the drive's clients, on their own thread.
#[derive(Clone, Debug, PartialEq)]
pub struct BackgroundClients {
    /// The test that the group repeats, which names the group in results.
    pub test: String,
    pub clients: u32,
    pub pacing: Pacing,
    pub names: Names,
    /// The seed of random arrivals.
    pub seed: u64,
}

/// The pacing of transactions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pacing {
    /// A client begins its next transaction when the previous one has ended.
    Closed,
    /// Transactions arrive at a given rate, whatever the server does.
    Open {
        /// Transactions per second, over all clients. Above 0.
        rate: f64,
        arrivals: Arrivals,
        /// Skip a transaction that cannot begin within this time after its arrival.
        max_lateness: Option<Duration>,
    },
}

/// The distribution of the gaps between arrivals: constant or exponential.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    #[default]
    Poisson,
    Constant,
}

/// The part before the measured part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    Time(Duration),
    /// Until throughput is steady (see [`super::steady`]), or this time is over.
    Steady {
        limit: Duration,
    },
}

/// The end of the measured part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Time(Duration),
    /// This number of transactions over all clients, including failed and skipped ones.
    Operations(u64),
    /// The time or the number of transactions, whichever comes first.
    Either(Duration, u64),
}

/// With more connections per thread, one of them nearly always has something to read.
const SPINNING_CLIENTS: u32 = 4;

impl DriveSettings {
    /// Return the settings of a closed loop without a warm-up, retries, limits or observers.
    #[must_use]
    pub const fn closed_loop(clients: u32, threads: u32, end: End) -> Self {
        Self {
            clients,
            threads,
            pacing: Pacing::Closed,
            warmup: Warmup::Time(Duration::ZERO),
            end,
            retry: Vec::new(),
            busy_poll: false,
            cpus: Vec::new(),
            limit: None,
            idle_timeout: IDLE_TIMEOUT,
            linger: Duration::ZERO,
            statement_activity: None,
            slices: None,
            maintenance_after: None,
            slowdowns: Vec::new(),
            background_clients: Vec::new(),
            seed: 1,
        }
    }

    /// Return the number of threads. The default is one for each CPU that clients may use, but at
    /// most one for each client. A server thread is then mostly woken by a thread on its own CPU,
    /// which costs half as much as waking another CPU: on 2 CPUs, two threads had up to twice the
    /// throughput of one, with two thirds of the CPU time per query. In an open loop the default is
    /// one thread: an arrival at one thread would wait even if another thread has idle clients.
    pub fn thread_count(&self) -> u32 {
        let wanted = if self.slices.is_some() {
            1
        } else if self.threads > 0 {
            self.threads
        } else if self.is_open_loop() {
            1
        } else if self.cpus.is_empty() {
            let cpus = thread::available_parallelism().map_or(1, usize::from);
            u32::try_from(cpus).unwrap_or(u32::MAX)
        } else {
            u32::try_from(self.cpus.len()).unwrap_or(u32::MAX)
        };
        wanted.min(self.clients)
    }

    /// Return the number of servers of the drive.
    pub fn sides(&self) -> u32 {
        self.slices.map_or(1, |slices| slices.sides)
    }

    /// Return the number of connections, over all sides.
    pub fn connections(&self) -> u32 {
        self.clients * self.sides()
    }

    /// Return the settings of a background group, as of a separate drive.
    #[must_use]
    pub fn of_background(&self, group: &BackgroundClients) -> Self {
        Self {
            clients: group.clients,
            threads: 1,
            pacing: group.pacing,
            busy_poll: false,
            statement_activity: None,
            slices: None,
            slowdowns: Vec::new(),
            background_clients: Vec::new(),
            seed: group.seed,
            ..self.clone()
        }
    }

    pub fn is_open_loop(&self) -> bool {
        matches!(self.pacing, Pacing::Open { .. })
    }

    /// Return whether the threads use busy polling.
    pub fn spins(&self) -> bool {
        self.busy_poll && self.clients.div_ceil(self.thread_count()) <= SPINNING_CLIENTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(clients: u32, threads: u32, cpus: &[usize]) -> DriveSettings {
        let closed = DriveSettings::closed_loop(clients, threads, End::Operations(1));
        DriveSettings { busy_poll: true, cpus: cpus.to_vec(), ..closed }
    }

    #[test]
    fn threads_are_as_asked_but_never_idle() {
        assert_eq!(drive(8, 3, &[]).thread_count(), 3);
        assert_eq!(drive(2, 3, &[]).thread_count(), 2);
        assert_eq!(drive(1, 0, &[0, 1]).thread_count(), 1);
        assert_eq!(drive(9, 0, &[0, 1]).thread_count(), 2);
        assert_eq!(drive(1000, 0, &[3]).thread_count(), 1);
    }

    #[test]
    fn in_an_open_loop_arrivals_wait_for_any_client() {
        let pacing = Pacing::Open { rate: 1.0, arrivals: Arrivals::Poisson, max_lateness: None };
        let open = |threads| DriveSettings { pacing, ..drive(8, threads, &[0, 1]) };
        assert_eq!(open(0).thread_count(), 1);
        assert_eq!(open(2).thread_count(), 2);
    }

    #[test]
    fn clients_with_cpus_of_their_own_are_spun_on_by_enough_threads() {
        for clients in 1..=64 {
            let cpus: Vec<_> = (64..64 + clients as usize).collect();
            assert!(drive(clients, 0, &cpus).spins(), "{clients}");
        }
    }

    #[test]
    fn only_few_connections_are_spun_on() {
        assert!(drive(4, 1, &[]).spins());
        assert!(drive(8, 2, &[]).spins());
        assert!(!drive(5, 1, &[]).spins());
        assert!(!DriveSettings { busy_poll: false, ..drive(1, 1, &[]) }.spins());
    }
}
