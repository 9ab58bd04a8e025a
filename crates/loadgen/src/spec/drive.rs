//! The phase that drives clients: how many, how fast, from when to when.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::phase::{RawSql, phase_of_kind};
use super::read;
use super::slices::{self, RawSlices};
use engine::{Arrivals, CPU_NUMBERS, DriveSettings, End, IDLE_TIMEOUT, Pacing, Warmup};
use workload::program::Protocol;
use workload::validation::ValidationError;

/// More connections than any server takes, and than one process has file descriptors for.
pub const MAX_CLIENTS: u32 = 100_000;

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

phase_of_kind!(pub RawDrive {
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
});

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
#[serde(deny_unknown_fields)]
struct RawClosed {
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOpen {
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    rate: f64,
    #[serde(default)]
    arrivals: RawArrivals,
    max_lateness_s: Option<f64>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawArrivals {
    #[default]
    Poisson,
    Constant,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum WarmupKind {
    Time,
    Steady,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTime {
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    seconds: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSteady {
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    limit_s: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum EndKind {
    Time,
    Operations,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawOperations {
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    transactions: u64,
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
            return Err(ValidationError::new(format!("{key}.clients"), message));
        }
        if self.cpus.as_ref().is_some_and(Vec::is_empty) {
            let message = "is empty; null stands for all";
            return Err(ValidationError::new(format!("{key}.cpus"), message));
        }
        let mut numbers = self.cpus.iter().flatten().enumerate();
        if let Some((position, cpu)) = numbers.find(|(_, cpu)| **cpu >= CPU_NUMBERS) {
            let message =
                format!("{cpu} is no CPU; they are numbered from 0 to {}", CPU_NUMBERS - 1);
            return Err(ValidationError::new(format!("{key}.cpus[{position}]"), message));
        }
        let pacing = self.pacing.as_deref();
        let warmup = self.warmup.as_deref();
        let maintenance_after = self.maintenance.as_ref().map(|raw| raw.after(key)).transpose()?;
        let slices = slices::check(self.slices.as_ref(), &format!("{key}.slices"), against)?;
        let settings = DriveSettings {
            clients: self.clients,
            threads: self.threads,
            pacing: pacing
                .map_or(Ok(Pacing::Closed), |json| check_pacing(json, &format!("{key}.pacing")))?,
            warmup: warmup.map_or(Ok(Warmup::Time(Duration::ZERO)), |json| {
                check_warmup(json, &format!("{key}.warmup"))
            })?,
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
            slowdowns: slices::slowdowns(self.slices.as_ref()),
            background_clients: Vec::new(), // the test says who they are
            seed,
        };
        slices::check_drive(&settings, key)?;
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

impl RawMaintenance {
    fn after(&self, key: &str) -> Result<Duration, ValidationError> {
        read::zero_or_more(self.after_s, &format!("{key}.maintenance.after_s"))
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
            let message = format!("{after} is after the end at {time}");
            Err(ValidationError::new(format!("{key}.after_s"), message))
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

fn check_pacing(json: &RawValue, key: &str) -> Result<Pacing, ValidationError> {
    match read::part::<Tagged<PacingKind>>(json, key)?.kind {
        PacingKind::Closed => {
            let RawClosed { .. } = read::part(json, key)?;
            Ok(Pacing::Closed)
        }
        PacingKind::Open => {
            let raw: RawOpen = read::part(json, key)?;
            if !(raw.rate.is_finite() && raw.rate > 0.0) {
                let expected = "expected transactions a second above 0";
                let message = format!("{} is no rate, {expected}", raw.rate);
                return Err(ValidationError::new(format!("{key}.rate"), message));
            }
            let max_lateness = raw
                .max_lateness_s
                .map(|seconds| read::above_zero(seconds, &format!("{key}.max_lateness_s")))
                .transpose()?;
            Ok(Pacing::Open {
                rate: raw.rate,
                arrivals: match raw.arrivals {
                    RawArrivals::Poisson => Arrivals::Poisson,
                    RawArrivals::Constant => Arrivals::Constant,
                },
                max_lateness,
            })
        }
    }
}

fn check_warmup(json: &RawValue, key: &str) -> Result<Warmup, ValidationError> {
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
                let message = "0 is no work, expected 1 or more";
                return Err(ValidationError::new(format!("{key}.transactions"), message));
            }
            Ok(End::Operations(raw.transactions))
        }
    }
}
