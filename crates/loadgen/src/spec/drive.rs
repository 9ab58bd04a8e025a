//! The phase that drives clients: how many, how fast, from when to when.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::read::{self, RawSql, refused, rest_of_kind};
use engine::{
    Arrivals, CPU_NUMBERS, DriveSettings, End, IDLE_TIMEOUT, Pacing, SliceSettings, Warmup,
};
use workload::program::Protocol;
use workload::validation::ValidationError;

/// More connections than any server takes, and than one process has file descriptors for.
const MAX_CLIENTS: u32 = 100_000;

/// The most slices that the measured part may have: all are kept until its end, 40 bytes each.
pub const MAX_SLICES: u32 = 500_000;

/// A transaction is begun again after these, unless the specification says otherwise: a deadlock,
/// a lock wait that took too long, a row that another transaction changed (sysbench's default).
pub const RETRY: [u16; 3] = [1213, 1205, 1020];

/// Clients that repeat a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Drive {
    pub test: String,
    pub protocol: Protocol,
    pub settings: DriveSettings,
    /// The statements that run in the middle; empty without maintenance.
    pub maintenance: Vec<String>,
    /// The number of pings with which each client begins.
    pub pings: u32,
    /// It is the phase that the run is about, among several that drive clients.
    pub primary: bool,
}

rest_of_kind!([name kind limit_s]
    RawDrive {
        test: String,
        clients: u32,
        #[serde(default)]
        threads: u32,
        #[serde(default)]
        protocol: Protocol,
        pacing: Option<Box<RawValue>>,
        warmup: Option<Box<RawValue>>,
        end: Box<RawValue>,
        retry: Option<Vec<String>>,
        #[serde(default)]
        busy_poll: bool,
        cpus: Option<Vec<usize>>,
        #[serde(default)]
        pings: u32,
        #[serde(default)]
        primary: bool,
        #[serde(default)]
        linger_s: f64,
        statement_activity: Option<PathBuf>,
        slices: Option<RawSlices>,
        maintenance: Option<RawMaintenance>,
    }
);

