//! `millrace-load tests`: what `bench` can run.

use std::io::{self, Write};

use clap::Args;
use serde_json::json;

use super::{CliError, output_problem, print};
use crate::builtin;

#[derive(Args)]
pub struct TestsArgs {
    /// As one JSON array.
    #[arg(long)]
    json: bool,
}

pub fn tests(args: &TestsArgs) -> Result<(), CliError> {
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
