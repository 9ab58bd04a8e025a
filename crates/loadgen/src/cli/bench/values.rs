//! Options that choose a workload's values.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};

use super::OPTIONS;
use super::parse::{CpuList, assignment, cpu_list};
use crate::builtin::Builtin;
use crate::cli::{CliError, user_mistake};
use workload::definition::Value;
use workload::program::Protocol;

#[derive(Args)]
#[command(next_help_heading = "Workload")]
pub(super) struct WorkloadOptions {
    /// Tables.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) tables: Option<u32>,
    /// Rows of each table.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) table_size: Option<u64>,
    /// Seed of data and statements: the same seed, the same statements.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) rand_seed: u64,
    /// Distribution of ids.
    #[arg(long, value_enum, value_name = "KIND")]
    pub(super) rand_type: Option<RandType>,
    /// The storage engine of the tables.
    #[arg(long, value_name = "ENGINE")]
    pub(super) mysql_storage_engine: Option<String>,
    /// auto: prepared statements; disable: statements as text [default: auto, but text for
    /// workloads whose model prepares nothing].
    #[arg(long, value_enum, value_name = "MODE")]
    pub(super) db_ps_mode: Option<PsMode>,
    /// Another value for a parameter of the workload; can be given several times.
    ///
    /// sysbench's own options for them do the same: `--range-size=10` is `--set range_size=10`.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub(super) set: Vec<(String, String)>,
}

#[derive(Args)]
#[command(next_help_heading = "Load generator")]
pub(super) struct GeneratorOptions {
    /// Threads of the load generator; 0 for one a processor, with --rate for one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) engine_threads: u32,
    /// Processors it may use, such as 0,2-3 [default: all].
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    pub(super) cpus: Option<CpuList>,
    /// Ask for answers over and over instead of sleeping until they come.
    #[arg(long)]
    pub(super) busy_poll: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum PsMode {
    Auto,
    Disable,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum RandType {
    Uniform,
    #[value(alias = "gaussian")]
    Normal,
    Special,
    Pareto,
    #[value(alias = "zipfian")]
    Zipf,
    ZipfScrambled,
    Latest,
}

impl WorkloadOptions {
    pub(super) fn protocol(&self, builtin: &Builtin) -> Protocol {
        let by_default = match builtin.defaults.get("protocol") {
            Some(Value::Text(name)) if name == "text" => Protocol::Text,
            _ => Protocol::Prepared,
        };
        match self.db_ps_mode {
            Some(PsMode::Auto) => Protocol::Prepared,
            Some(PsMode::Disable) => Protocol::Text,
            None => by_default,
        }
    }

    pub(super) fn values(&self, builtin: &Builtin) -> Result<BTreeMap<String, Value>, CliError> {
        let mut values = BTreeMap::new();
        let options = [
            ("tables", "--tables", self.tables.map(|n| n.to_string())),
            ("table_size", "--table-size", self.table_size.map(|n| n.to_string())),
            (
                "distribution",
                "--rand-type",
                self.rand_type
                    .and_then(|kind| Some(kind.to_possible_value()?.get_name().to_owned())),
            ),
            ("engine", "--mysql-storage-engine", self.mysql_storage_engine.clone()),
        ];
        for (name, option, text) in options {
            if let Some(text) = text {
                values.insert(name.to_owned(), value(builtin, name, option, &text)?);
            }
        }
        for (name, text) in &self.set {
            if let Some((_, option)) = OPTIONS.iter().find(|(known, _)| known == name) {
                let message = format!("--set {name}={text}: that is what {option} is for");
                return Err(user_mistake(message));
            }
            let value = value(builtin, name, "--set", text)?;
            if values.insert(name.clone(), value).is_some() {
                return Err(user_mistake(format!("{name} has been set twice")));
            }
        }
        Ok(values)
    }
}

/// Some workloads have a table for each client; tables have the server's own format.
pub(super) fn with_implied(
    mut defaults: BTreeMap<String, Value>,
    clients: u32,
) -> BTreeMap<String, Value> {
    defaults.insert("clients".to_owned(), Value::Integer(clients.into()));
    defaults.insert("table_options".to_owned(), Value::Text(String::new()));
    defaults
}

/// Read a value as what the workload's own default is, and check that it is offered.
fn value(builtin: &Builtin, name: &str, option: &str, text: &str) -> Result<Value, CliError> {
    let (Some(default), Some(variable)) = (builtin.defaults.get(name), builtin.variables.get(name))
    else {
        let known: Vec<&str> = builtin.defaults.keys().map(String::as_str).collect();
        return Err(user_mistake(format!(
            "{option}: {} has no parameter {name}; it has {}",
            builtin.name,
            known.join(", ")
        )));
    };
    let read = match default {
        Value::Boolean(_) => switch(text).map(Value::Boolean),
        Value::Integer(_) => text.parse().ok().map(Value::Integer),
        Value::Float(_) => text.parse().ok().map(Value::Float),
        Value::Text(_) => Some(Value::Text(text.to_owned())),
    };
    let kind = match default {
        Value::Boolean(_) => "on or off",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a number",
        Value::Text(_) => "a text",
    };
    let value =
        read.ok_or_else(|| user_mistake(format!("{option}: {name} is {kind}, not {text:?}")))?;
    let typed = match option {
        "--set" => format!("--set {name}"),
        option => option.to_owned(),
    };
    variable.check(&value, &typed).map_err(|mistake| user_mistake(mistake.to_string()))?;
    Ok(value)
}

/// Write a switch as sysbench does, or as workloads do.
fn switch(text: &str) -> Option<bool> {
    match text {
        "on" | "true" => Some(true),
        "off" | "false" => Some(false),
        _ => None,
    }
}
