//! `millrace-load bench`: the options, by sysbench's names where it has them.

mod options;
mod parse;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{CliError, failed, output_problem, stopped_by_signals, user_mistake};
use crate::bench::{self, BenchError, Command, ScreenOptions, Settings};
use crate::builtin::{self, Builtin};
use crate::spec::{Drive, RETRY, Workload};
use engine::{Arrivals, DriveSettings, End, IDLE_TIMEOUT, Pacing, Warmup};
use protocol::mysql::{Address, Login, Tls, TlsMode};
use workload::definition::Value;
use workload::program::Protocol;

pub use options::with_parameters;
pub use parse::percentile;

use parse::{CpuList, assignment, cpu_list, positive_seconds, rate, seconds, warmup};

/// The default length of a measurement, as in sysbench.
const DEFAULT_TIME: Duration = Duration::from_secs(10);

/// A silent server is waited for so long where no time is to end the measurement.
const UNTIMED_IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// A server may take so long to fill a table, to make an index or to drop a table.
const TABLES_IDLE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Parameters with an option of their own, which `--set` leaves to it.
const OPTIONS: [(&str, &str); 9] = [
    ("clients", "--threads"),
    ("data_seed", "--rand-seed"),
    ("max_lateness_s", "--max-lateness"),
    ("operations", "--events"),
    ("protocol", "--db-ps-mode"),
    ("rate", "--rate"),
    ("test", "--workload"),
    ("time_s", "--time"),
    ("warmup_s", "--warmup-time"),
];

#[derive(Args)]
pub struct BenchArgs {
    /// Fill the tables, measure, or drop the tables.
    #[arg(value_enum, default_value_t = Action::Run)]
    command: Action,

    /// The test, as `millrace-load tests` lists them; a workload's name stands for its default test.
    #[arg(long, value_name = "TEST")]
    workload: String,

    /// Clients that are connected and work at the same time (`prepare`: connections that load).
    ///
    /// The name is sysbench's; there is a thread for each only with sysbench.
    #[arg(long, visible_alias = "connections", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    threads: u32,
    /// Seconds to measure; 0 for no limit, where --events sets one [default: 10, no limit with
    /// --events].
    #[arg(long, value_name = "S", value_parser = seconds)]
    time: Option<Duration>,
    /// Transactions to measure, of all clients together; 0 for no limit.
    #[arg(long, value_name = "N", default_value_t = 0)]
    events: u64,
    /// Transactions a second, of all clients together; 0 for as fast as they can.
    ///
    /// Latency then counts from when a transaction was due, not from when it was sent.
    #[arg(long, value_name = "N", default_value_t = 0.0, value_parser = rate)]
    rate: f64,
    /// Distribution of the gaps between transactions, with --rate.
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Gaps::Poisson)]
    arrivals: Gaps,
    /// Skip a transaction that is late by more than this number of seconds, with --rate.
    #[arg(long, value_name = "S", value_parser = seconds)]
    max_lateness: Option<Duration>,
    /// Seconds to run before the measurement; `steady` for until the throughput is.
    #[arg(long, value_name = "S|steady", default_value = "0", value_parser = warmup)]
    warmup_time: Warmup,
    /// Seconds between reports while it runs; 0 for none.
    #[arg(long, value_name = "S", default_value_t = 1)]
    report_interval: u32,
    /// Percentiles of the latency to print besides the usual ones.
    #[arg(long, value_name = "P", value_delimiter = ',', value_parser = percentile)]
    percentile: Vec<f64>,
    /// Print the histogram of the latencies too.
    #[arg(long)]
    histogram: bool,
    /// Give up on a server that is silent for this number of seconds although it owes an answer
    /// [default: run: as long as --time, at least 60, without a time 600; prepare and cleanup: 3600].
    #[arg(long, value_name = "S", value_parser = positive_seconds)]
    idle_timeout: Option<Duration>,
    /// Write the result as JSON lines to this file; - for standard output, the rest then goes to
    /// standard error.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    #[command(flatten)]
    workload_options: WorkloadOptions,
    #[command(flatten)]
    generator: GeneratorOptions,
    #[command(flatten)]
    server: ServerOptions,
}

#[derive(Args)]
#[command(next_help_heading = "Workload")]
struct WorkloadOptions {
    /// Tables.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tables: Option<u32>,
    /// Rows of each table.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    table_size: Option<u64>,
    /// Seed of data and statements: the same seed, the same statements.
    #[arg(long, value_name = "N", default_value_t = 1)]
    rand_seed: u64,
    /// Distribution of ids.
    #[arg(long, value_enum, value_name = "KIND")]
    rand_type: Option<RandType>,
    /// The storage engine of the tables.
    #[arg(long, value_name = "ENGINE")]
    mysql_storage_engine: Option<String>,
    /// auto: prepared statements; disable: statements as text [default: auto, but text for
    /// workloads whose model prepares nothing].
    #[arg(long, value_enum, value_name = "MODE")]
    db_ps_mode: Option<PsMode>,
    /// Another value for a parameter of the workload; can be given several times.
    ///
    /// sysbench's own options for them do the same: `--range-size=10` is `--set range_size=10`.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
}