rest_of_kind!([kind]
    RawClosed {}
    RawOpen {
        rate: f64,
        #[serde(default)]
        arrivals: Arrivals,
        max_lateness_s: Option<f64>,
    }
    RawTime { seconds: f64 }
    RawSteady { limit_s: f64 }
    RawOperations { transactions: u64 }
);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSlices {
    at_least_s: f64,
    at_most_s: f64,
    transactions: u64,
    #[serde(default)]
    slowdowns: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMaintenance {
    after_s: f64,
    sql: RawSql,
}

#[derive(Deserialize)]
struct Tagged<K> {
    kind: K,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum PacingKind {
    Closed,
    Open,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum WarmupKind {
    Time,
    Steady,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum EndKind {
    Time,
    Operations,
}

impl RawDrive {
    /// Check the phase that lies at `key`; its random arrivals are drawn from `seed`. It drives
    /// servers in slices where the specification has any `against`.
    pub fn check(
        self,
        key: &str,
        limit: Option<Duration>,
        seed: u64,
        against: usize,
    ) -> Result<Drive, ValidationError> {
        if !(1..=MAX_CLIENTS).contains(&self.clients) {
            let message = format!("{} is not from 1 to {MAX_CLIENTS}", self.clients);
            return refused(key, "clients", message);
        }
        if self.cpus.as_ref().is_some_and(Vec::is_empty) {
            return refused(key, "cpus", "is empty; null stands for all");
        }
        let mut numbers = self.cpus.iter().flatten().enumerate();
        if let Some((position, cpu)) = numbers.find(|(_, cpu)| **cpu >= CPU_NUMBERS) {
            let most = CPU_NUMBERS - 1;
            let message = format!("{cpu} is not the number of a CPU, which is from 0 to {most}");
            return refused(key, &format!("cpus[{position}]"), message);
        }
        let after = |raw: &RawMaintenance| {
            read::zero_or_more(raw.after_s, &format!("{key}.maintenance.after_s"))
        };
        let maintenance_after = self.maintenance.as_ref().map(after).transpose()?;
        let slices = check_slices(self.slices.as_ref(), &format!("{key}.slices"), against)?;
        let settings = DriveSettings {
            clients: self.clients,
            threads: self.threads,
            pacing: check_pacing(self.pacing.as_deref(), &format!("{key}.pacing"))?,
            warmup: check_warmup(self.warmup.as_deref(), &format!("{key}.warmup"))?,
            end: check_end(&self.end, &format!("{key}.end"))?,
            retry: check_retry(self.retry, &format!("{key}.retry"))?,
            busy_poll: self.busy_poll,
            cpus: self.cpus.unwrap_or_default(),
            limit,
            // A statement may take as long as the phase.
            idle_timeout: limit.map_or(IDLE_TIMEOUT, |limit| limit.max(IDLE_TIMEOUT)),
            linger: read::zero_or_more(self.linger_s, &format!("{key}.linger_s"))?,
            statement_activity: self.statement_activity,
            slices,
            maintenance_after,
            slowdowns: self.slices.map(|slices| slices.slowdowns).unwrap_or_default(),
            background_clients: Vec::new(), // the test says who they are
            seed,
        };
        check_turns(&settings, key)?;
        check_maintenance(&settings, &format!("{key}.maintenance"))?;
        Ok(Drive {
            test: self.test,
            protocol: self.protocol,
            settings,
            maintenance: self.maintenance.map_or_else(Vec::new, |raw| raw.sql.into()),
            pings: self.pings,
            primary: self.primary,
        })
    }
}

/// Check that the statements of maintenance at `key`, if there are any, have their time.
fn check_maintenance(settings: &DriveSettings, key: &str) -> Result<(), ValidationError> {
    let Some(after) = settings.maintenance_after else {
        return Ok(());
    };
    if settings.slices.is_some() {
        let message = "has no meaning with against: servers that take turns wait for each other";
        return Err(ValidationError::new(key, message));
    }
    match settings.end {
        End::Time(time) if after <= time => Ok(()),
        End::Time(time) => {
            let (after, time) = (after.as_secs_f64(), time.as_secs_f64());
            refused(key, "after_s", format!("{after} is after the end at {time}"))
        }
        End::Operations(_) | End::Either(..) => {
            Err(ValidationError::new(key, "needs an end by time, which it moves"))
        }
    }
}

/// Return the numbers of MySQL's error codes, which are texts, as those of any database.
fn check_retry(codes: Option<Vec<String>>, key: &str) -> Result<Vec<u16>, ValidationError> {
    let Some(codes) = codes else {
        return Ok(RETRY.to_vec());
    };
    let number = |(position, code): (usize, &String)| {
        code.parse().map_err(|_| {
            let message = format!("{code:?} is not an error code");
            ValidationError::new(format!("{key}[{position}]"), message)
        })
    };
    codes.iter().enumerate().map(number).collect()
}

fn check_pacing(json: Option<&RawValue>, key: &str) -> Result<Pacing, ValidationError> {
    let Some(json) = json else {
        return Ok(Pacing::Closed);
    };
    match read::part::<Tagged<PacingKind>>(json, key)?.kind {
        PacingKind::Closed => {
            let RawClosed { .. } = read::part(json, key)?;
            Ok(Pacing::Closed)
        }
        PacingKind::Open => {
            let raw: RawOpen = read::part(json, key)?;
            if !(raw.rate.is_finite() && raw.rate > 0.0) {
                let message = format!("{} is not a rate; expected more than 0 a second", raw.rate);
                return refused(key, "rate", message);
            }
            let max_lateness = raw
                .max_lateness_s
                .map(|seconds| read::above_zero(seconds, &format!("{key}.max_lateness_s")))
                .transpose()?;
            Ok(Pacing::Open { rate: raw.rate, arrivals: raw.arrivals, max_lateness })
        }
    }
}

fn check_warmup(json: Option<&RawValue>, key: &str) -> Result<Warmup, ValidationError> {
    let Some(json) = json else {
        return Ok(Warmup::Time(Duration::ZERO));
    };
    match read::part::<Tagged<WarmupKind>>(json, key)?.kind {
        WarmupKind::Time => {
            let RawTime { seconds, .. } = read::part(json, key)?;
            read::zero_or_more(seconds, &format!("{key}.seconds")).map(Warmup::Time)
        }
        WarmupKind::Steady => {
            let raw: RawSteady = read::part(json, key)?;
            let limit = read::above_zero(raw.limit_s, &format!("{key}.limit_s"))?;
            Ok(Warmup::Steady { limit })
        }
    }
}

fn check_end(json: &RawValue, key: &str) -> Result<End, ValidationError> {
    match read::part::<Tagged<EndKind>>(json, key)?.kind {
        EndKind::Time => {
            let raw: RawTime = read::part(json, key)?;
            read::above_zero(raw.seconds, &format!("{key}.seconds")).map(End::Time)
        }
        EndKind::Operations => {
            let raw: RawOperations = read::part(json, key)?;
            if raw.transactions == 0 {
                return refused(key, "transactions", "0 is too few, expected 1 or more");
            }
            Ok(End::Operations(raw.transactions))
        }
    }
}

/// Check slices at `key`: a phase with servers `against` needs them, a single one has no turns.
fn check_slices(
    raw: Option<&RawSlices>,
    key: &str,
    against: usize,
) -> Result<Option<SliceSettings>, ValidationError> {
    let sides = u32::try_from(against).expect("there are few of them") + 1;
    match raw {
        None if sides == 1 => Ok(None),
        None => Err(ValidationError::new(key, "is missing; a run with against needs it")),
        Some(_) if sides == 1 => {
            Err(ValidationError::new(key, "has no meaning without against, the other servers"))
        }
        Some(RawSlices { transactions: 0, .. }) => {
            refused(key, "transactions", "0 is too few, expected 1 or more")
        }
        Some(&RawSlices { at_least_s, at_most_s, transactions, ref slowdowns }) => {
            let at_least = read::above_zero(at_least_s, &format!("{key}.at_least_s"))?;
            let at_most = read::above_zero(at_most_s, &format!("{key}.at_most_s"))?;
            if at_most < at_least {
                let message = format!("{at_most_s} is less than at_least_s, {at_least_s}");
                return refused(key, "at_most_s", message);
            }
            check_slowdowns(slowdowns, &format!("{key}.slowdowns"), sides)?;
            Ok(Some(SliceSettings { sides, at_least, at_most, transactions }))
        }
    }
}

fn check_slowdowns(slowdowns: &[f64], key: &str, sides: u32) -> Result<(), ValidationError> {
    if slowdowns.is_empty() {
        return Ok(());
    }
    if slowdowns.len() != sides as usize {
        let message = format!("has {}, expected one for each of {sides} sides", slowdowns.len());
        return Err(ValidationError::new(key, message));
    }
    match slowdowns.iter().position(|share| !(0.0..=1.0).contains(share)) {
        None => Ok(()),
        Some(side) => {
            let message = format!("{} is not from 0 to 1", slowdowns[side]);
            Err(ValidationError::new(format!("{key}[{side}]"), message))
        }
    }
}

/// Check that the phase at `key` can be driven in slices, where it is to be.
fn check_turns(settings: &DriveSettings, key: &str) -> Result<(), ValidationError> {
    let Some(slices) = settings.slices else {
        return Ok(());
    };
    if settings.is_open_loop() {
        return refused(key, "pacing.kind", "slices need a closed loop: arrivals do not wait");
    }
    if settings.threads > 1 {
        let threads = settings.threads;
        return refused(key, "threads", format!("{threads} is too many; slices use one thread"));
    }
    if settings.connections() > MAX_CLIENTS {
        let (clients, sides) = (settings.clients, slices.sides);
        let message = format!("{clients} on each of {sides} servers are more than {MAX_CLIENTS}");
        return refused(key, "clients", message);
    }
    let End::Time(time) = settings.end else {
        return refused(key, "end.kind", "slices need an end by time: sides do unequal work");
    };
    if time > slices.at_least.saturating_mul(MAX_SLICES) {
        let hint = "expected longer slices or a shorter time";
        let message = format!("{} are more than {MAX_SLICES} slices; {hint}", time.as_secs_f64());
        return refused(key, "end.seconds", message);
    }
    Ok(())
}
