//! The command line: parses, calls, and turns errors into exit statuses.

mod bench;
mod data;
mod histogram;
mod host;

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, Parser, Subcommand};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::builtin;
use crate::check::mistakes;
use crate::events::{self, Events, JsonLines};
use crate::run::{self, Failed, Plan};
use crate::spec::{Spec, line_of};
use datagen::NODES_VERSION;
use protocol::shown::shown_line;
use workload::tables;
use workload::validation::{ValidationError, nearest};

/// Why the program ends without success; no message where everything has been said.
pub struct CliError {
    pub message: Option<String>,
    pub exit_status: u8,
}

/// Makes data, drives clients and measures them: the load generator of millrace.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// End at once when the process that started this one ends.
    #[arg(long)]
    die_with_parent: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure a server that is already running: fill tables, drive clients, print what they saw.
    Bench(Box<bench::BenchArgs>),
    /// Check a workload, and print its mistakes as JSON.
    Check(CheckArgs),
    /// Make a data set: the same seed gives the same bytes.
    Data {
        #[command(subcommand)]
        set: data::Set,
    },
    /// Merge the histograms of results and print percentiles.
    Histogram(histogram::HistogramArgs),
    /// Run a specification and report as JSON lines.
    Run(SpecFile),
    /// Print the statements that the clients of a specification will ask, as JSON.
    Statements(SpecFile),
    /// Measure how long each CPU takes to wake with idle states enabled and disabled; print JSON.
    IdleLatency(host::IdleLatencyArgs),
    /// Disable idle states of all CPUs until standard input ends; print the method as JSON at once.
    DisableIdleStates,
    /// Sample what the threads of a process do, from the line `begin` on standard input to the line
    /// `end`; print it as JSON.
    Threads(host::ThreadsArgs),
    /// List the tests that `bench` can run.
    Tests(TestsArgs),
    /// Print the versions of this program and of its data sets as JSON.
    Version,
}

