//! A benchmark of a server that is already running, and its report for people.

mod figures;
mod report;
mod screen;

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use thiserror::Error;

use crate::events::{Event, EventListener, Events, JsonLines};
use crate::run::{self, Failure, Plan};
use crate::spec::{Drive, Phase, Spec, Work, Workload};
use crate::tables::{LoadOptions, Method, quoted};
use protocol::ClientError;
use protocol::mysql::{Address, Login};
use protocol::shown::shown_line;
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
    Failed { failure: Failure, message: String },
}

/// Execute the benchmark and print its results.
pub fn bench(settings: Settings, stop: &Arc<AtomicBool>) -> Result<(), BenchError> {
    let advice = Subject::of(&settings);
    let screen = Screen::new(&settings);
    let listener =
        ScreenAndJson { json: settings.json.as_deref().map(json_lines).transpose()?, screen };
    let plan = Plan::make(spec(settings)?)?;
    let events = Events::new(listener, stop);
    let outcome = run::run(plan, &events, stop);
    if let Some(error) = events.take_lost() {
        return Err(BenchError::Output("the report".to_owned(), error));
    }
    outcome.map_err(|failure| BenchError::Failed { message: advice.explain(&failure), failure })
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

/// The command, as far as advice about a failure depends on it.
struct Subject {
    login: Login,
    test: String,
    connections: u32,
}

impl Subject {
    fn of(settings: &Settings) -> Self {
        Self {
            login: settings.login.clone(),
            test: settings.test.clone(),
            connections: match &settings.command {
                Command::Prepare { connections } => *connections,
                Command::Run(drive) => drive.settings.clients,
                Command::Cleanup => 1,
            },
        }
    }

    /// Return the failure in words, and what may help.
    fn explain(&self, failure: &Failure) -> String {
        let message = failure.to_string();
        let message = shown_line(&message);
        match self.advice(failure) {
            Some(advice) => format!("{message}\n{advice}"),
            None => message.into_owned(),
        }
    }

    fn advice(&self, failure: &Failure) -> Option<String> {
        match failure.client()? {
            ClientError::Server(error) => self.about_code(error.code),
            ClientError::Connection { source, .. } => self.about_connection(source.kind()),
            _ => None,
        }
    }

    /// Return what helps against server errors that a wrong option or a forgotten step leads to.
    fn about_code(&self, code: u16) -> Option<String> {
        let Self { login: Login { user, database, .. }, test, connections } = self;
        let database = database.as_deref().unwrap_or_default();
        Some(match code {
            // ER_ACCESS_DENIED_ERROR, ER_DBACCESS_DENIED_ERROR, ER_BAD_DB_ERROR
            1045 => format!(
                "Is the password of {user} right? It is taken from --password or the environment's \
                 MYSQL_PWD; --user names another account."
            ),
            1044 => format!(
                "As somebody who may: GRANT ALL ON {database}.* TO {user}; --database names another \
                 database."
            ),
            1049 => {
                format!("Make it with CREATE DATABASE {database}, or name another one: --database.")
            }
            // ER_NO_SUCH_TABLE, ER_TABLE_EXISTS_ERROR
            1146 => format!(
                "Make the tables first: millrace-load bench prepare --workload {test} and the same \
                 --tables, --table-size, --threads and --set."
            ),
            1050 => format!(
                "Drop what is there first: millrace-load bench cleanup --workload {test} and the \
                 same --tables and --threads."
            ),
            // ER_CON_COUNT_ERROR, ER_TOO_MANY_USER_CONNECTIONS, ER_MAX_PREPARED_STMT_COUNT_REACHED
            1040 | 1203 => format!(
                "{connections} connections were to be opened: raise the server's max_connections \
                 and max_user_connections, or lower --connections."
            ),
            1461 => "Raise the server's max_prepared_stmt_count, or send statements as \
                                  text: --db-ps-mode=disable."
                .to_owned(),
            _ => return None,
        })
    }

    fn about_connection(&self, kind: ErrorKind) -> Option<String> {
        match (kind, &self.login.address) {
            (ErrorKind::ConnectionRefused, Address::Tcp { .. }) => Some(
                "No server listens there: is it running, and are --host and --port right? A server \
                 with skip_networking has a --socket only."
                    .to_owned(),
            ),
            (ErrorKind::NotFound | ErrorKind::ConnectionRefused, Address::Socket(_)) => Some(
                "No server listens at that file: is it running, and is --socket right? The server's \
                 own answer is SELECT @@socket."
                    .to_owned(),
            ),
            _ => None,
        }
    }
}
