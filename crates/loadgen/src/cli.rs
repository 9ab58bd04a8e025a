//! The command line: parses, calls, and turns errors into exit statuses.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::num::NonZero;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use clap::{Args, Parser, Subcommand};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::data::{self, MAX_ROWS, NODES_VERSION, Nodes};
use crate::events;
use crate::mysql::ClientError;
use crate::run::{self, Failed};
use crate::spec::Spec;

/// Why the program ends without success; no message where everything has been said.
pub struct Problem {
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
    /// Make a data set: the same seed gives the same bytes.
    Data {
        #[command(subcommand)]
        set: Set,
    },
    /// Run a specification and report as JSON lines.
    Run(RunArgs),
    /// Print the versions of this program and of its data sets as JSON.
    Version,
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
    /// What the values are drawn from.
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

#[derive(Args)]
struct RunArgs {
    /// The specification, a JSON file; - reads standard input.
    spec: PathBuf,
}

/// Parses the command line and does what it says.
pub fn main() -> Result<ExitCode, Problem> {
    let cli = Cli::parse();
    if cli.die_with_parent {
        prctl::set_pdeathsig(Signal::SIGKILL).map_err(|errno| host_problem(errno.to_string()))?;
    }
    match cli.command {
        Command::Data {
            set: Set::Nodes(args),
        } => nodes(&args),
        Command::Run(args) => run(&args),
        Command::Version => version(),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn nodes(args: &NodesArgs) -> Result<(), Problem> {
    let slice = slice(args)?;
    let threads = args
        .threads
        .or_else(|| thread::available_parallelism().ok())
        .map_or(1, NonZero::get);
    let nodes = Arc::new(Nodes::new(args.rows, args.seed));
    if args.checksum {
        let total = data::checksum(&nodes, &slice, threads);
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
    out.and_then(|out| data::write_all(&nodes, &slice, threads, out))
        .map_err(|error| output_problem(&name, &error))
}

fn slice(args: &NodesArgs) -> Result<Range<u64>, Problem> {
    let to = args.to.unwrap_or(args.rows);
    if args.from > to || to > args.rows {
        return Err(user_mistake(format!(
            "--from {} --to {to}: expected 0 <= from <= to <= {}, the number of rows",
            args.from, args.rows
        )));
    }
    Ok(args.from..to)
}

fn run(args: &RunArgs) -> Result<(), Problem> {
    let name = args.spec.display();
    let json = read_spec(&args.spec).map_err(|error| user_mistake(format!("{name}: {error}")))?;
    let spec = Spec::parse(&json).map_err(|error| user_mistake(format!("{name}: {error}")))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| host_problem(error.to_string()))?;
    }
    run::run(&spec, &stop).map_err(|Failed(error)| Problem {
        message: Some(error.to_string()),
        exit_status: if matches!(error, ClientError::Interrupted) {
            130
        } else {
            1
        },
    })
}

fn read_spec(path: &Path) -> io::Result<String> {
    if path != Path::new("-") {
        return fs::read_to_string(path);
    }
    let mut json = String::new();
    io::stdin().read_to_string(&mut json)?;
    Ok(json)
}

fn version() -> Result<(), Problem> {
    print(&json!({"load_generator": env!("CARGO_PKG_VERSION"), "data": {"nodes": NODES_VERSION}}))
}

fn print(value: &serde_json::Value) -> Result<(), Problem> {
    events::write_line(value).map_err(|error| output_problem("standard output", &error))
}

/// Standard output without the line buffer that Rust puts over it.
fn stdout() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

fn output_problem(name: &str, error: &io::Error) -> Problem {
    if error.kind() == ErrorKind::BrokenPipe {
        // The reader has enough; end as SIGPIPE ends other programs, 128 + 13.
        return Problem {
            message: None,
            exit_status: 141,
        };
    }
    host_problem(format!("cannot write {name}: {error}"))
}

fn host_problem(message: String) -> Problem {
    Problem {
        message: Some(message),
        exit_status: 1,
    }
}

fn user_mistake(message: String) -> Problem {
    Problem {
        message: Some(message),
        exit_status: 2,
    }
}
