//! The counts of a sampling, as JSON.

use libc::c_long;
use serde::Serialize;

use super::connection_map::ConnectionMap;
use super::names::Names;
use super::sampler::Sampler;
use super::tally::{StateCount, Tally};
use super::thread::Thread;

/// A line of output.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// The process can be sampled; commands are read from now on.
    Ready,
    #[serde(rename = "threads")]
    Report(Report),
}

/// The counts of a sampling.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Ticks by time.
    rate_hz: f64,
    ticks: u64,
    /// CPU time that counting took.
    cpu_s: f64,
    /// Ticks did not wait for others to leave a CPU.
    realtime: bool,
    window_s: f64,
    /// The process ended before the end was ordered.
    ended: bool,
    threads: Vec<ThreadReport>,
}

#[derive(Debug, Serialize)]
struct ThreadReport {
    tid: u32,
    name: String,
    /// The number of ticks at which the thread existed.
    ticks: u64,
    states: Vec<StateReport>,
    /// The same by what its client showed, of those looks at which that was known.
    statements: Vec<StatementReport>,
}

#[derive(Debug, Serialize)]
struct StatementReport {
    /// Null where none was under way.
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

/// The circumstances of a sampling.
#[derive(Clone, Copy, Debug)]
pub struct SamplingFacts {
    pub window_s: f64,
    pub cpu_s: f64,
    pub realtime: bool,
    pub ended: bool,
}

impl Report {
    #[allow(clippy::cast_precision_loss)] // ticks are few
    pub fn new(sampler: &mut Sampler, of: SamplingFacts) -> Self {
        sampler.rename();
        let ticks = sampler.ticks();
        let threads = sampler.threads();
        let mut threads: Vec<ThreadReport> = threads
            .map(|thread| ThreadReport::new(thread, sampler.names(), sampler.connections()))
            .collect();
        threads.sort_by_key(|thread| thread.tid);
        Self {
            rate_hz: if of.window_s > 0.0 { ticks as f64 / of.window_s } else { 0.0 },
            ticks,
            cpu_s: of.cpu_s,
            realtime: of.realtime,
            window_s: of.window_s,
            ended: of.ended,
            threads,
        }
    }
}

impl ThreadReport {
    fn new(thread: &Thread, names: &Names, connections: Option<&ConnectionMap>) -> Self {
        let shown = (0..).zip(&thread.by_statement);
        let statements = shown.filter(|(_, tally)| tally.ticks() > 0);
        Self {
            tid: thread.tid,
            name: thread.name().to_owned(),
            ticks: thread.tally.ticks(),
            states: states(&thread.tally, names),
            statements: statements
                .map(|(shown, tally)| StatementReport {
                    statement: connections
                        .and_then(|connections| connections.name(shown))
                        .map(str::to_owned),
                    states: states(tally, names),
                })
                .collect(),
        }
    }
}

fn states(tally: &Tally, names: &Names) -> Vec<StateReport> {
    let counts = tally.counts();
    let states = counts.iter();
    states.map(|counted| StateReport::new(counted, names)).collect()
}

impl StateReport {
    fn new(counted: &StateCount, names: &Names) -> Self {
        let text = |name| names.text(name).to_owned();
        let state = counted.state;
        Self {
            state: state.letter,
            syscall: state.syscall,
            target: state.target.map(text),
            wchan: state.wchan.map(text),
            stack: state.stack.map(text),
            count: counted.times,
            seconds: counted.seconds,
            during_sync: counted.during_sync,
        }
    }
}
