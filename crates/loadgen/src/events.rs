//! The events of a run, as JSON lines or for a listener.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};

use crate::tables::{LoadedTable, Method};
use engine::{DriveResult, Interval, Mark, ResourceUsage, Slice};
use protocol::shown::shown_json;
use workload::program::Protocol;

/// The longest latency that is distinguished from longer ones: a week, in microseconds.
const LONGEST_US: u64 = 7 * 24 * 3_600 * 1_000_000;

/// Latencies are kept to this many decimal digits.
const DIGITS: u8 = 3;

/// One event, named by `type`. Times are seconds, sizes bytes, both in the names.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event<'a> {
    /// The session is open.
    Start { load_generator: &'a str, server_version: &'a str },
    /// Once a second while a phase loads: what it has sent since it began.
    Interval { phase: &'a str, t_s: f64, rows: u64, bytes: u64 },
    /// Once a second while clients are driven: what ended in it.
    #[serde(rename = "interval")]
    DriveInterval {
        phase: &'a str,
        kind: &'static str,
        #[serde(flatten)]
        interval: &'a Interval,
    },
    /// A point that a phase has reached.
    Mark { phase: &'a str, mark: Mark, t_s: f64 },
    /// A phase has ended well; or not, if its result says that it is partial.
    Phase {
        name: &'a str,
        #[serde(flatten)]
        result: PhaseResult<'a>,
    },
    /// The run ends here. `code` and `sqlstate` are the server's own, if any; `side` is the number of
    /// the server, of several, `statement` the beginning of what a server refused.
    Error {
        phase: &'a str,
        kind: &'a str,
        code: Option<String>,
        sqlstate: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        side: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        statement: Option<&'a str>,
        message: String,
    },
    /// The last line of every run that connected.
    Summary {
        statements: &'a [StatementRecord],
        client: ClientUsage,
        bytes_sent: u64,
        bytes_received: u64,
    },
}

/// The result of a phase, by its kind.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PhaseResult<'a> {
    Statement(StatementResult<'a>),
    LoadData(StatementResult<'a>),
    LoadTables {
        duration_s: f64,
        tables: &'a [LoadedTable],
        method: Method,
        /// Why it is not the method that was to be tried first.
        method_reason: Option<&'a str>,
        warnings: u64,
        rows_sent: u64,
        bytes_sent: u64,
        generator_wait_s: f64,
    },
    VerifyTables {
        duration_s: f64,
        rows: u64,
    },
    WarmTables {
        duration_s: f64,
    },
    Drive {
        test: &'a str,
        protocol: Protocol,
        /// The run is about this phase, among several that drive clients.
        primary: bool,
        #[serde(flatten)]
        driven: &'a DriveResult,
    },
}

/// The result of statements. `result` has at most 100 rows of the last result set.
#[derive(Serialize)]
pub struct StatementResult<'a> {
    pub duration_s: f64,
    pub affected_rows: u64,
    pub warnings: u16,
    pub rows_sent: u64,
    pub bytes_sent: u64,
    /// The time for which the sender waited for rows to be made; null where none were.
    pub generator_wait_s: Option<f64>,
    pub result: Option<&'a [Vec<Option<String>>]>,
    /// The number of the server, of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<u32>,
    /// The time of the phase on all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_s: Option<f64>,
    /// Its turns while it loaded, of several that took turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slices: Option<&'a [Slice]>,
}

/// The record of one phase's statements.
#[derive(Serialize)]
pub struct StatementRecord {
    name: String,
    /// The number of successes.
    count: u64,
    /// The number of failures, by the server's error code.
    errors: BTreeMap<u16, u64>,
    #[serde(rename = "histogram", serialize_with = "write_encoded")]
    latencies_us: Histogram<u64>,
}

impl StatementRecord {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            count: 0,
            errors: BTreeMap::new(),
            latencies_us: Histogram::new_with_bounds(1, LONGEST_US, DIGITS)
                .expect("the bounds are constants in range"),
        }
    }

    pub fn succeeded(&mut self, duration: Duration) {
        let microseconds = u64::try_from(duration.as_micros()).unwrap_or(LONGEST_US);
        self.latencies_us.saturating_record(microseconds);
        self.count += 1;
    }

    /// Count an error of the server.
    pub fn failed(&mut self, code: u16) {
        *self.errors.entry(code).or_default() += 1;
    }
}

fn write_encoded<S: Serializer>(of: &Histogram<u64>, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&engine::encoded(of))
}

/// The resources that this program has used since its start.
#[derive(Serialize)]
pub struct ClientUsage {
    #[serde(flatten)]
    pub usage: ResourceUsage,
    /// None where the host does not show it.
    pub max_rss_bytes: Option<u64>,
}

/// Somebody who wants to know how a run goes on.
pub trait EventListener: Send {
    /// Take an event; an error stops the run, for nobody gets its results.
    fn on_event(&mut self, event: &Event<'_>) -> io::Result<()>;
}

/// The way of events to the listener.
#[derive(Clone)]
pub struct Events {
    listener: Arc<Mutex<dyn EventListener>>,
    stop: Arc<AtomicBool>,
    lost: Arc<Mutex<Option<io::Error>>>,
}

impl Events {
    pub fn new(listener: impl EventListener + 'static, stop: &Arc<AtomicBool>) -> Self {
        Self {
            listener: Arc::new(Mutex::new(listener)),
            stop: Arc::clone(stop),
            lost: Arc::default(),
        }
    }

    pub fn emit(&self, event: &Event<'_>) {
        // A listener that panicked has reported it; its state still takes events.
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = listener.on_event(event) {
            self.stop.store(true, Ordering::Relaxed);
            let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
            lost.get_or_insert(error);
        }
    }

    /// Take why nobody heard some of the events; None where all were heard.
    pub fn take_lost(&self) -> Option<io::Error> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.take()
    }
}

/// One JSON object a line.
pub struct JsonLines<W: Write>(pub W);

impl<W: Write + Send> EventListener for JsonLines<W> {
    fn on_event(&mut self, event: &Event<'_>) -> io::Result<()> {
        write_line(&mut self.0, event)
    }
}

/// Write a value as one line of JSON, at once.
pub fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let line = serde_json::to_string(value)?;
    out.write_all(format!("{}\n", shown_json(&line)).as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::serialization::Deserializer;

    #[test]
    fn a_record_of_statements_can_be_read_back() {
        let mut record = StatementRecord::new("load");
        record.succeeded(Duration::from_millis(1_500));
        record.succeeded(Duration::from_secs(30 * 24 * 3_600));
        record.failed(1062);
        let value = serde_json::to_value(record).unwrap();
        assert_eq!((&value["count"], &value["errors"]["1062"]), (&2.into(), &1.into()));
        let bytes = STANDARD.decode(value["histogram"].as_str().unwrap()).unwrap();
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!(read.len(), 2);
        assert!(read.min().abs_diff(1_500_000) < 1_500);
    }
}
