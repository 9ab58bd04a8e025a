//! The records of one thread, and their sum over all threads.

use std::collections::BTreeMap;

use super::clock::seconds;
use super::maintenance;
use super::record::Record;
use super::settings::DriveSettings;
use protocol::script::Names;

/// The measured part by name.
#[derive(Clone, Debug)]
pub struct Records {
    pub statements: Vec<Record>,
    pub transactions: Vec<Record>,
    /// Of all transactions, before, during and after maintenance; empty without any.
    pub parts: Vec<Record>,
    pub rollbacks: u64,
    pub error_messages: BTreeMap<u16, String>,
    /// Time between answers and the requests after them, and how often.
    pub gap_ns: u64,
    pub gaps: u64,
    /// Transactions before the measured part that succeeded, and the time that they took.
    pub before: u64,
    pub before_ns: u64,
}

impl Records {
    pub fn new(names: &Names, drive: &DriveSettings) -> Self {
        let is_open_loop = drive.is_open_loop();
        let records =
            |names: &[String]| names.iter().map(|name| Record::new(name, is_open_loop)).collect();
        Self {
            statements: records(&names.statements),
            transactions: records(&names.transactions),
            parts: maintenance::records(drive),
            rollbacks: 0,
            error_messages: BTreeMap::new(),
            gap_ns: 0,
            gaps: 0,
            before: 0,
            before_ns: 0,
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

    /// 0 without any gap.
    #[allow(clippy::cast_precision_loss)] // counts below 2^53
    pub fn mean_gap_s(&self) -> f64 {
        seconds(self.gap_ns) / self.gaps.max(1) as f64
    }
}
