//! The slices in which a phase drives several servers, one at a time.

use std::time::Duration;

use serde::Deserialize;

use super::drive::MAX_CLIENTS;
use super::{LoadData, Phase, Source, Work, read};
use engine::{DriveSettings, End, SliceSettings};
use protocol::mysql::{Address, Login};
use workload::validation::ValidationError;

/// The most slices that the measured part may have: all are kept until its end, 40 bytes each.
const MAX_SLICES: u32 = 500_000;

/// The most rows of a slice of a load: two slices are kept as text.
const MAX_SLICE_ROWS: u64 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawSlices {
    at_least_s: f64,
    at_most_s: f64,
    transactions: u64,
    #[serde(default)]
    slowdowns: Vec<f64>,
}

/// The slices of a load.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawLoadSlices {
    rows: u64,
}

/// Check slices at `key` of a phase that drives one server and those `against`: several servers
/// need them, a single one has no turns.
pub fn check(
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
            let message = "0 is no slice, expected 1 or more";
            Err(ValidationError::new(format!("{key}.transactions"), message))
        }
        Some(&RawSlices { at_least_s, at_most_s, transactions, ref slowdowns }) => {
            let at_least = read::above_zero(at_least_s, &format!("{key}.at_least_s"))?;
            let at_most = read::above_zero(at_most_s, &format!("{key}.at_most_s"))?;
            if at_most < at_least {
                let message = format!("{at_most_s} is less than at_least_s, {at_least_s}");
                return Err(ValidationError::new(format!("{key}.at_most_s"), message));
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

/// Check the slices of a load at `key`, and return their rows.
pub fn check_load(
    raw: Option<RawLoadSlices>,
    key: &str,
    source: &Source,
    against: usize,
) -> Result<Option<u64>, ValidationError> {
    let refused =
        |name: &str, message: &str| Err(ValidationError::new(format!("{key}.{name}"), message));
    let rows = match (raw, against) {
        (None, 0) => return Ok(None),
        (None, _) => return refused("slices", "is missing; a run with against needs it"),
        (Some(_), 0) => {
            return refused("slices", "has no meaning without against, the other servers");
        }
        (Some(RawLoadSlices { rows }), _) => rows,
    };
    if !(1..=MAX_SLICE_ROWS).contains(&rows) {
        let message = format!("{rows} is not from 1 to {MAX_SLICE_ROWS}");
        return refused("slices.rows", &message);
    }
    match source {
        Source::ServerFile(_) => {
            refused("source.server_file", "a server that reads a file itself takes no turns")
        }
        Source::Nodes { rows: all, .. } if all / rows > u64::from(MAX_SLICES) => {
            let message = format!("{all} rows are more than {MAX_SLICES} slices of {rows}");
            refused("slices.rows", &message)
        }
        Source::Nodes { .. } => Ok(Some(rows)),
    }
}

/// Check that servers that load in turns are connected by sockets.
pub fn check_sockets<'a>(
    phases: &[Phase],
    mut logins: impl Iterator<Item = &'a Login>,
) -> Result<(), ValidationError> {
    let loads = phases.iter().position(|phase| {
        matches!(phase.work, Work::LoadData(LoadData { slice_rows: Some(_), .. }))
    });
    match loads {
        Some(index) if logins.any(|login| !matches!(login.address, Address::Socket(_))) => {
            let message = "need connections by socket: no other shows what a server has read";
            Err(ValidationError::new(format!("phases[{index}].slices"), message))
        }
        _ => Ok(()),
    }
}

/// Return by how much each side is slower.
pub fn slowdowns(raw: Option<&RawSlices>) -> Vec<f64> {
    raw.map(|slices| slices.slowdowns.clone()).unwrap_or_default()
}

/// Check that the phase at `key` can be driven in slices, where it is to be.
pub fn check_drive(settings: &DriveSettings, key: &str) -> Result<(), ValidationError> {
    let Some(slices) = settings.slices else {
        return Ok(());
    };
    let refused =
        |name: &str, message: String| Err(ValidationError::new(format!("{key}.{name}"), message));
    if settings.is_open_loop() {
        return refused("pacing.kind", "slices need a closed loop: arrivals do not wait".into());
    }
    if settings.threads > 1 {
        let threads = settings.threads;
        return refused("threads", format!("{threads} is too many; slices use one thread"));
    }
    if settings.connections() > MAX_CLIENTS {
        let (clients, sides) = (settings.clients, slices.sides);
        let message = format!("{clients} on each of {sides} servers are more than {MAX_CLIENTS}");
        return refused("clients", message);
    }
    let End::Time(time) = settings.end else {
        let message = "slices need an end by time: sides are not of equal work";
        return refused("end.kind", message.into());
    };
    if time > longest(slices.at_least) {
        let message = format!(
            "{} are more than {MAX_SLICES} slices; expected longer slices or a shorter time",
            time.as_secs_f64()
        );
        return refused("end.seconds", message);
    }
    Ok(())
}

fn longest(at_least: Duration) -> Duration {
    at_least.saturating_mul(MAX_SLICES)
}
