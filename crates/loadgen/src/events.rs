//! What a run says while it goes on: one JSON object a line on standard output.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

/// One line of output; `type` tells which. Times are seconds, sizes bytes, both in the names.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event<'a> {
    /// The session is open.
    Start {
        load_generator: &'a str,
        server_version: &'a str,
    },
    /// Once a second while a phase runs: what it has sent since it began.
    Interval {
        phase: &'a str,
        t_s: f64,
        rows: u64,
        bytes: u64,
    },
    /// A phase has ended well. `result` has at most 100 rows of the last result set.
    Phase {
        name: &'a str,
        duration_s: f64,
        affected_rows: u64,
        warnings: u16,
        rows_sent: u64,
        bytes_sent: u64,
        /// How long the sender waited for rows to be made; null where none were.
        generator_wait_s: Option<f64>,
        result: Option<&'a [Vec<Option<String>>]>,
    },
    /// The run ends here. `code` and `sqlstate` are the server's own, null where the error is not.
    Error {
        phase: &'a str,
        kind: &'a str,
        code: Option<u16>,
        sqlstate: Option<&'a str>,
        message: &'a str,
    },
    /// The last line of every run that connected.
    Summary {
        statements: Vec<StatementSummary>,
        client: ClientUsage,
        bytes_sent: u64,
        bytes_received: u64,
    },
}

/// The statements of one phase.
#[derive(Serialize)]
pub struct StatementSummary {
    pub name: String,
    /// How many succeeded.
    pub count: u64,
    /// How many failed, by the server's error code.
    pub errors: BTreeMap<u16, u64>,
    /// `HdrHistogram` V2 in base64, of microseconds.
    pub histogram: String,
}

/// What this program itself used.
#[derive(Serialize)]
pub struct ClientUsage {
    pub user_s: f64,
    pub system_s: f64,
    pub voluntary_switches: i64,
    pub involuntary_switches: i64,
    /// None where the host does not tell.
    pub max_rss_bytes: Option<u64>,
}

/// Where events go. A reader that is gone stops the run: nobody wants its results.
#[derive(Clone)]
pub struct Events {
    stop: Arc<AtomicBool>,
}

impl Events {
    pub fn new(stop: &Arc<AtomicBool>) -> Self {
        Self {
            stop: Arc::clone(stop),
        }
    }

    pub fn emit(&self, event: &Event<'_>) {
        if write_line(event).is_err() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Writes a value as one line of JSON to standard output, at once.
pub fn write_line(value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}
