//! The specification of a run (version 2): JSON in, checked values out. Mistakes name their key.

mod drive;
pub(crate) mod phase;
pub(crate) mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::iter;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::tables::LoadOptions;
use protocol::mysql::{Address, Login, Tls, TlsMode};
use workload::definition::{Definition, Value};
use workload::validation::ValidationError;

pub use drive::{Drive, RETRY};
pub use read::line_of;

const VERSION: u32 = 2;

/// Servers besides that of `connection`.
const MAX_AGAINST: usize = 7;

/// A run, checked.
#[derive(Debug)]
pub struct Spec {
    pub connection: Login,
    /// The servers of sides 1, 2 and so on; `connection` is that of side 0.
    pub against: Vec<Login>,
    /// Statements for every session that is opened.
    pub session: Vec<String>,
    /// The longest silence of a session's server; None: as long as the phases' limits allow.
    pub idle_timeout: Option<Duration>,
    pub workload: Option<Workload>,
    pub phases: Vec<Phase>,
}

/// A workload and what its placeholders stand for.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub definition: Definition,
    pub defaults: BTreeMap<String, Value>,
    /// They win over the values of a test, which win over the defaults.
    pub values: BTreeMap<String, Value>,
    /// The seed of data and statements.
    pub seed: u64,
}

/// One part of a run, timed on its own.
#[derive(Debug, PartialEq)]
pub struct Phase {
    pub name: String,
    pub limit: Option<Duration>,
    pub work: Work,
}

/// The work of a phase.
#[derive(Debug, PartialEq)]
pub enum Work {
    /// Statements, one after the other.
    Statements(Vec<String>),
    LoadData(LoadData),
    /// Creates and fills the workload's tables.
    LoadTables(LoadOptions),
    /// Compares rows and checksums of the workload's tables with what was generated.
    VerifyTables,
    /// Reads the workload's tables into memory; 0 threads are as many as seem best.
    WarmTables {
        threads: usize,
    },
    /// Clients that repeat a test of the workload.
    Drive(Box<Drive>),
}

/// A data set that is loaded into a table.
#[derive(Debug, PartialEq, Eq)]
pub struct LoadData {
    pub table: String,
    pub columns: Vec<String>,
    pub source: Source,
    /// The rows of a server's turn, about; None where there is one server.
    pub slice_rows: Option<u64>,
}

/// The source of loaded rows.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    /// Made here and sent as a local file.
    Nodes { rows: u64, seed: u64 },
    /// Read by the server.
    ServerFile(String),
}

impl Spec {
    /// Read and checks a specification.
    pub fn parse(json: &str) -> Result<Self, ValidationError> {
        // First, for the keys of another version are other mistakes.
        if let Ok(SpecVersion { version }) = serde_json::from_str(json)
            && version != VERSION
        {
            let message = format!("{version} is not known, expected {VERSION}");
            return Err(ValidationError::new("version", message));
        }
        let raw: RawSpec = read::whole(json)?;
        raw.check()
    }
}

