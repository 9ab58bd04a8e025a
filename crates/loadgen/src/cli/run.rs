//! `millrace-load run`: carries a specification out.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;

use super::{Problem, failed, output_problem, stopped_by_signals, user_mistake};
use crate::events::{Events, JsonLines};
use crate::run::{self, Plan};
use crate::spec::Spec;

#[derive(Args)]
pub struct RunArgs {
    /// The specification, a JSON file; - reads standard input.
    spec: PathBuf,
}

pub fn run(args: &RunArgs) -> Result<(), Problem> {
    let name = args.spec.display();
    let mistake = |error: String| user_mistake(format!("{name}: {error}"));
    let json = read(&args.spec).map_err(|error| mistake(error.to_string()))?;
    let spec = Spec::parse(&json).map_err(|error| mistake(error.to_string()))?;
    let plan = Plan::make(spec).map_err(|error| mistake(error.to_string()))?;
    let stop = stopped_by_signals()?;
    let events = Events::new(JsonLines(io::stdout()), &stop);
    let outcome = run::run(plan, &events, &stop);
    if let Some(error) = events.take_lost() {
        return Err(output_problem("standard output", &error));
    }
    outcome.map_err(|error| failed(&error, error.0.to_string()))
}

fn read(path: &Path) -> io::Result<String> {
    if path != Path::new("-") {
        return fs::read_to_string(path);
    }
    let mut json = String::new();
    io::stdin().read_to_string(&mut json)?;
    Ok(json)
}
