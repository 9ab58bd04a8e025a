//! `millrace-load statements`: what the clients of a specification will ask.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};

use super::{Problem, plan, print};

#[derive(Args)]
pub struct StatementsArgs {
    /// The specification, a JSON file; - reads standard input.
    spec: PathBuf,
}

pub fn list(args: &StatementsArgs) -> Result<(), Problem> {
    let statements: Map<String, Value> = plan(&args.spec)?
        .statements()
        .into_iter()
        .map(|(name, sql)| (name, Value::String(sql)))
        .collect();
    print(&json!({ "statements": statements }))
}