#[derive(Args)]
#[command(next_help_heading = "Load generator")]
struct GeneratorOptions {
    /// Threads of the load generator; 0 for one a processor, with --rate for one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    engine_threads: u32,
    /// Processors it may use, such as 0,2-3 [default: all].
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<CpuList>,
    /// Ask for answers over and over instead of sleeping until they come.
    #[arg(long)]
    busy_poll: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum PsMode {
    Auto,
    Disable,
}

#[derive(Clone, Copy, ValueEnum)]
enum RandType {
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

#[derive(Args)]
#[command(next_help_heading = "Server")]
struct ServerOptions {
    #[arg(long, visible_alias = "mysql-host", value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    #[arg(long, visible_alias = "mysql-port", value_name = "PORT", default_value_t = 3306)]
    port: u16,
    /// The server's socket file, instead of host and port.
    #[arg(long, visible_alias = "mysql-socket", value_name = "FILE", conflicts_with_all = ["host", "port"])]
    socket: Option<PathBuf>,
    #[arg(long, visible_alias = "mysql-user", value_name = "NAME", default_value = "sbtest")]
    user: String,
    /// Others can read a command line: the environment is the better place.
    #[arg(
        long,
        visible_alias = "mysql-password",
        value_name = "TEXT",
        env = "MYSQL_PWD",
        hide_env_values = true,
        default_value = ""
    )]
    password: String,
    #[arg(long, visible_alias = "mysql-db", value_name = "NAME", default_value = "sbtest")]
    database: String,
    /// Encrypt: disabled, required, verify-ca or verify-identity [default: verify-identity for a
    /// host other than this one, else disabled]
    #[arg(long, visible_alias = "mysql-ssl", value_enum, value_name = "MODE",
          num_args = 0..=1, default_missing_value = "required",
          require_equals = true, ignore_case = true)]
    tls: Option<TlsChoice>,
    /// PEM file with the authorities that the server's certificate is verified against; verify-ca
    /// needs it [default: those that this host trusts]
    #[arg(long, visible_alias = "mysql-ssl-ca", value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Give the password to a server that nothing verifies: by the key that it sends, or inside TLS
    /// with any certificate.
    #[arg(long)]
    allow_unverified: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum TlsChoice {
    #[value(alias = "off")]
    Disabled,
    #[value(alias = "on")]
    Required,
    #[value(alias = "verify_ca")]
    VerifyCa,
    #[value(alias = "verify_identity")]
    VerifyIdentity,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Action {
    Prepare,
    Run,
    Cleanup,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Gaps {
    Poisson,
    Constant,
}

pub fn bench(args: BenchArgs) -> Result<(), CliError> {
    let settings = args.settings()?;
    let stop = stopped_by_signals()?;
    bench::bench(settings, &stop).map_err(|error| match error {
        BenchError::ValidationError(mistake) => user_mistake(mistake.to_string()),
        BenchError::Output(name, error) => output_problem(&name, &error),
        BenchError::Failed { failure, message } => failed(&failure, message),
    })
}

impl BenchArgs {
    /// Check what the options mean together.
    fn settings(self) -> Result<Settings, CliError> {
        let (builtin, test) = builtin::find(&self.workload).map_err(user_mistake)?;
        let values = self.workload_options.values(&builtin)?;
        let login = self.server.login()?;
        let idle_timeout = self.idle_timeout()?;
        let command = match self.command {
            Action::Prepare => Command::Prepare { connections: self.threads },
            Action::Cleanup => Command::Cleanup,
            Action::Run => Command::Run(Box::new(Drive {
                maintenance: Vec::new(),
                test: test.clone(),
                protocol: self.workload_options.protocol(&builtin),
                pings: 0,
                primary: true,
                settings: self.clients()?,
            })),
        };
        Ok(Settings {
            command,
            login,
            title: builtin.definition.tests[&test].title.clone(),
            workload_name: builtin.name,
            test,
            workload: Workload {
                definition: builtin.definition,
                defaults: with_implied(builtin.defaults, self.threads),
                values,
                seed: self.workload_options.rand_seed,
            },
            screen_options: ScreenOptions {
                interval_s: self.report_interval,
                percentiles: self.percentile,
                histogram: self.histogram,
            },
            idle_timeout,
            json: self.json,
        })
    }

    fn clients(&self) -> Result<DriveSettings, CliError> {
        let cpus = self.generator.cpus.as_ref();
        let cpus = cpus.map_or_else(Vec::new, |CpuList(cpus)| cpus.clone());
        if let Some(cpu) = engine::first_unusable_cpu(&cpus) {
            let message = format!("--cpus: this host has no CPU {cpu} that may be used");
            return Err(user_mistake(message));
        }
        Ok(DriveSettings {
            pacing: self.pacing()?,
            warmup: self.warmup_time,
            retry: RETRY.to_vec(),
            busy_poll: self.generator.busy_poll,
            cpus,
            idle_timeout: self.idle_timeout()?,
            seed: self.workload_options.rand_seed,
            ..DriveSettings::closed_loop(self.threads, self.generator.engine_threads, self.end()?)
        })
    }

    fn idle_timeout(&self) -> Result<Duration, CliError> {
        Ok(match (self.idle_timeout, self.command) {
            (Some(idle_timeout), _) => idle_timeout,
            (None, Action::Run) => idle_timeout(self.end()?),
            (None, Action::Prepare | Action::Cleanup) => TABLES_IDLE_TIMEOUT,
        })
    }

    fn pacing(&self) -> Result<Pacing, CliError> {
        if self.rate > 0.0 {
            return Ok(Pacing::Open {
                rate: self.rate,
                arrivals: match self.arrivals {
                    Gaps::Poisson => Arrivals::Poisson,
                    Gaps::Constant => Arrivals::Constant,
                },
                max_lateness: self.max_lateness.filter(|limit| !limit.is_zero()),
            });
        }
        if self.max_lateness.is_some() || self.arrivals != Gaps::Poisson {
            return Err(user_mistake(
                "--max-lateness and --arrivals are about a schedule: say --rate too".to_owned(),
            ));
        }
        Ok(Pacing::Closed)
    }

    fn end(&self) -> Result<End, CliError> {
        match (self.time, self.events) {
            (None, 0) => Ok(End::Time(DEFAULT_TIME)),
            (Some(Duration::ZERO), 0) => {
                Err(user_mistake("--time 0 without --events: it would never end".to_owned()))
            }
            (Some(time), 0) => Ok(End::Time(time)),
            (None | Some(Duration::ZERO), events) => Ok(End::Operations(events)),
            (Some(time), events) => Ok(End::Either(time, events)),
        }
    }
}

/// Return the longest silence of a server of a measurement: a statement may take as long as that.
fn idle_timeout(end: End) -> Duration {
    match end {
        End::Time(time) | End::Either(time, _) => time.max(IDLE_TIMEOUT),
        End::Operations(_) => UNTIMED_IDLE_TIMEOUT,
    }
}

impl WorkloadOptions {
    fn protocol(&self, builtin: &Builtin) -> Protocol {
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

    fn values(&self, builtin: &Builtin) -> Result<BTreeMap<String, Value>, CliError> {
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
fn with_implied(mut defaults: BTreeMap<String, Value>, clients: u32) -> BTreeMap<String, Value> {
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
    let (read, kind) = match default {
        Value::Boolean(_) => (switch(text).map(Value::Boolean), "on or off"),
        Value::Integer(_) => (text.parse().ok().map(Value::Integer), "an integer"),
        Value::Float(_) => (text.parse().ok().map(Value::Float), "a number"),
        Value::Text(_) => (Some(Value::Text(text.to_owned())), "a text"),
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

impl ServerOptions {
    fn login(&self) -> Result<Login, CliError> {
        let address = match &self.socket {
            Some(path) => Address::Socket(path.clone()),
            None => Address::Tcp { host: self.host.clone(), port: self.port },
        };
        let mode = match self.tls {
            None => TlsMode::default_for(&address),
            Some(TlsChoice::Disabled) => TlsMode::Disabled,
            Some(TlsChoice::Required) => TlsMode::Required,
            Some(TlsChoice::VerifyCa) => TlsMode::VerifyCa,
            Some(TlsChoice::VerifyIdentity) => TlsMode::VerifyIdentity,
        };
        if matches!(mode, TlsMode::Disabled | TlsMode::Required) && self.tls_ca.is_some() {
            return Err(user_mistake(
                "--tls-ca verifies with --tls=verify-ca or --tls=verify-identity only".to_owned(),
            ));
        }
        let tls = Tls::new(mode, self.tls_ca.as_deref())
            .map_err(|error| user_mistake(format!("--tls-ca: {error}")))?;
        Ok(Login {
            address,
            user: self.user.clone(),
            password: self.password.clone(),
            database: Some(self.database.clone()),
            tls,
            allow_unverified: self.allow_unverified,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_be_silent_for_as_long_as_is_measured() {
        let seconds = Duration::from_secs;
        assert_eq!(idle_timeout(End::Time(DEFAULT_TIME)), seconds(60));
        assert_eq!(idle_timeout(End::Time(seconds(300))), seconds(300));
        assert_eq!(idle_timeout(End::Either(seconds(300), 5)), seconds(300));
        assert_eq!(idle_timeout(End::Operations(5)), seconds(600));
    }
}
