//! The command line: parses, calls, and turns errors into exit statuses.

mod bench;
mod histogram;

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::num::NonZero;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, Parser, Subcommand};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::builtin;
use crate::check::mistakes;
use crate::cpu_idle::{self, DisabledIdleStates};
use crate::events::{self, Events, JsonLines};
use crate::run::{self, Failure, Plan};
use crate::spec::{Spec, line_of};
use datagen::{MAX_ROWS, NODES_VERSION, Nodes};
use protocol::shown::shown_line;
use sampler::{Message, Settings, ThreadsError};
use workload::tables;
use workload::validation::{ValidationError, nearest};

/// Why the program ends without success; no message where everything has been said.
pub struct CliError {
    pub message: Option<String>,
    pub exit_status: u8,
}

/// More often, ticks would run into each other.
const MAX_RATE_HZ: f64 = 10_000.0;

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
    Check {
        /// The workload and the runs that it is for, a JSON file; - reads standard input.
        file: PathBuf,
    },
    /// Make a data set: the same seed gives the same bytes.
    Data {
        #[command(subcommand)]
        set: Set,
    },
    /// Merge the histograms of results and print percentiles.
    Histogram(histogram::HistogramArgs),
    /// Run a specification and report as JSON lines.
    Run {
        /// The specification, a JSON file; - reads standard input.
        spec: PathBuf,
    },
    /// Print the statements that the clients of a specification will ask, as JSON.
    Statements {
        /// The specification, a JSON file; - reads standard input.
        spec: PathBuf,
    },
    /// Measure how long each CPU takes to wake with idle states enabled and disabled; print JSON.
    IdleLatency(IdleLatencyArgs),
    /// Disable idle states of all CPUs until standard input ends; print the method as JSON at once.
    DisableIdleStates,
    /// Sample what the threads of a process do, from the line `begin` on standard input to the line
    /// `end`; print it as JSON.
    Threads(ThreadsArgs),
    /// List the tests that `bench` can run.
    Tests {
        /// As one JSON array.
        #[arg(long)]
        json: bool,
    },
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
        Command::Check { file } => check(&file),
        Command::Data { set } => make_data(&set),
        Command::Histogram(args) => histogram::print(&args),
        Command::Run { spec } => run_spec(&spec),
        Command::Statements { spec } => list_statements(&spec),
        Command::IdleLatency(args) => measure_idle_latency(&args),
        Command::DisableIdleStates => disable_idle_states(),
        Command::Threads(args) => sample(&args),
        Command::Tests { json } => list_tests(json),
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

fn check(file: &Path) -> Result<(), CliError> {
    let wrong = |error: &dyn Display| user_mistake(format!("{}: {error}", file.display()));
    let json = read(file).map_err(|error| wrong(&error))?;
    let found = mistakes(&json).map_err(|error| wrong(&error))?;
    let written = |each: &ValidationError| json!({"key": each.key, "message": each.message});
    print(&json!({ "mistakes": found.iter().map(written).collect::<Vec<_>>() }))
}

fn run_spec(spec: &Path) -> Result<(), CliError> {
    let plan = plan(spec)?;
    let stop = stopped_by_signals()?;
    let events = Events::new(JsonLines(io::stdout()), &stop);
    let outcome = run::run(plan, &events, &stop);
    if let Some(error) = events.take_lost() {
        return Err(output_problem("standard output", &error));
    }
    outcome.map_err(|failure| failed(&failure, shown_line(&failure.to_string()).into_owned()))
}

fn list_statements(spec: &Path) -> Result<(), CliError> {
    let statements: Map<String, Value> = plan(spec)?
        .statements()
        .into_iter()
        .map(|(name, sql)| (name, Value::String(sql)))
        .collect();
    print(&json!({ "statements": statements }))
}

fn list_tests(as_json: bool) -> Result<(), CliError> {
    let workloads = builtin::all();
    let tests: Vec<(&str, &str, &str)> = workloads
        .iter()
        .flat_map(|workload| {
            let tests = workload.definition.tests.iter();
            tests.map(|(name, test)| (name.as_str(), test.title.as_str(), workload.name.as_str()))
        })
        .collect();
    if as_json {
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

#[derive(Subcommand)]
enum Set {
    /// Points of a map: tab-separated id, lat, lon, version, timestamp, changeset, uid, user.
    Nodes(NodesArgs),
}

#[derive(Args)]
struct NodesArgs {
    /// Rows of the whole set.
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=MAX_ROWS))]
    rows: u64,
    /// Seed of the values.
    #[arg(long)]
    seed: u64,
    /// The first row to make, counted from 0.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// The row to stop before [default: the number of rows].
    #[arg(long)]
    to: Option<u64>,
    /// Threads to use [default: as many as there are processors].
    #[arg(long)]
    threads: Option<NonZero<usize>>,
    /// Write to this file instead of standard output.
    #[arg(long, conflicts_with = "checksum")]
    output: Option<PathBuf>,
    /// Print rows, bytes and checksum as JSON instead of the data.
    ///
    /// The checksum is the sum over the rows of the CRC-32 of the row without its newline.
    #[arg(long)]
    checksum: bool,
}

