//! The results of a drive.

use std::collections::BTreeMap;

use serde::Serialize;

use protocol::ClientError;

use super::client::Span;
use super::clock::seconds;
use super::interval::Interval;
use super::record::{Record, Records};
use super::resource_usage::ResourceUsage;
use super::settings::{Arrivals, Pacing};
use super::slices::Slice;

/// Something to tell while the drive goes on.
#[derive(Clone, Debug)]
pub enum Report {
    /// A mark, and its time from the beginning of the drive.
    Mark {
        mark: Mark,
        t_s: f64,
    },
    Interval(Interval),
}

/// A point that a phase has reached. Samples of other processes are taken at the marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Of a phase of any kind; the others are of one that drives clients.
    PhaseStarted,
    Connected,
    WarmupStarted,
    MeasureStarted,
    /// Requests under way are still waited for, and clients stay connected as long as they linger.
    MeasureEnded,
}

/// The results of a drive. A transaction belongs to the measured part if it began in it, or in an
/// open loop was to begin in it; its statements belong where it does. What is under way at the end
/// is waited for, so that every transaction that began is counted, with its whole latency.
#[derive(Clone, Debug, Serialize)]
pub struct DriveResult {
    /// Of the measured part. Where a closed loop that a time ends had few transactions, the time that
    /// they take at the pace of their clients: a whole number of them hardly fits into the part.
    pub duration_s: f64,
    pub warmup_s: f64,
    /// True where throughput had settled; null where the warm-up did not wait for that.
    pub warmup_steady: Option<bool>,
    pub connect_s: f64,
    /// The measured part ended before its time or its number of transactions, or some clients did.
    pub partial: bool,
    pub partial_reason: Option<String>,
    /// In slices those of one side.
    pub clients: u32,
    pub threads: u32,
    /// The threads spun instead of sleeping.
    pub busy_poll: bool,
    /// Null where threads are not pinned.
    pub cpus: Option<Vec<usize>>,
    pub pacing: PacingResult,
    /// The mean time of a client between an answer and its next request, in a closed loop:
    /// statements a second x (their mean latency + this) = clients, where none fails.
    pub mean_gap_s: Option<f64>,
    /// The evenness with which the clients were served.
    pub transactions_per_client: PerClient,
    /// Of all sides together, as all other figures here.
    pub transactions: Vec<Record>,
    pub statements: Vec<Record>,
    /// Null where all clients work at the same time.
    pub sides: Option<Vec<SideResult>>,
    /// The slices of whole groups in the measured part, in their order; null as above.
    pub slices: Option<Vec<Slice>>,
    /// The groups of background clients, in their order. No other figure is of them.
    pub background_clients: Vec<BackgroundResult>,
    /// Null where no statements of maintenance ran, or not to their end.
    pub maintenance: Option<MaintenanceResult>,
    /// `ROLLBACK`s sent after errors inside transactions; no record has them.
    pub rollbacks: u64,
    /// Requests that were under way when the drive was broken off; no record has them.
    pub unanswered: u64,
    /// The time from the begin of the oldest transaction among them; 0 without any.
    pub unanswered_s: f64,
    /// The server's words for the first error of each code.
    pub error_messages: BTreeMap<u16, String>,
    pub client: ClientCpu,
}

/// The measured part of a group of background clients.
#[derive(Clone, Debug, Serialize)]
pub struct BackgroundResult {
    pub test: String,
    pub clients: u32,
    pub pacing: PacingResult,
    pub transactions: Vec<Record>,
    pub statements: Vec<Record>,
    pub rollbacks: u64,
    pub unanswered: u64,
    pub error_messages: BTreeMap<u16, String>,
}

/// The records of one side, of the measured part.
#[derive(Clone, Debug, Serialize)]
pub struct SideResult {
    pub transactions: Vec<Record>,
    pub statements: Vec<Record>,
    pub rollbacks: u64,
    pub mean_gap_s: f64,
    /// Transactions before the measured part that succeeded, and the time that they took.
    pub before: u64,
    pub before_s: f64,
}