#[derive(Deserialize)]
struct SpecVersion {
    version: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSpec {
    #[serde(rename = "version")]
    _version: u32,
    connection: RawConnection,
    against: Option<Vec<RawConnection>>,
    #[serde(default)]
    session: Vec<String>,
    workload: Option<Definition>,
    defaults: Option<BTreeMap<String, Value>>,
    values: Option<BTreeMap<String, Value>>,
    seed: Option<u64>,
    phases: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConnection {
    socket: Option<PathBuf>,
    host: Option<String>,
    port: Option<u16>,
    user: String,
    #[serde(default)]
    password: String,
    database: Option<String>,
    tls: Option<RawTls>,
    #[serde(default)]
    allow_unverified: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTls {
    mode: TlsMode,
    ca: Option<PathBuf>,
}

impl RawSpec {
    fn check(mut self) -> Result<Spec, ValidationError> {
        let against = check_against(self.against.take())?;
        let mut phases = self
            .phases
            .iter()
            .enumerate()
            .map(|(index, phase)| {
                let seed = self.seed.unwrap_or(0);
                phase::check(phase, &format!("phases[{index}]"), seed, against.len())
            })
            .collect::<Result<Vec<_>, _>>()?;
        mark_primary(&mut phases)?;
        let needs_workload = phases
            .iter()
            .position(|phase| !matches!(phase.work, Work::Statements(_) | Work::LoadData(_)));
        if let (Some(index), None) = (needs_workload, &self.workload) {
            let message = format!("is missing; phases[{index}] needs it");
            return Err(ValidationError::new("workload", message));
        }
        let workload = self.workload()?;
        let connection = self.connection.check("connection")?;
        phase::check_sockets(&phases, iter::once(&connection).chain(&against))?;
        Ok(Spec {
            connection,
            against,
            session: self.session,
            idle_timeout: None,
            workload,
            phases,
        })
    }

    fn workload(&mut self) -> Result<Option<Workload>, ValidationError> {
        let Some(definition) = self.workload.take() else {
            let given = [
                ("defaults", self.defaults.is_some()),
                ("values", self.values.is_some()),
                ("seed", self.seed.is_some()),
            ];
            let given = given.into_iter().find(|(_, is_given)| *is_given);
            let refused = |(key, _)| ValidationError::new(key, "has no meaning without a workload");
            return given.map_or(Ok(None), |given| Err(refused(given)));
        };
        let seed = self
            .seed
            .ok_or_else(|| ValidationError::new("seed", "is missing; the workload needs it"))?;
        Ok(Some(Workload {
            definition,
            defaults: self.defaults.take().unwrap_or_default(),
            values: self.values.take().unwrap_or_default(),
            seed,
        }))
    }
}

fn check_against(raw: Option<Vec<RawConnection>>) -> Result<Vec<Login>, ValidationError> {
    let Some(raw) = raw else {
        return Ok(Vec::new());
    };
    if !(1..=MAX_AGAINST).contains(&raw.len()) {
        let message = format!("has {} servers, expected 1 to {MAX_AGAINST}", raw.len());
        return Err(ValidationError::new("against", message));
    }
    let checked = raw.into_iter().enumerate();
    checked.map(|(index, raw)| raw.check(&format!("against[{index}]"))).collect()
}

/// Mark the only phase that drives clients as the primary one, or check that one of several is.
fn mark_primary(phases: &mut [Phase]) -> Result<(), ValidationError> {
    let drives = phases.iter_mut().filter_map(|phase| match &mut phase.work {
        Work::Drive(drive) => Some(&mut drive.primary),
        _ => None,
    });
    let mut drives: Vec<&mut bool> = drives.collect();
    if let [only] = drives.as_mut_slice() {
        **only = true;
    }
    let marked = drives.iter().filter(|primary| ***primary).count();
    if drives.is_empty() || marked == 1 {
        return Ok(());
    }
    let message = format!(
        "{} of them drive clients, and {marked} have primary = true; expected one",
        drives.len()
    );
    Err(ValidationError::new("phases", message))
}

impl Phase {
    /// Return the test that its clients repeat, if it drives any.
    pub fn test(&self) -> Option<&str> {
        match &self.work {
            Work::Drive(drive) => Some(&drive.test),
            _ => None,
        }
    }
}

impl RawConnection {
    fn check(self, key: &str) -> Result<Login, ValidationError> {
        let address = match (self.socket, self.host, self.port) {
            (Some(path), None, None) => Address::Socket(path),
            (None, Some(host), Some(port)) => Address::Tcp { host, port },
            _ => {
                return Err(ValidationError::new(key, "expected either socket, or host and port"));
            }
        };
        let ca_key = format!("{key}.tls.ca");
        let (mode, ca) = match self.tls {
            Some(RawTls { mode: TlsMode::Disabled | TlsMode::Required, ca: Some(_) }) => {
                let message = "has a meaning in the modes verify-ca and verify-identity only";
                return Err(ValidationError::new(ca_key, message));
            }
            Some(RawTls { mode, ca }) => (mode, ca),
            None => (TlsMode::default_for(&address), None),
        };
        let tls = Tls::new(mode, ca.as_deref())
            .map_err(|error| ValidationError::new(ca_key, error.to_string()))?;
        Ok(Login {
            address,
            user: self.user,
            password: self.password,
            database: self.database,
            tls,
            allow_unverified: self.allow_unverified,
        })
    }
}