/// Parse the command line and do what it says.
pub fn main() -> Result<ExitCode, CliError> {
    let arguments = bench::with_parameters(&Cli::command(), std::env::args_os());
    let cli = Cli::try_parse_from(arguments).unwrap_or_else(|error| plausible(error).exit());
    if cli.die_with_parent {
        prctl::set_pdeathsig(Signal::SIGKILL).map_err(|errno| host_problem(errno.to_string()))?;
    }
    match cli.command {
        Command::Bench(args) => bench::bench(*args),
        Command::Check(args) => check(&args),
        Command::Data { set } => data::make(&set),
        Command::Histogram(args) => histogram::print(&args),
        Command::Run(args) => run_spec(&args.spec),
        Command::Statements(args) => list_statements(&args.spec),
        Command::IdleLatency(args) => host::measure_idle_latency(&args),
        Command::DisableIdleStates => host::disable_idle_states(),
        Command::Threads(args) => host::sample(&args),
        Command::Tests(args) => list_tests(&args),
        Command::Version => version(),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Options by the names that older versions of sysbench, or other programs, have for them.
const OPTIONS_ELSEWHERE: [(&str, &str); 9] = [
    ("--test", "--workload"),
    ("--clients", "--threads"),
    ("--num-threads", "--threads"),
    ("--duration", "--time"),
    ("--max-time", "--time"),
    ("--max-requests", "--events"),
    ("--seed", "--rand-seed"),
    ("--engine", "--mysql-storage-engine"),
    ("--oltp-table-size", "--table-size"),
];

/// Return the error of a command line with the name that may be meant, where there is one.
fn plausible(mut error: clap::Error) -> clap::Error {
    for (given, suggested) in [
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ] {
        let Some(ContextValue::String(wrong)) = error.get(given).cloned() else {
            continue;
        };
        let wrong = wrong.split('=').next().unwrap_or_default();
        if let Some((_, here)) = OPTIONS_ELSEWHERE.iter().find(|(name, _)| *name == wrong) {
            error.insert(suggested, ContextValue::String((*here).to_owned()));
            error.remove(ContextKind::Usage); // it shows the other one
            continue;
        }
        let names = match error.get(suggested) {
            Some(ContextValue::String(name)) => vec![name.clone()],
            Some(ContextValue::Strings(names)) => names.clone(),
            _ => continue,
        };
        let plain = |name: &str| name.trim_start_matches('-').to_owned();
        let is_plausible = |name: &String| nearest(&plain(wrong), [plain(name).as_str()]).is_some();
        if !names.iter().any(is_plausible) {
            error.remove(suggested);
            error.remove(ContextKind::Usage);
        }
    }
    error
}

#[derive(Args)]
struct CheckArgs {
    /// The workload and the runs that it is for, a JSON file; - reads standard input.
    file: PathBuf,
}

fn check(args: &CheckArgs) -> Result<(), CliError> {
    let name = args.file.display();
    let json = read(&args.file).map_err(|error| user_mistake(format!("{name}: {error}")))?;
    let found = mistakes(&json).map_err(|error| user_mistake(format!("{name}: {error}")))?;
    let found: Vec<Value> = found
        .into_iter()
        .map(|mistake| json!({"key": mistake.key, "message": mistake.message}))
        .collect();
    print(&json!({ "mistakes": found }))
}

#[derive(Args)]
struct SpecFile {
    /// The specification, a JSON file; - reads standard input.
    spec: PathBuf,
}

fn run_spec(spec: &Path) -> Result<(), CliError> {
    let plan = plan(spec)?;
    let stop = stopped_by_signals()?;
    let events = Events::new(JsonLines(io::stdout()), &stop);
    let outcome = run::run(plan, &events, &stop);
    if let Some(error) = events.take_lost() {
        return Err(output_problem("standard output", &error));
    }
    outcome.map_err(|error| failed(&error, shown_line(&error.0.to_string()).into_owned()))
}

fn list_statements(spec: &Path) -> Result<(), CliError> {
    let statements: Map<String, Value> = plan(spec)?
        .statements()
        .into_iter()
        .map(|(name, sql)| (name, Value::String(sql)))
        .collect();
    print(&json!({ "statements": statements }))
}

#[derive(Args)]
struct TestsArgs {
    /// As one JSON array.
    #[arg(long)]
    json: bool,
}

fn list_tests(args: &TestsArgs) -> Result<(), CliError> {
    let workloads = builtin::all();
    let tests: Vec<(&str, &str, &str)> = workloads
        .iter()
        .flat_map(|workload| {
            let tests = workload.definition.tests.iter();
            tests.map(|(name, test)| (name.as_str(), test.title.as_str(), workload.name.as_str()))
        })
        .collect();
    if args.json {
        return print(
            &tests
                .iter()
                .map(|(name, title, workload)| json!({"name": name, "title": title, "workload": workload}))
                .collect(),
        );
    }
    table(&tests).map_err(|error| output_problem("standard output", &error))
}

fn table(tests: &[(&str, &str, &str)]) -> io::Result<()> {
    let name_width = tests.iter().map(|test| test.0.len()).max().unwrap_or(0);
    let workload_width = tests.iter().map(|test| test.2.len()).max().unwrap_or(0);
    let mut out = io::stdout().lock();
    for (name, title, workload) in tests {
        writeln!(out, "{name:name_width$}  {workload:workload_width$}  {title}")?;
    }
    out.flush()
}

fn version() -> Result<(), CliError> {
    print(&json!({
        "load_generator": env!("CARGO_PKG_VERSION"),
        "data": {"nodes": NODES_VERSION},
        "tables": tables::VERSION,
    }))
}

/// Return the plan of the specification in a file; - is standard input.
fn plan(spec: &Path) -> Result<Plan, CliError> {
    let name = spec.display();
    let json = read(spec).map_err(|error| user_mistake(format!("{name}: {error}")))?;
    let mistake = |error: ValidationError| match line_of(&json, &error.key) {
        Some(line) => user_mistake(format!("{name}: line {line}, {error}")),
        None => user_mistake(format!("{name}: {error}")),
    };
    let spec = Spec::parse(&json).map_err(mistake)?;
    Plan::make(spec).map_err(mistake)
}

fn read(path: &Path) -> io::Result<String> {
    if path != Path::new("-") {
        return fs::read_to_string(path);
    }
    let mut json = String::new();
    io::stdin().read_to_string(&mut json)?;
    Ok(json)
}

fn print(value: &serde_json::Value) -> Result<(), CliError> {
    events::write_line(&mut io::stdout().lock(), value)
        .map_err(|error| output_problem("standard output", &error))
}

/// Return a flag that the first Ctrl-C or SIGTERM raises: what was measured so far is reported
/// then.
fn stopped_by_signals() -> Result<Arc<AtomicBool>, CliError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| host_problem(error.to_string()))?;
    }
    Ok(stop)
}

fn failed(Failed(failure): &Failed, message: String) -> CliError {
    CliError {
        message: Some(message),
        exit_status: if failure.is_interruption() { 130 } else { 1 },
    }
}

fn output_problem(name: &str, error: &io::Error) -> CliError {
    if error.kind() == ErrorKind::BrokenPipe {
        // The reader has enough; end as SIGPIPE ends other programs, 128 + 13.
        return CliError { message: None, exit_status: 141 };
    }
    host_problem(format!("cannot write {name}: {error}"))
}

fn host_problem(message: String) -> CliError {
    CliError { message: Some(message), exit_status: 1 }
}

fn user_mistake(message: String) -> CliError {
    CliError { message: Some(message), exit_status: 2 }
}
