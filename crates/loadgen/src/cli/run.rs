//! `millrace-load run` and `statements`: execute a specification, or list what its clients will ask.

use std::io;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};

use super::{CliError, failed, output_problem, plan, print, stopped_by_signals};
use crate::events::{Events, JsonLines};
use crate::run;
use protocol::shown::shown_line;

#[derive(Args)]
pub struct RunArgs {
    /// The specification, a JSON file; - reads standard input.
    spec: PathBuf,
}

pub fn run(args: &RunArgs) -> Result<(), CliError> {
    let plan = plan(&args.spec)?;
    let stop = stopped_by_signals()?;
    let events = Events::new(JsonLines(io::stdout()), &stop);
    let outcome = run::run(plan, &events, &stop);
    if let Some(error) = events.take_lost() {
        return Err(output_problem("standard output", &error));
    }
    outcome.map_err(|error| failed(&error, shown_line(&error.0.to_string()).into_owned()))
}

#[derive(Args)]
pub struct StatementsArgs {
    /// The specification, a JSON file; - reads standard input.
    spec: PathBuf,
}

pub fn list_statements(args: &StatementsArgs) -> Result<(), CliError> {
    let statements: Map<String, Value> = plan(&args.spec)?
        .statements()
        .into_iter()
        .map(|(name, sql)| (name, Value::String(sql)))
        .collect();
    print(&json!({ "statements": statements }))
}
