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

/// An event to report during the drive.
#[derive(Clone, Debug)]
pub enum Report {
    /// A mark, and its time since the start of the drive.
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
    /// The start of a phase of any kind; the other marks only occur in phases that drive clients.
    PhaseStarted,
    Connected,
    WarmupStarted,
    MeasureStarted,
    /// Requests may still be under way, and clients stay connected for the linger time.
    MeasureEnded,
}

/// The results of a drive. A transaction belongs to the measured part if it began in that part, or
/// in an open loop if it arrived in that part; its statements belong to the same part. Transactions
/// under way at the end are completed, so every transaction that began is counted with its full
/// latency.
#[derive(Clone, Debug, Serialize)]
pub struct DriveResult {
    /// The duration of the measured part. For a closed loop that ends by time with few
    /// transactions, the time that they take at the pace of their clients, because a whole number
    /// of them rarely fits into the part.
    pub duration_s: f64,
    pub warmup_s: f64,
    /// True if throughput became steady; null if the warm-up did not wait for that.
    pub warmup_steady: Option<bool>,
    pub connect_s: f64,
    /// The measured part, or some of its clients, ended before the time or the number of
    /// transactions was reached.
    pub partial: bool,
    pub partial_reason: Option<String>,
    /// In slices, the clients of one side.
    pub clients: u32,
    pub threads: u32,
    /// True if the threads used busy polling instead of sleeping.
    pub busy_poll: bool,
    /// Null if threads are not pinned.
    pub cpus: Option<Vec<usize>>,
    pub pacing: PacingResult,
    /// In a closed loop, a client's mean time between an answer and its next request: (statements
    /// per second) x (their mean latency + this) = clients, if no statement fails.
    pub mean_gap_s: Option<f64>,
    /// The evenness with which the clients were served.
    pub transactions_per_client: PerClient,
    /// The records of all sides together, like all figures here.
    pub transactions: Vec<Record>,
    pub statements: Vec<Record>,
    /// Null without slices.
    pub sides: Option<Vec<SideResult>>,
    /// The slices of complete groups in the measured part, in order; null without slices.
    pub slices: Option<Vec<Slice>>,
    /// The background groups, in their order. The other figures do not include them.
    pub background_clients: Vec<BackgroundResult>,
    /// Null if no maintenance statements ran, or if they did not finish.
    pub maintenance: Option<MaintenanceResult>,
    /// `ROLLBACK`s sent after errors inside transactions; the records do not include them.
    pub rollbacks: u64,
    /// Requests without an answer when the drive was aborted; the records do not include them.
    pub unanswered: u64,
    /// The age of the oldest transaction among these; 0 if there is none.
    pub unanswered_s: f64,
    /// The server's message for the first error of each code.
    pub error_messages: BTreeMap<u16, String>,
    pub client: ClientCpu,
}

/// The measured part of a background group.
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

/// The records of one side in the measured part.
#[derive(Clone, Debug, Serialize)]
pub struct SideResult {
    pub transactions: Vec<Record>,
    pub statements: Vec<Record>,
    pub rollbacks: u64,
    pub mean_gap_s: f64,
    /// Successful transactions before the measured part, and the time they took.
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

/// The maintenance statements of a drive, and the clients' records before, during and after them.
#[derive(Clone, Debug, Serialize)]
pub struct MaintenanceResult {
    /// On the same clock as the marks.
    pub from_s: f64,
    pub until_s: f64,
    /// The duration of each statement.
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

/// The pacing of requests, and how well the schedule was kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PacingResult {
    Closed,
    Open {
        /// Transactions per second.
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
    /// Arrivals in the measured part: begun and skipped ones.
    pub scheduled: u64,
    /// Transactions that began more than [`super::LATE_NS`] after their arrival.
    pub late: u64,
    /// Arrivals that did not begin before the end, or within the maximum lateness.
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

/// The minimum and the maximum of a client's successful transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PerClient {
    pub least: u64,
    pub most: u64,
}

impl PerClient {
    /// The minimum and maximum of `counts`; 0 if there are none.
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

/// The pace of clients: how fast the measured transactions of each client followed each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Includes failed ones.
    transactions: u64,
    per_second: f64,
}

/// Above this number per client, the parts cut off at both ends are below 5 %.
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

    /// Return the seconds that the transactions take at this pace; None if there are enough that
    /// the length of the measured part is precise enough.
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
    /// CPU time as a share of the time of all the host's CPUs.
    pub host_share: f64,
}

/// A drive that ended with an error.
#[derive(Debug)]
pub struct Failed {
    /// The results until the error; None if not all connections could be opened.
    pub driven: Option<Box<DriveResult>>,
    pub error: ClientError,
}
