//! The report of a sampling, as JSON.

use libc::c_long;
use serde::Serialize;

use super::connection_map::ConnectionMap;
use super::names::Names;
use super::sampler::Sampler;
use super::tally::{StateCount, Tally};
use super::thread::Thread;

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// The process can be sampled; from now on commands are read.
    Ready,
    #[serde(rename = "threads")]
    Report(Report),
}

#[derive(Debug, Serialize)]
pub struct Report {
    /// Ticks per second.
    rate_hz: f64,
    ticks: u64,
    #[serde(flatten)]
    facts: SamplingFacts,
    threads: Vec<ThreadReport>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct SamplingFacts {
    /// CPU time of the sampler while it counted.
    pub cpu_s: f64,
    /// True if ticks could preempt other programs (real-time scheduling).
    pub realtime: bool,
    pub window_s: f64,
    /// True if the process ended before the command to end.
    pub ended: bool,
}

#[derive(Debug, Serialize)]
struct ThreadReport {
    tid: u32,
    name: String,
    /// The number of ticks that sampled the thread.
    ticks: u64,
    states: Vec<StateReport>,
    /// The same by the client's statement, for samples in which that was known.
    statements: Vec<StatementReport>,
}

#[derive(Debug, Serialize)]
struct StatementReport {
    /// Null if no statement was under way.
    statement: Option<String>,
    states: Vec<StateReport>,
}

#[derive(Debug, Serialize)]
struct StateReport {
    state: char,
    syscall: Option<c_long>,
    target: Option<String>,
    wchan: Option<String>,
    stack: Option<String>,
    count: u64,
    seconds: f64,
    during_sync: u64,
}

impl Report {
    pub fn new(sampler: &mut Sampler, facts: SamplingFacts) -> Self {
        sampler.rename();
        let (ticks, window_s) = (sampler.ticks, facts.window_s);
        let report =
            |thread| ThreadReport::new(thread, sampler.names(), sampler.connections.as_ref());
        let mut threads: Vec<ThreadReport> = sampler.threads().map(report).collect();
        threads.sort_by_key(|thread| thread.tid);
        let rate_hz = if window_s > 0.0 { ticks as f64 / window_s } else { 0.0 };
        Self { rate_hz, ticks, facts, threads }
    }
}

impl ThreadReport {
    fn new(thread: &Thread, names: &Names, connections: Option<&ConnectionMap>) -> Self {
        let shown = (0..).zip(&thread.by_statement).filter(|(_, tally)| tally.ticks() > 0);
        let statements = shown.map(|(shown, tally)| StatementReport {
            statement: connections.and_then(|all| all.name(shown)).map(str::to_owned),
            states: states(tally, names),
        });
        Self {
            tid: thread.tid,
            name: thread.name.clone(),
            ticks: thread.tally.ticks(),
            states: states(&thread.tally, names),
            statements: statements.collect(),
        }
    }
}

fn states(tally: &Tally, names: &Names) -> Vec<StateReport> {
    let text = |name| names.text(name).to_owned();
    let report = |StateCount { state, times, seconds, during_sync }| StateReport {
        state: state.letter,
        syscall: state.syscall,
        target: state.target.map(text),
        wchan: state.wchan.map(text),
        stack: state.stack.map(text),
        count: times,
        seconds,
        during_sync,
    };
    tally.counts().into_iter().map(report).collect()
}
