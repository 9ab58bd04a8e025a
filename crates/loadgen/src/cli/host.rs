//! `millrace-load threads`, `idle-latency` and `disable-idle-states`: sample the threads of a process;
//! measure how long idle CPUs take to wake, and keep them awake.

use std::io;

use clap::Args;
use serde_json::json;

use super::{CliError, host_problem, output_problem, print, user_mistake};
use crate::cpu_idle::{self, DisabledIdleStates};
use crate::events::write_line;
use sampler::{Message, Settings, ThreadsError};

/// More often, ticks would run into each other.
const MAX_RATE_HZ: f64 = 10_000.0;

#[derive(Args)]
pub struct ThreadsArgs {
    /// The process.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pid: u32,
    /// Samples a second, at most.
    #[arg(long, value_name = "HZ", default_value_t = 100.0, value_parser = rate)]
    rate: f64,
    /// The share of one CPU that looking may take; it is done less often where that is too little.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.01, value_parser = budget)]
    budget: f64,
}

pub fn sample(args: &ThreadsArgs) -> Result<(), CliError> {
    let settings = Settings { pid: args.pid, rate_hz: args.rate, budget: args.budget };
    let mut out = io::stdout().lock();
    let emit = |message: &Message| write_line(&mut out, message);
    sampler::run(settings, io::stdin(), emit).map_err(|error| match error {
        ThreadsError::Command(..) => user_mistake(format!("standard input: {error}")),
        ThreadsError::Output(error) => output_problem("standard output", &error),
        error => host_problem(error.to_string()),
    })
}

fn rate(text: &str) -> Result<f64, String> {
    number_up_to(MAX_RATE_HZ, text)
}

fn budget(text: &str) -> Result<f64, String> {
    number_up_to(1.0, text)
}

fn number_up_to(most: f64, text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number| *number > 0.0 && *number <= most)
        .ok_or_else(|| format!("expected a number above 0 and up to {most}"))
}

#[derive(Args)]
pub struct IdleLatencyArgs {
    /// Wake-ups to measure on each CPU, in each state.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    samples: u32,
}

pub fn measure_idle_latency(args: &IdleLatencyArgs) -> Result<(), CliError> {
    let samples = args.samples as usize;
    let failed = |error: io::Error| host_problem(format!("cannot measure wake-ups: {error}"));
    let enabled = cpu_idle::measure(samples).map_err(failed)?;
    let awake =
        DisabledIdleStates::keep(&cpu_idle::allowed_cpus().map_err(failed)?).map_err(failed)?;
    let disabled = cpu_idle::measure(samples).map_err(failed)?;
    print(&json!({
        "idle_states_enabled": enabled,
        "idle_states_disabled": disabled,
        "method": awake.method(),
    }))
}

pub fn disable_idle_states() -> Result<(), CliError> {
    let failed = |error: io::Error| host_problem(format!("cannot keep CPUs awake: {error}"));
    cpu_idle::yield_to_other_sessions();
    let awake =
        DisabledIdleStates::keep(&cpu_idle::allowed_cpus().map_err(failed)?).map_err(failed)?;
    print(&json!(awake.method()))?;
    io::copy(&mut io::stdin(), &mut io::sink()).map_err(failed)?;
    Ok(())
}
