//! The records of statements and transactions, and all records of one thread.

use std::collections::BTreeMap;

use serde::Serialize;

use super::clock::seconds;
use super::latency::Latencies;
use super::settings::DriveSettings;
use protocol::script::Names;

/// The names of the parts of a drive with maintenance, in order.
const PARTS: [&str; 3] = ["before", "during", "after"];

/// The record of one statement or transaction, with its name.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Record {
    pub name: String,
    /// The number of successes; the latencies are those of successes.
    pub count: u64,
    /// Failures by the server's error code. For a transaction, only those that were not retried.
    pub errors: BTreeMap<u16, u64>,
    #[serde(flatten)]
    pub tally: Tally,
    /// From sending the first request to the last answer.
    pub service: Latencies,
    /// From the intended time to the last answer; None in a closed loop.
    pub response: Option<Latencies>,
}

/// Sums over answers: rows, bytes and retries.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Tally {
    /// Failures after which the transaction was restarted.
    pub retries: u64,
    pub rows: u64,
    pub affected_rows: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
}

impl Tally {
    #[inline]
    pub fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        // The server reports the numbers, which may be wrong and overflow.
        self.affected_rows = self.affected_rows.saturating_add(other.affected_rows);
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.retries += other.retries;
    }
}

impl Record {
    pub fn new(name: &str, is_open_loop: bool) -> Self {
        Self {
            name: name.to_owned(),
            response: is_open_loop.then(Latencies::default),
            ..Self::default()
        }
    }

    fn of_all(names: &[impl AsRef<str>], is_open_loop: bool) -> Vec<Self> {
        names.iter().map(|name| Self::new(name.as_ref(), is_open_loop)).collect()
    }

    /// Count a success; `response_ns` is used only in an open loop.
    #[inline]
    pub fn succeeded(&mut self, service_ns: u64, response_ns: u64) {
        self.count += 1;
        self.service.record(service_ns);
        if let Some(response) = &mut self.response {
            response.record(response_ns);
        }
    }

    pub fn failed(&mut self, code: u16) {
        *self.errors.entry(code).or_default() += 1;
    }

    /// Add the same record of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        for (&code, count) in &other.errors {
            *self.errors.entry(code).or_default() += count;
        }
        self.tally.add(&other.tally);
        self.service.merge(&other.service);
        if let (Some(mine), Some(others)) = (&mut self.response, &other.response) {
            mine.merge(others);
        }
    }
}

/// The records of the measured part.
#[derive(Clone, Debug, Default)]
pub struct Records {
    pub statements: Vec<Record>,
    pub transactions: Vec<Record>,
    /// All transactions before, during and after maintenance; empty without maintenance.
    pub parts: Vec<Record>,
    pub rollbacks: u64,
    pub error_messages: BTreeMap<u16, String>,
    /// The sum of the times between an answer and the next request, and their number.
    pub gap_ns: u64,
    pub gaps: u64,
    /// Successful transactions before the measured part, and the time they took.
    pub before: u64,
    pub before_ns: u64,
}

impl Records {
    pub fn new(names: &Names, drive: &DriveSettings) -> Self {
        let is_open_loop = drive.is_open_loop();
        let parts = if drive.maintenance_after.is_some() { &PARTS[..] } else { &[] };
        Self {
            statements: Record::of_all(&names.statements, is_open_loop),
            transactions: Record::of_all(&names.transactions, is_open_loop),
            parts: Record::of_all(parts, is_open_loop),
            ..Self::default()
        }
    }

    pub fn merge(&mut self, other: Self) {
        for (mine, others) in [
            (&mut self.statements, &other.statements),
            (&mut self.transactions, &other.transactions),
            (&mut self.parts, &other.parts),
        ] {
            for (mine, other) in mine.iter_mut().zip(others) {
                mine.merge(other);
            }
        }
        self.rollbacks += other.rollbacks;
        for (code, message) in other.error_messages {
            self.error_messages.entry(code).or_insert(message);
        }
        self.gap_ns += other.gap_ns;
        self.gaps += other.gaps;
        self.before += other.before;
        self.before_ns += other.before_ns;
    }

    /// Return the mean time between an answer and the next request, in seconds; 0 without any.
    pub fn mean_gap_s(&self) -> f64 {
        seconds(self.gap_ns) / self.gaps.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_threads_add_up() {
        let mut first = Record::new("q", true);
        first.succeeded(1_000_000, 2_000_000);
        first.failed(1213);
        let mut second = Record::new("q", true);
        second.succeeded(3_000_000, 3_000_000);
        second.failed(1213);
        second.failed(1205);
        second.tally.add(&Tally { rows: 5, retries: 1, ..Tally::default() });
        first.merge(&second);
        assert_eq!((first.count, first.tally.rows, first.tally.retries), (2, 5, 1));
        assert_eq!(first.errors, BTreeMap::from([(1205, 1), (1213, 2)]));
        assert_eq!(first.response.unwrap().max_s(), Some(0.003));
    }

    #[test]
    fn rows_that_servers_claim_to_have_changed_are_limited() {
        let mut tally = Tally { affected_rows: u64::MAX - 1, ..Tally::default() };
        tally.add(&Tally { affected_rows: u64::MAX, ..Tally::default() });
        assert_eq!(tally.affected_rows, u64::MAX);
    }

    #[test]
    fn a_closed_loop_has_no_response_time() {
        let record = serde_json::to_value(Record::new("q", false)).unwrap();
        assert!(record["response"].is_null());
        assert_eq!(record["service"]["count"], 0);
    }
}