impl SideResult {
    pub fn of(records: &Records) -> Self {
        Self {
            transactions: records.transactions.clone(),
            statements: records.statements.clone(),
            rollbacks: records.rollbacks,
            mean_gap_s: records.mean_gap_s(),
            before: records.before,
            before_s: seconds(records.before_ns),
        }
    }
}

/// The statements of maintenance of a drive, and the clients in its parts.
#[derive(Clone, Debug, Serialize)]
pub struct MaintenanceResult {
    /// On the clock of the marks.
    pub from_s: f64,
    pub until_s: f64,
    /// The time of each statement.
    pub statements_s: Vec<f64>,
    pub parts: Vec<PartResult>,
}

/// All transactions of a part together.
#[derive(Clone, Debug, Serialize)]
pub struct PartResult {
    pub duration_s: f64,
    #[serde(flatten)]
    pub record: Record,
}

/// The pacing of requests, and the punctuality of the schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PacingResult {
    Closed,
    Open {
        /// Transactions a second.
        rate: f64,
        arrivals: Arrivals,
        #[serde(flatten)]
        punctuality: Punctuality,
        max_lateness_s: Option<f64>,
    },
}

/// The punctuality of the arrivals of one or more threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Punctuality {
    /// Arrivals in the measured part: as many as began and were skipped.
    pub scheduled: u64,
    /// Transactions that began more than [`super::LATE_NS`] after they arrived.
    pub late: u64,
    /// Transactions that could not begin before the end, or within the limit of lateness.
    pub skipped: u64,
}

impl Punctuality {
    pub fn add(&mut self, other: Self) {
        self.scheduled += other.scheduled;
        self.late += other.late;
        self.skipped += other.skipped;
    }
}

impl PacingResult {
    pub fn new(pacing: Pacing, punctuality: Punctuality) -> Self {
        match pacing {
            Pacing::Closed => Self::Closed,
            Pacing::Open { rate, arrivals, max_lateness } => Self::Open {
                rate,
                arrivals,
                punctuality,
                max_lateness_s: max_lateness.map(|limit| limit.as_secs_f64()),
            },
        }
    }
}

/// The fewest and the most transactions of a single client that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PerClient {
    pub least: u64,
    pub most: u64,
}

impl PerClient {
    /// Of no client, or of the given ones.
    pub fn of(counts: impl IntoIterator<Item = u64>) -> Self {
        let nobody = Self { least: u64::MAX, most: 0 };
        counts.into_iter().fold(nobody, |all, count| Self {
            least: all.least.min(count),
            most: all.most.max(count),
        })
    }

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

/// The pace of clients, each by the time in which its own measured transactions followed each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Failed ones included.
    transactions: u64,
    per_second: f64,
}

/// With more for each client, what both ends of the measured part cut off makes less than 5 %.
const FEW_TRANSACTIONS: u64 = 20;

impl Pace {
    pub fn of<'a>(spans: impl IntoIterator<Item = &'a Span>) -> Self {
        spans.into_iter().filter_map(Span::rate).fold(Self::default(), |sum, (count, rate)| {
            sum.and(Self { transactions: count, per_second: rate })
        })
    }

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            transactions: self.transactions + other.transactions,
            per_second: self.per_second + other.per_second,
        }
    }

    /// Return the seconds that the transactions take at this pace; None where they are many, and the
    /// length of the measured part is as good.
    pub fn duration_s(self, clients: u32) -> Option<f64> {
        let is_few = (1..FEW_TRANSACTIONS * u64::from(clients)).contains(&self.transactions);
        is_few.then(|| self.transactions as f64 / self.per_second)
    }
}

/// The resources that this process used in the measured part.
#[derive(Clone, Debug, Serialize)]
pub struct ClientCpu {
    #[serde(flatten)]
    pub usage: ResourceUsage,
    /// CPU time by that of all the host's CPUs.
    pub host_share: f64,
}

/// A drive that could not go on.
#[derive(Debug)]
pub struct Failed {
    /// The results up to the failure; None where not all connections could be opened.
    pub driven: Option<Box<DriveResult>>,
    pub error: ClientError,
}
