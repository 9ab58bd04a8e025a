//! The specification of a run: JSON in, checked values out. Every mistake names its key.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

use crate::data::MAX_ROWS;
use crate::mysql::Address;

/// A run, checked.
#[derive(Debug, PartialEq)]
pub struct Spec {
    pub connection: Login,
    pub session: Vec<String>,
    pub phases: Vec<Phase>,
}

/// Where and as whom to log in.
#[derive(PartialEq, Eq)]
pub struct Login {
    pub address: Address,
    pub user: String,
    pub password: String,
    pub database: Option<String>,
}

/// One part of a run, timed on its own.
#[derive(Debug, PartialEq)]
pub struct Phase {
    pub name: String,
    pub limit: Option<Duration>,
    pub work: Work,
}

/// What a phase does.
#[derive(Debug, PartialEq, Eq)]
pub enum Work {
    LoadData {
        table: String,
        columns: Vec<String>,
        source: Source,
    },
    /// Statements, one after the other.
    Statements(Vec<String>),
}

/// Where loaded rows come from.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    /// Made here and sent as a local file.
    Nodes { rows: u64, seed: u64 },
    /// Read by the server.
    ServerFile(String),
}

/// What is wrong with a specification, and at which key.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{key}: {message}")]
pub struct SpecError {
    key: String,
    message: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}@{}", self.user, self.address) // never the password
    }
}

impl Spec {
    /// Reads and checks a specification.
    pub fn parse(json: &str) -> Result<Self, SpecError> {
        let mut reader = serde_json::Deserializer::from_str(json);
        let raw: RawSpec = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let key = error.path().to_string();
            let key = if key == "." {
                "the specification".to_owned()
            } else {
                key
            };
            SpecError {
                key,
                message: error.inner().to_string(),
            }
        })?;
        reader
            .end()
            .map_err(|error| mistake("the specification", &error.to_string()))?;
        raw.check()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSpec {
    version: u32,
    connection: RawConnection,
    #[serde(default)]
    session: Vec<String>,
    phases: Vec<RawPhase>,
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
}

/// Both kinds of phase in one, so that a mistake is reported at its own key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPhase {
    name: String,
    kind: RawKind,
    limit_s: Option<f64>,
    table: Option<String>,
    columns: Option<Vec<String>>,
    source: Option<RawSource>,
    sql: Option<RawSql>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawKind {
    LoadData,
    Statement,
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

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a statement or a list of statements")]
enum RawSql {
    One(String),
    Several(Vec<String>),
}

impl RawSpec {
    fn check(self) -> Result<Spec, SpecError> {
        if self.version != 1 {
            let message = format!("{} is not known, expected 1", self.version);
            return Err(mistake("version", &message));
        }
        let phases = self
            .phases
            .into_iter()
            .enumerate()
            .map(|(index, phase)| phase.check(&format!("phases[{index}]")))
            .collect::<Result<_, _>>()?;
        Ok(Spec {
            connection: self.connection.check()?,
            session: self.session,
            phases,
        })
    }
}

impl RawConnection {
    fn check(self) -> Result<Login, SpecError> {
        let address = match (self.socket, self.host, self.port) {
            (Some(path), None, None) => Address::Socket(path),
            (None, Some(host), Some(port)) => Address::Tcp { host, port },
            _ => {
                return Err(mistake(
                    "connection",
                    "expected either socket, or host and port",
                ));
            }
        };
        Ok(Login {
            address,
            user: self.user,
            password: self.password,
            database: self.database,
        })
    }
}

impl RawPhase {
    fn check(self, key: &str) -> Result<Phase, SpecError> {
        let limit = self
            .limit_s
            .map(|seconds| limit(seconds, key))
            .transpose()?;
        let needed = |what: &str, kind: &str| {
            mistake(
                &format!("{key}.{what}"),
                &format!("is missing; a phase of kind {kind} needs it"),
            )
        };
        let unwanted = |what: &str, kind: &str| {
            mistake(
                &format!("{key}.{what}"),
                &format!("has no meaning in a phase of kind {kind}"),
            )
        };
        let work = match self.kind {
            RawKind::LoadData => {
                if self.sql.is_some() {
                    return Err(unwanted("sql", "load_data"));
                }
                Work::LoadData {
                    table: self.table.ok_or_else(|| needed("table", "load_data"))?,
                    columns: self.columns.ok_or_else(|| needed("columns", "load_data"))?,
                    source: self
                        .source
                        .ok_or_else(|| needed("source", "load_data"))?
                        .check(key)?,
                }
            }
            RawKind::Statement => {
                let given = [
                    ("table", self.table.is_some()),
                    ("columns", self.columns.is_some()),
                    ("source", self.source.is_some()),
                ];
                if let Some((what, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
                    return Err(unwanted(what, "statement"));
                }
                match self.sql.ok_or_else(|| needed("sql", "statement"))? {
                    RawSql::One(sql) => Work::Statements(vec![sql]),
                    RawSql::Several(list) => Work::Statements(list),
                }
            }
        };
        Ok(Phase {
            name: self.name,
            limit,
            work,
        })
    }
}

impl RawSource {
    fn check(self, key: &str) -> Result<Source, SpecError> {
        match self {
            Self::Generate(RawGenerate { rows, .. }) if rows > MAX_ROWS => Err(mistake(
                &format!("{key}.source.generate.rows"),
                &format!("{rows} is more than {MAX_ROWS}"),
            )),
            Self::Generate(RawGenerate { rows, seed, .. }) => Ok(Source::Nodes { rows, seed }),
            // How a quote is written in SQL depends on the server's sql_mode.
            Self::ServerFile(path) if path.contains(['\'', '\\', '\0']) => Err(mistake(
                &format!("{key}.source.server_file"),
                &format!("{path:?} has a quote or a backslash; name the file without"),
            )),
            Self::ServerFile(path) => Ok(Source::ServerFile(path)),
        }
    }
}

fn limit(seconds: f64, key: &str) -> Result<Duration, SpecError> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|limit| !limit.is_zero())
        .ok_or_else(|| {
            let message = format!("{seconds} is no time, expected seconds above 0");
            mistake(&format!("{key}.limit_s"), &message)
        })
}

