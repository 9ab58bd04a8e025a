//! A benchmark of a server that is already running: from settings to a run, and its report for
//! people.

mod advice;
mod figures;
mod report;
mod screen;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use thiserror::Error;

use crate::events::{Event, EventListener, Events, JsonLines};
use crate::run::{self, Failed, Plan};
use crate::spec::{Drive, Phase, Spec, Work, Workload};
use crate::tables::{LoadOptions, Method, quoted};
use protocol::mysql::Login;
use workload::validation::ValidationError;

pub use figures::{histogram_lines, table};
pub use report::{latency_heads, latency_row, percentiles};
use screen::Screen;

/// The command, and its output.
pub struct Settings {
    pub command: Command,
    pub login: Login,
    pub workload_name: String,
    pub workload: Workload,
    pub test: String,
    pub title: String,
    pub screen_options: ScreenOptions,
    /// The longest silence of the server.
    pub idle_timeout: Duration,
    /// The file for the events as JSON lines; `-` is standard output.
    pub json: Option<PathBuf>,
}

/// The parts of the report for people.
#[derive(Clone, Debug)]
pub struct ScreenOptions {
    /// Seconds between the lines while it runs; 0 for none.
    pub interval_s: u32,
    /// Percentiles besides the usual ones.
    pub percentiles: Vec<f64>,
    pub histogram: bool,
}

pub enum Command {
    /// Creates, fills and verifies the tables.
    Prepare {
        connections: u32,
    },
    Run(Box<Drive>),
    /// Drops the tables.
    Cleanup,
}

/// Why a benchmark ended without a result.
#[derive(Debug, Error)]
pub enum BenchError {
    #[error(transparent)]
    ValidationError(#[from] ValidationError),
    #[error("cannot write {0}: {1}")]
    Output(String, io::Error),
    /// With what to do about it.
    #[error("{message}")]
    Failed { failed: Failed, message: String },
}

/// Execute the benchmark and print its results.
pub fn bench(settings: Settings, stop: &Arc<AtomicBool>) -> Result<(), BenchError> {
    let advice = advice::Subject::of(&settings);
    let screen = Screen::new(&settings);
    let listener =
        ScreenAndJson { json: settings.json.as_deref().map(json_lines).transpose()?, screen };
    let plan = Plan::make(spec(settings)?)?;
    let events = Events::new(listener, stop);
    let outcome = run::run(plan, &events, stop);
    if let Some(error) = events.take_lost() {
        return Err(BenchError::Output("the report".to_owned(), error));
    }
    outcome.map_err(|failed| BenchError::Failed { message: advice.explain(&failed.0), failed })
}

fn json_lines(path: &Path) -> Result<JsonLines<Box<dyn Write + Send>>, BenchError> {
    if path == Path::new("-") {
        return Ok(JsonLines(Box::new(io::stdout())));
    }
    let file = File::create(path)
        .map_err(|error| BenchError::Output(path.display().to_string(), error))?;
    Ok(JsonLines(Box::new(file)))
}

/// Return the run that a command stands for.
fn spec(settings: Settings) -> Result<Spec, ValidationError> {
    let phase = |name: &str, work| Phase { name: name.to_owned(), limit: None, work };
    let phases = match settings.command {
        Command::Prepare { connections } => {
            let how = LoadOptions {
                chunk_rows: 0,
                threads: connections as usize,
                method: Method::Auto,
                lock_tables: false,
                linger: Duration::ZERO,
            };
            vec![phase("load", Work::LoadTables(how)), phase("verify", Work::VerifyTables)]
        }
        Command::Run(drive) => vec![phase("measure", Work::Drive(drive))],
        Command::Cleanup => {
            let drops = run::tables_of(&settings.workload)?
                .iter()
                .map(|table| format!("DROP TABLE IF EXISTS {}", quoted(&table.name)))
                .collect();
            vec![phase("drop", Work::Statements(drops))]
        }
    };
    Ok(Spec {
        connection: settings.login,
        against: Vec::new(),
        session: Vec::new(),
        idle_timeout: Some(settings.idle_timeout),
        workload: Some(settings.workload),
        phases,
    })
}

/// People read the screen, programs the JSON lines.
struct ScreenAndJson {
    json: Option<JsonLines<Box<dyn Write + Send>>>,
    screen: Screen,
}

impl EventListener for ScreenAndJson {
    fn on_event(&mut self, event: &Event<'_>) -> io::Result<()> {
        // The file gets everything, also when nobody reads the screen any more.
        let shown = self.screen.on_event(event);
        let kept = self.json.as_mut().map_or(Ok(()), |json| json.on_event(event));
        shown.and(kept)
    }
}
