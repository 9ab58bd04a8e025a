//! The settings of a drive: clients, pacing, length and threads.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use rustix::thread::CpuSet;
use serde::{Deserialize, Serialize};

use super::slices::SliceSettings;
use protocol::script::Names;

/// Threads can be pinned to CPUs with numbers below this.
pub const CPU_NUMBERS: usize = CpuSet::MAX_CPU;

/// The longest silence of a server that owes answers. Longer than a wait for a lock, which ends after 50 s
/// unless the server is configured otherwise.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The settings of one drive.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveSettings {
    /// Connections, each with one request under way at most; in slices those of one side. At least 1.
    pub clients: u32,
    /// Threads that drive them; 0 chooses, see [`DriveSettings::thread_count`].
    pub threads: u32,
    pub pacing: Pacing,
    pub warmup: Warmup,
    pub end: End,
    /// Error codes after which a transaction is begun again.
    pub retry: Vec<u16>,
    /// Spin instead of sleeping, where so few connections share a thread that it pays.
    pub busy_poll: bool,
    /// CPUs the threads are pinned to in turn; empty pins none.
    pub cpus: Vec<usize>,
    /// The longest a drive may take, opening of the connections included.
    pub limit: Option<Duration>,
    /// A server that owes answers and gives none for so long is given up; several seconds at least.
    pub idle_timeout: Duration,
    /// Clients stay connected for this time after the measured part, for samplers of threads.
    pub linger: Duration,
    /// The file in which clients publish the statement under way; None where nobody looks. They then
    /// begin a moment after they have connected: the server's threads are seen to wait for them.
    pub statement_activity: Option<PathBuf>,
    /// Clients of several servers take turns, on one thread, in a closed loop; None for a single one.
    pub slices: Option<SliceSettings>,
    /// Statements of maintenance run when so much of the measured part is over, which then lasts longer
    /// by the time that they take; None without any. Needs an end by time, and no slices.
    pub maintenance_after: Option<Duration>,
    /// The share by which each side of slices is made slower; empty for none.
    pub slowdowns: Vec<f64>,
    /// Further groups of clients that work meanwhile. Their records are apart, and a time ends them.
    pub background_clients: Vec<BackgroundClients>,
    /// The seed of random arrivals, and of the order of slices.
    pub seed: u64,
}

/// Clients that work while those of the drive are measured, on a thread of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct BackgroundClients {
    /// Their test, by which results name them.
    pub test: String,
    pub clients: u32,
    pub pacing: Pacing,
    pub names: Names,
    /// Of its random arrivals.
    pub seed: u64,
}

/// The pacing of transactions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pacing {
    /// A client begins its next transaction when its last one has ended.
    Closed,
    /// Transactions arrive at a rate of their own, whatever the server does.
    Open {
        /// Transactions a second, over all clients. Above 0.
        rate: f64,
        arrivals: Arrivals,
        /// A transaction that cannot begin so soon after it arrived is skipped.
        max_lateness: Option<Duration>,
    },
}

/// The gaps between arrivals: exponential, or all the same.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    #[default]
    Poisson,
    Constant,
}

/// The part before the measured one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    Time(Duration),
    /// Until the throughput has settled, see [`super::steady`], or this time is over.
    Steady {
        limit: Duration,
    },
}

/// The end of the measured part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Time(Duration),
    /// So many transactions over all clients, failed and skipped ones included.
    Operations(u64),
    /// Whichever comes first.
    Either(Duration, u64),
}

/// With more connections a thread, one of them nearly always has something to read.
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

    /// Return the threads to use. Where none are asked for: one for each CPU that clients may run
    /// on, as far as there are clients. A thread of the server is then mostly woken by one of ours
    /// on its own CPU, which costs half of what waking another CPU does: on 2 CPUs, two threads had
    /// up to twice the throughput of one, at two thirds of the CPU time a query. In an open loop it
    /// is one thread: what arrives at one does not see the idle clients of another, and would wait.
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

    /// Return the number of servers that are driven.
    pub fn sides(&self) -> u32 {
        self.slices.map_or(1, |slices| slices.sides)
    }

    /// Return the connections of all sides together.
    pub fn connections(&self) -> u32 {
        self.clients * self.sides()
    }

    /// Return the settings of a background group as those of a drive of its own.
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

    /// Return true where the threads spin instead of sleeping.
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
