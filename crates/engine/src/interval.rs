//! The counts since the last report, for all transactions together.

use serde::Serialize;

use super::latency::Latencies;

/// The numbers of what ended.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Totals {
    /// That succeeded, as statements are.
    pub transactions: u64,
    pub statements: u64,
    /// Failed statements.
    pub errors: u64,
    pub retries: u64,
    pub late: u64,
    pub skipped: u64,
    pub rows: u64,
    /// Sent and received.
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

/// Counts of one thread since its last hand-over.
#[derive(Clone, Debug)]
pub struct Counts {
    pub totals: Totals,
    /// Anything has come from the server, be it a part of an answer.
    pub heard: bool,
    /// Transactions that had begun and not ended at the hand-over.
    pub under_way: u64,
    /// Of transactions: in an open loop response time, in a closed one service time.
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

/// The part of a drive that something happened in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    Warmup,
    Measure,
}

/// One report: what ended in it, whenever it began.
#[derive(Clone, Debug, Serialize)]
pub struct Interval {
    pub part: Part,
    /// Its end, from the beginning of the drive.
    pub t_s: f64,
    pub duration_s: f64,
    #[serde(flatten)]
    pub totals: Totals,
    /// Of transactions: response time in an open loop, else service time. Null where none ended.
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub max_us: Option<f64>,
    /// The latencies behind the percentiles, for reports that join several intervals.
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
