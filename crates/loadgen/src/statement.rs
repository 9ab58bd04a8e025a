//! The record of the statements of a phase: counts, latencies and errors.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

use crate::events::StatementSummary;

/// The longest latency that is distinguished from longer ones: a week, in microseconds.
const LONGEST_US: u64 = 7 * 24 * 3_600 * 1_000_000;

/// Latencies are kept to this many decimal digits.
const DIGITS: u8 = 3;

/// The record of one phase's statements.
pub struct StatementRecord {
    name: String,
    latencies_us: Histogram<u64>,
    errors: BTreeMap<u16, u64>,
}

impl StatementRecord {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            latencies_us: Histogram::new_with_bounds(1, LONGEST_US, DIGITS)
                .expect("the bounds are constants in range"),
            errors: BTreeMap::new(),
        }
    }

    pub fn succeeded(&mut self, duration: Duration) {
        let microseconds = u64::try_from(duration.as_micros()).unwrap_or(LONGEST_US);
        self.latencies_us.saturating_record(microseconds);
    }

    /// Count an error of the server.
    pub fn failed(&mut self, code: u16) {
        *self.errors.entry(code).or_default() += 1;
    }

    pub fn summary(&self) -> StatementSummary {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&self.latencies_us, &mut bytes)
            .expect("a histogram of this size fits into memory");
        StatementSummary {
            name: self.name.clone(),
            count: self.latencies_us.len(),
            errors: self.errors.clone(),
            histogram: STANDARD.encode(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;

    #[test]
    fn a_summary_can_be_read_back() {
        let mut record = StatementRecord::new("load");
        record.succeeded(Duration::from_millis(1_500));
        record.succeeded(Duration::from_secs(30 * 24 * 3_600));
        record.failed(1062);
        let summary = record.summary();
        assert_eq!((summary.count, summary.errors[&1062]), (2, 1));
        let bytes = STANDARD.decode(summary.histogram).unwrap();
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!(read.len(), 2);
        assert!(read.min().abs_diff(1_500_000) < 1_500);
    }
}