fn mistake(key: &str, message: &str) -> SpecError {
    SpecError {
        key: key.to_owned(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn good() -> Value {
        json!({
            "version": 1,
            "connection": {"socket": "/run/s", "user": "root", "password": "", "database": "test"},
            "session": ["SET time_zone = '+00:00'"],
            "phases": [
                {"name": "load", "kind": "load_data", "table": "nodes", "columns": ["id", "lat"],
                 "source": {"generate": {"set": "nodes", "rows": 10, "seed": 1}}, "limit_s": 600},
                {"name": "finish", "kind": "statement", "sql": "COMMIT", "limit_s": 0.5},
                {"name": "more", "kind": "statement", "sql": ["COMMIT", "FLUSH TABLES"]},
                {"name": "file", "kind": "load_data", "table": "nodes", "columns": [],
                 "source": {"server_file": "/tmp/nodes"}},
            ],
        })
    }

    fn error_of(change: impl FnOnce(&mut Value)) -> String {
        let mut spec = good();
        change(&mut spec);
        Spec::parse(&spec.to_string()).unwrap_err().to_string()
    }

    #[test]
    fn a_good_specification() {
        let spec = Spec::parse(&good().to_string()).unwrap();
        assert_eq!(spec.connection.address, Address::Socket("/run/s".into()));
        assert_eq!(spec.session.len(), 1);
        assert_eq!(
            spec.phases[0].work,
            Work::LoadData {
                table: "nodes".to_owned(),
                columns: vec!["id".to_owned(), "lat".to_owned()],
                source: Source::Nodes { rows: 10, seed: 1 },
            }
        );
        assert_eq!(spec.phases[1].limit, Some(Duration::from_millis(500)));
        assert_eq!(
            spec.phases[1].work,
            Work::Statements(vec!["COMMIT".to_owned()])
        );
        assert_eq!(spec.phases[2].limit, None);
    }

    #[test]
    fn every_mistake_names_its_key() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 14] = [
            (
                |s| s["version"] = json!(2),
                "version: 2 is not known, expected 1",
            ),
            (
                |s| s["verison"] = json!(1),
                "unknown field `verison`, expected one of `version`",
            ),
            (
                |s| s["connection"]["port"] = json!(1),
                "connection: expected either socket, or",
            ),
            (
                |s| s["connection"]["user"] = json!(1),
                "connection.user: invalid type: integer `1`",
            ),
            (
                |s| s["phases"][0]["kind"] = json!("x"),
                "phases[0].kind: unknown variant `x`, expected",
            ),
            (
                |s| s["phases"][0]["limit"] = json!(1),
                "phases[0].limit: unknown field `limit`",
            ),
            (
                |s| s["phases"][0]["limit_s"] = json!(0),
                "phases[0].limit_s: 0 is no time",
            ),
            (
                |s| s["phases"][0]["limit_s"] = json!(-1),
                "phases[0].limit_s: -1 is no time",
            ),
            (
                |s| s["phases"][0]["sql"] = json!("x"),
                "phases[0].sql: has no meaning in a phase of",
            ),
            (
                |s| s["phases"][1]["sql"] = Value::Null,
                "phases[1].sql: is missing",
            ),
            (
                |s| s["phases"][1]["table"] = json!("t"),
                "phases[1].table: has no meaning",
            ),
            (
                |s| s["phases"][0]["source"]["generate"]["rows"] = json!("many"),
                "phases[0].source.generate.rows: invalid type: string \"many\"",
            ),
            (
                |s| s["phases"][0]["source"]["generate"]["rows"] = json!(MAX_ROWS + 1),
                "phases[0].source.generate.rows: 72057594037927937 is more than",
            ),
            (
                |s| s["phases"][3]["source"]["server_file"] = json!("it's"),
                "phases[3].source.server_file: \"it's\" has a quote",
            ),
        ];
        for (change, expected) in cases {
            let message = error_of(change);
            assert!(
                message.contains(expected),
                "{message:?} should contain {expected:?}"
            );
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        assert!(Spec::parse("").unwrap_err().to_string().contains("EOF"));
        assert!(Spec::parse(&(good().to_string() + "x")).is_err());
    }

    #[test]
    fn the_password_is_never_shown() {
        let mut spec = good();
        spec["connection"]["password"] = json!("s3cret");
        let shown = format!("{:?}", Spec::parse(&spec.to_string()).unwrap());
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
