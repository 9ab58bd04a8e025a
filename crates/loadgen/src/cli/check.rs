//! `millrace-load check`: the mistakes of a workload.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::{CliError, print, read, user_mistake};
use crate::check::mistakes;

#[derive(Args)]
pub struct CheckArgs {
    /// The workload and the runs that it is for, a JSON file; - reads standard input.
    file: PathBuf,
}

pub fn check(args: &CheckArgs) -> Result<(), CliError> {
    let name = args.file.display();
    let json = read(&args.file).map_err(|error| user_mistake(format!("{name}: {error}")))?;
    let found = mistakes(&json).map_err(|error| user_mistake(format!("{name}: {error}")))?;
    let found: Vec<Value> = found
        .into_iter()
        .map(|mistake| json!({"key": mistake.key, "message": mistake.message}))
        .collect();
    print(&json!({ "mistakes": found }))
}