fn make_data(set: &Set) -> Result<(), CliError> {
    let Set::Nodes(args) = set;
    let slice = rows_to_make(args)?;
    let threads =
        args.threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get);
    let nodes = Arc::new(Nodes::new(args.rows, args.seed));
    if args.checksum {
        let total = datagen::checksum(nodes.as_ref(), &slice, threads);
        return print(&json!({
            "rows": total.rows,
            "bytes": total.bytes,
            "checksum": total.sum.to_string(),
            "data_version": NODES_VERSION,
        }));
    }
    let (out, name) = match &args.output {
        Some(path) => (File::create(path), path.display().to_string()),
        None => (stdout(), "standard output".to_owned()),
    };
    out.and_then(|out| datagen::write_all(&nodes, &slice, threads, out))
        .map_err(|error| output_problem(&name, &error))
}

fn rows_to_make(args: &NodesArgs) -> Result<Range<u64>, CliError> {
    let to = args.to.unwrap_or(args.rows);
    if args.from > to || to > args.rows {
        return Err(user_mistake(format!(
            "--from {} --to {to}: expected 0 <= from <= to <= {}, the number of rows",
            args.from, args.rows
        )));
    }
    Ok(args.from..to)
}

/// Standard output without the line buffer that Rust puts over it.
fn stdout() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

#[derive(Args)]
struct ThreadsArgs {
    /// The process.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pid: u32,
    /// Samples a second, at most.
    #[arg(long, value_name = "HZ", default_value_t = 100.0,
          value_parser = |text: &str| number_up_to(MAX_RATE_HZ, text))]
    rate: f64,
    /// The share of one CPU that looking may take; it is done less often where that is too little.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.01,
          value_parser = |text: &str| number_up_to(1.0, text))]
    budget: f64,
}

fn sample(args: &ThreadsArgs) -> Result<(), CliError> {
    let settings = Settings { pid: args.pid, rate_hz: args.rate, budget: args.budget };
    let mut out = io::stdout().lock();
    let emit = |message: &Message| events::write_line(&mut out, message);
    sampler::run(settings, io::stdin(), emit).map_err(|error| match error {
        ThreadsError::Command(..) => user_mistake(format!("standard input: {error}")),
        ThreadsError::Output(error) => output_problem("standard output", &error),
        error => host_problem(error.to_string()),
    })
}

fn number_up_to(most: f64, text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number| *number > 0.0 && *number <= most)
        .ok_or_else(|| format!("expected a number above 0 and up to {most}"))
}

#[derive(Args)]
struct IdleLatencyArgs {
    /// Wake-ups to measure on each CPU, in each state.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    samples: u32,
}

fn measure_idle_latency(args: &IdleLatencyArgs) -> Result<(), CliError> {
    let samples = args.samples as usize;
    let failed = |error: io::Error| host_problem(format!("cannot measure wake-ups: {error}"));
    let enabled = cpu_idle::measure(samples).map_err(failed)?;
    let awake =
        DisabledIdleStates::keep(&cpu_idle::allowed_cpus().map_err(failed)?).map_err(failed)?;
    let disabled = cpu_idle::measure(samples).map_err(failed)?;
    print(&json!({
        "idle_states_enabled": enabled,
        "idle_states_disabled": disabled,
        "method": awake.method,
    }))
}

fn disable_idle_states() -> Result<(), CliError> {
    let failed = |error: io::Error| host_problem(format!("cannot keep CPUs awake: {error}"));
    cpu_idle::yield_to_other_sessions();
    let awake =
        DisabledIdleStates::keep(&cpu_idle::allowed_cpus().map_err(failed)?).map_err(failed)?;
    print(&json!(awake.method))?;
    io::copy(&mut io::stdin(), &mut io::sink()).map_err(failed)?;
    Ok(())
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

/// Return a flag that Ctrl-C or SIGTERM raises, after which the results so far are reported.
fn stopped_by_signals() -> Result<Arc<AtomicBool>, CliError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| host_problem(error.to_string()))?;
    }
    Ok(stop)
}

fn failed(failure: &Failure, message: String) -> CliError {
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
