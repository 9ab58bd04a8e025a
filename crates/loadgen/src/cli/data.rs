//! `millrace-load data`: makes a data set, or its checksum.

use std::fs::File;
use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use clap::{Args, Subcommand};
use serde_json::json;

use super::{CliError, output_problem, print, user_mistake};
use datagen::{MAX_ROWS, NODES_VERSION, Nodes};

#[derive(Subcommand)]
pub enum Set {
    /// Points of a map: tab-separated id, lat, lon, version, timestamp, changeset, uid, user.
    Nodes(NodesArgs),
}

#[derive(Args)]
pub struct NodesArgs {
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

pub fn make(set: &Set) -> Result<(), CliError> {
    let Set::Nodes(args) = set;
    let slice = slice(args)?;
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

fn slice(args: &NodesArgs) -> Result<Range<u64>, CliError> {
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
