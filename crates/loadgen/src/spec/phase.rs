//! The phases of a specification: each kind has keys of its own.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::drive::{MAX_SLICES, RawDrive};
use super::read::{RawSql, refused, rest_of_kind};
use super::{LoadData, Phase, Source, Work, read};
use crate::tables::{LoadOptions, Method};
use datagen::MAX_ROWS;
use protocol::mysql::{Address, Login};
use workload::validation::ValidationError;

/// The most rows of a slice of a load: two slices are kept as text.
const MAX_SLICE_ROWS: u64 = 1_000_000;

/// The keys of all phases; read first, because the kind determines the others.
#[derive(Deserialize)]
struct Common {
    name: String,
    kind: Kind,
    limit_s: Option<f64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Statement,
    LoadData,
    LoadTables,
    VerifyTables,
    WarmTables,
    Drive,
}

rest_of_kind!([name kind limit_s]
    RawStatement { sql: RawSql }
    RawLoadData {
        table: String,
        columns: Vec<String>,
        source: RawSource,
        slices: Option<RawLoadSlices>,
    }
    RawLoadTables {
        #[serde(default)]
        threads: usize,
        #[serde(default)]
        method: Method,
        #[serde(default)]
        chunk_rows: u64,
        #[serde(default)]
        lock_tables: bool,
        #[serde(default)]
        linger_s: f64,
    }
    RawVerifyTables {}
    RawWarmTables {
        #[serde(default)]
        threads: usize,
    }
);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLoadSlices {
    rows: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawSource {
    Generate(RawGenerate),
    ServerFile(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGenerate {
    #[allow(dead_code)] // there is one set; its name is checked by being read
    set: RawSet,
    rows: u64,
    seed: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawSet {
    Nodes,
}

/// Read the phase at `key` of a specification with this seed and number of servers `against`.
pub fn check(
    json: &RawValue,
    key: &str,
    seed: u64,
    against: usize,
) -> Result<Phase, ValidationError> {
    let common: Common = read::part(json, key)?;
    if against > 0 && !matches!(common.kind, Kind::Drive | Kind::LoadData | Kind::Statement) {
        let message = "works on one server; a run with against has the kinds drive, load_data and \
                       statement only";
        return refused(key, "kind", message);
    }
    let limit = common
        .limit_s
        .map(|seconds| read::above_zero(seconds, &format!("{key}.limit_s")))
        .transpose()?;
    let work = match common.kind {
        Kind::Statement => {
            let raw: RawStatement = read::part(json, key)?;
            Work::Statements(raw.sql.into())
        }
        Kind::LoadData => {
            let raw: RawLoadData = read::part(json, key)?;
            let source = raw.source.check(key)?;
            let slice_rows = check_load(raw.slices, key, &source, against)?;
            Work::LoadData(LoadData { table: raw.table, columns: raw.columns, source, slice_rows })
        }
        Kind::LoadTables => {
            let raw: RawLoadTables = read::part(json, key)?;
            if raw.lock_tables && raw.method == Method::Local {
                let message = "has no meaning with the method local: LOAD DATA is one statement";
                return refused(key, "lock_tables", message);
            }
            if raw.lock_tables && raw.chunk_rows > 0 {
                let message = "has no meaning with chunk_rows: others fill the table too";
                return refused(key, "lock_tables", message);
            }
            Work::LoadTables(LoadOptions {
                threads: raw.threads,
                method: raw.method,
                chunk_rows: raw.chunk_rows,
                lock_tables: raw.lock_tables,
                linger: read::zero_or_more(raw.linger_s, &format!("{key}.linger_s"))?,
            })
        }
        Kind::VerifyTables => {
            let RawVerifyTables { .. } = read::part(json, key)?;
            Work::VerifyTables
        }
        Kind::WarmTables => {
            let raw: RawWarmTables = read::part(json, key)?;
            Work::WarmTables { threads: raw.threads }
        }
        Kind::Drive => {
            let raw: RawDrive = read::part(json, key)?;
            Work::Drive(Box::new(raw.check(key, limit, seed, against)?))
        }
    };
    Ok(Phase { name: common.name, limit, work })
}

impl RawSource {
    fn check(self, key: &str) -> Result<Source, ValidationError> {
        match self {
            Self::Generate(RawGenerate { rows, .. }) if rows > MAX_ROWS => {
                let message = format!("{rows} is more than {MAX_ROWS}");
                refused(key, "source.generate.rows", message)
            }
            Self::Generate(RawGenerate { rows, seed, .. }) => Ok(Source::Nodes { rows, seed }),
            // How a quote is written in SQL depends on the server's sql_mode.
            Self::ServerFile(path) if path.contains(['\'', '\\', '\0']) => {
                let message = format!("{path:?} has a quote or a backslash; name the file without");
                refused(key, "source.server_file", message)
            }
            Self::ServerFile(path) => Ok(Source::ServerFile(path)),
        }
    }
}

/// Check the slices of a load at `key`, and return their rows.
fn check_load(
    raw: Option<RawLoadSlices>,
    key: &str,
    source: &Source,
    against: usize,
) -> Result<Option<u64>, ValidationError> {
    let rows = match (raw, against) {
        (None, 0) => return Ok(None),
        (None, _) => return refused(key, "slices", "is missing; a run with against needs it"),
        (Some(_), 0) => {
            return refused(key, "slices", "has no meaning without against, the other servers");
        }
        (Some(RawLoadSlices { rows }), _) => rows,
    };
    if !(1..=MAX_SLICE_ROWS).contains(&rows) {
        let message = format!("{rows} is not from 1 to {MAX_SLICE_ROWS}");
        return refused(key, "slices.rows", message);
    }
    match source {
        Source::ServerFile(_) => {
            refused(key, "source.server_file", "a server that reads a file itself takes no turns")
        }
        Source::Nodes { rows: all, .. } if all / rows > u64::from(MAX_SLICES) => {
            let message = format!("{all} rows are more than {MAX_SLICES} slices of {rows}");
            refused(key, "slices.rows", message)
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
