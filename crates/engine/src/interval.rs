//! The counts of an interval, over all transactions.

use serde::Serialize;

use super::latency::Latencies;

/// Numbers of transactions and statements that ended.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Totals {
    /// Successful transactions; statements count successes too.
    pub transactions: u64,
    pub statements: u64,
    /// Failed statements.
    pub errors: u64,
    pub retries: u64,
    pub late: u64,
    pub skipped: u64,
    pub rows: u64,
    /// Bytes sent and received.
    pub bytes: u64,
}

impl Totals {
    pub fn add(&mut self, other: &Self) {
        self.transactions += other.transactions;
        self.statements += other.statements;
        self.errors += other.errors;
        self.retries += other.retries;
        self.late += other.late;
        self.skipped += other.skipped;
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

/// The counts of one thread since it last handed them over.
#[derive(Clone, Debug)]
pub struct Counts {
    pub totals: Totals,
    /// True if any bytes came from the server.
    pub heard: bool,
    /// Transactions under way when the counts were handed over.
    pub under_way: u64,
    /// Latencies of transactions: response time in an open loop, service time in a closed loop.
    pub latencies: Latencies,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            totals: Totals::default(),
            heard: false,
            under_way: 0,
            latencies: Latencies::rough(),
        }
    }
}

impl Counts {
    pub fn merge(&mut self, other: &Self) {
        self.totals.add(&other.totals);
        self.heard |= other.heard;
        self.under_way += other.under_way;
        self.latencies.merge(&other.latencies);
    }
}

/// A part of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    Warmup,
    Measure,
}

/// One report: the transactions that ended in the interval, whenever they began.
#[derive(Clone, Debug, Serialize)]
pub struct Interval {
    pub part: Part,
    /// The end of the interval, since the start of the drive.
    pub t_s: f64,
    pub duration_s: f64,
    #[serde(flatten)]
    pub totals: Totals,
    /// Latency of transactions: response time in an open loop, otherwise service time. Null if none
    /// ended.
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub max_us: Option<f64>,
    /// The latencies behind the percentiles, for reports that merge several intervals.
    #[serde(skip)]
    pub latencies: Box<Latencies>,
}

impl Interval {
    pub fn new(part: Part, t_s: f64, duration_s: f64, counts: &Counts) -> Self {
        let microseconds = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e6);
        Self {
            part,
            t_s,
            duration_s,
            totals: counts.totals,
            p50_us: microseconds(counts.latencies.percentile_s(50.0)),
            p99_us: microseconds(counts.latencies.percentile_s(99.0)),
            max_us: microseconds(counts.latencies.max_s()),
            latencies: Box::new(counts.latencies.clone()),
        }
    }
}
