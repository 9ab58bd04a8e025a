//! The events of a run, as JSON lines or for a listener.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use crate::tables::{LoadedTable, Method};
use engine::{DriveResult, Interval, Mark, ResourceUsage, Slice};
use protocol::shown::shown_json;
use workload::program::Protocol;

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
    /// The run ends here. `code` and `sqlstate` are the server's own, null where the error is not;
    /// `side` is the number of the server, of several, `statement` the beginning of what a server
    /// refused.
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
        statements: Vec<StatementSummary>,
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

/// The statements of one phase.
#[derive(Serialize)]
pub struct StatementSummary {
    pub name: String,
    /// The number of successes.
    pub count: u64,
    /// The number of failures, by the server's error code.
    pub errors: BTreeMap<u16, u64>,
    /// `HdrHistogram` V2 in base64, of microseconds.
    pub histogram: String,
}

/// The resources that this program used.
#[derive(Serialize)]
pub struct ClientUsage {
    pub user_s: f64,
    pub system_s: f64,
    pub voluntary_switches: i64,
    pub involuntary_switches: i64,
    /// None where the host does not tell.
    pub max_rss_bytes: Option<u64>,
}

impl ClientUsage {
    /// Return what this process has used since its start.
    pub fn now() -> Self {
        let usage = ResourceUsage::now();
        Self {
            user_s: usage.user_s(),
            system_s: usage.system_s(),
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
            max_rss_bytes: engine::max_rss_bytes(),
        }
    }
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
