//! `millrace-load histogram`: merges the histograms of results.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Deserializer, Value};

use super::bench::percentile;
use super::{CliError, output_problem, user_mistake};
use crate::bench::{histogram_lines, latency_heads, latency_row, percentiles, table};
use crate::events::write_line;
use engine::Latencies;
use protocol::shown::shown_line;

#[derive(Args)]
pub struct HistogramArgs {
    /// Results: the JSON lines of `run` or of `bench --json`.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Percentiles to print besides the usual ones.
    #[arg(long, value_name = "P", value_delimiter = ',', value_parser = percentile)]
    percentile: Vec<f64>,
    /// Draw the histograms too.
    #[arg(long, conflicts_with = "json")]
    histogram: bool,
    /// As JSON lines, with the merged histograms.
    #[arg(long)]
    json: bool,
}

/// A merged histogram as a line of JSON.
#[derive(Serialize)]
struct MergedHistogram<'a> {
    phase: &'a str,
    of: &'a str,
    name: &'a str,
    time: &'a str,
    percentiles_s: BTreeMap<String, Option<f64>>,
    #[serde(flatten)]
    latencies: &'a Latencies,
}

/// The event of a phase that drove clients, as far as it is wanted here.
#[derive(Deserialize)]
struct DriveResult {
    name: String,
    transactions: Vec<Record>,
    statements: Vec<Record>,
}

#[derive(Deserialize)]
struct Record {
    name: String,
    service: Latencies,
    response: Option<Latencies>,
}

/// Phase; transaction or statement; its name; service or response.
type Key = (String, &'static str, String, &'static str);

pub fn print(args: &HistogramArgs) -> Result<(), CliError> {
    let mut merged: BTreeMap<Key, Latencies> = BTreeMap::new();
    for path in &args.files {
        let found =
            read(path).map_err(|what| user_mistake(format!("{}: {what}", path.display())))?;
        for (key, latencies) in found {
            merged.entry(key).or_default().merge(&latencies);
        }
    }
    let percentiles = percentiles(&args.percentile);
    let written = if args.json {
        json_lines(&merged, &percentiles)
    } else {
        report(&merged, &percentiles, args.histogram)
    };
    written.map_err(|error| output_problem("standard output", &error))
}

fn read(path: &Path) -> Result<Vec<(Key, Latencies)>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for value in Deserializer::from_reader(BufReader::new(file)).into_iter::<Value>() {
        let value = value.map_err(|error| format!("this is not JSON: {error}"))?;
        if value["type"] == "phase" && value["kind"] == "drive" {
            let driven = serde_json::from_value(value)
                .map_err(|error| format!("this is not a result of this program: {error}"))?;
            found.extend(histograms(driven));
        }
    }
    if found.is_empty() {
        return Err("it has no result of a phase that drove clients".to_owned());
    }
    Ok(found)
}

fn histograms(driven: DriveResult) -> impl Iterator<Item = (Key, Latencies)> {
    let phase = driven.name;
    let transactions = driven.transactions.into_iter().map(|record| ("transaction", record));
    let statements = driven.statements.into_iter().map(|record| ("statement", record));
    transactions.chain(statements).flat_map(move |(of, record)| {
        let key = |time| (phase.clone(), of, record.name.clone(), time);
        let service = (key("service"), record.service);
        let response = record.response.map(|response| (key("response"), response));
        [Some(service), response].into_iter().flatten()
    })
}

fn json_lines(merged: &BTreeMap<Key, Latencies>, percentiles: &[f64]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for ((phase, of, name, time), latencies) in merged {
        let values = percentiles
            .iter()
            .map(|&percentile| (percentile.to_string(), latencies.percentile_s(percentile)));
        let line =
            MergedHistogram { phase, of, name, time, percentiles_s: values.collect(), latencies };
        write_line(&mut out, &line)?;
    }
    Ok(())
}

fn report(
    merged: &BTreeMap<Key, Latencies>,
    percentiles: &[f64],
    with_drawings: bool,
) -> io::Result<()> {
    let heads = ["Latency (ms)", "of", "name", "time"];
    let mut rows = vec![latency_heads(&heads, percentiles)];
    rows.extend(merged.iter().map(|((phase, of, name, time), latencies)| {
        latency_row(&[phase.as_str(), of, name, time], latencies, percentiles)
    }));
    let mut out = io::stdout().lock();
    out.write_all(table(&rows).as_bytes())?;
    if with_drawings {
        for ((phase, of, name, time), latencies) in merged {
            let lines = histogram_lines(latencies.histogram());
            let heading = format!("{phase}, {of} {name}, {time} time");
            write!(out, "\n  {}\n{lines}", shown_line(&heading))?;
        }
    }
    out.flush()
}
