//! `millrace-load wakeup` and `keep-awake`: sleeping CPUs.

use std::io;

use clap::Args;
use serde_json::json;

use super::{Problem, host_problem, print};
use crate::cpu_idle::{self, Awake};

#[derive(Args)]
pub struct WakeupArgs {
    /// Wake-ups to measure on each CPU, in each state.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    samples: u32,
}

pub fn measure(args: &WakeupArgs) -> Result<(), Problem> {
    let samples = args.samples as usize;
    let failed = |error: io::Error| host_problem(format!("cannot measure wake-ups: {error}"));
    let idle = cpu_idle::measure(samples).map_err(failed)?;
    let awake = Awake::keep(&cpu_idle::allowed_cpus().map_err(failed)?).map_err(failed)?;
    let kept_awake = cpu_idle::measure(samples).map_err(failed)?;
    print(&json!({"idle": idle, "kept_awake": kept_awake, "how": awake.how()}))
}

pub fn keep_awake() -> Result<(), Problem> {
    let failed = |error: io::Error| host_problem(format!("cannot keep CPUs awake: {error}"));
    cpu_idle::yield_to_other_sessions();
    let awake = Awake::keep(&cpu_idle::allowed_cpus().map_err(failed)?).map_err(failed)?;
    print(&json!(awake.how()))?;
    io::copy(&mut io::stdin(), &mut io::sink()).map_err(failed)?;
    Ok(())
}
