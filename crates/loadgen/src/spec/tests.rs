use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::tables::Method;
use datagen::MAX_ROWS;
use engine::{Arrivals, DriveSettings, End, IDLE_TIMEOUT, Pacing, Warmup};
use workload::program::Protocol;

mod drive;
mod slices;

fn good() -> Json {
    json!({
        "version": 2,
        "connection": {"socket": "/run/s", "user": "root", "password": "", "database": "test"},
        "session": ["SET time_zone = '+00:00'"],
        "workload": {
            "tables": {"t": {"name": "t", "rows": "{size}", "create": "CREATE TABLE {table} (id int)",
                             "columns": [{"name": "id", "kind": "sequence", "first": 1}]}},
            "generators": {"id": {"kind": "integer", "low": 1, "high": "{size}"}},
            "statements": {"point": {"sql": "SELECT 1 FROM {table} WHERE id = ?", "parameters": ["id"]}},
            "tests": {"point": {"title": "a row", "steps": [{"statements": ["point"]}]}},
        },
        "defaults": {"size": 10, "fast": true, "share": 0.5, "engine": "InnoDB"},
        "values": {"size": 20},
        "seed": 7,
        "phases": [
            {"name": "load", "kind": "load_data", "table": "nodes", "columns": ["id", "lat"],
             "source": {"generate": {"set": "nodes", "rows": 10, "seed": 1}}, "limit_s": 600},
            {"name": "finish", "kind": "statement", "sql": "COMMIT", "limit_s": 0.5},
            {"name": "more", "kind": "statement", "sql": ["COMMIT", "FLUSH TABLES"]},
            {"name": "file", "kind": "load_data", "table": "nodes", "columns": [],
             "source": {"server_file": "/tmp/nodes"}},
            {"name": "tables", "kind": "load_tables", "threads": 2, "method": "single_row",
             "lock_tables": true, "linger_s": 0.25},
            {"name": "verify", "kind": "verify_tables"},
            {"name": "warm", "kind": "warm_tables", "limit_s": 60},
            {"name": "measure", "kind": "drive", "test": "point", "clients": 8, "threads": 1,
             "protocol": "text", "busy_poll": true, "cpus": [0, 2], "retry": ["1213"], "linger_s": 0.25,
             "pings": 3, "statement_activity": "/run/activity", "primary": true,
             "pacing": {"kind": "open", "rate": 1000, "arrivals": "constant", "max_lateness_s": 0.1},
             "warmup": {"kind": "steady", "limit_s": 60},
             "end": {"kind": "operations", "transactions": 100_000}},
            {"name": "again", "kind": "drive", "test": "point", "clients": 1,
             "end": {"kind": "time", "seconds": 0.5}},
        ],
    })
}

fn parse(spec: &Json) -> Result<Spec, ValidationError> {
    Spec::parse(&spec.to_string())
}

#[test]
fn a_good_specification() {
    let spec = parse(&good()).unwrap();
    assert_eq!(spec.connection.address, Address::Socket("/run/s".into()));
    assert!(!spec.connection.tls.is_on());
    assert_eq!(spec.session.len(), 1);
    let workload = spec.workload.unwrap();
    assert_eq!(workload.seed, 7);
    assert_eq!(workload.values["size"], Value::Integer(20));
    assert_eq!(workload.defaults["share"], Value::Float(0.5));
    assert_eq!(
        spec.phases[0].work,
        Work::LoadData(LoadData {
            table: "nodes".to_owned(),
            columns: vec!["id".to_owned(), "lat".to_owned()],
            source: Source::Nodes { rows: 10, seed: 1 },
            slice_rows: None,
        })
    );
    assert_eq!(spec.phases[1].limit, Some(Duration::from_millis(500)));
    assert_eq!(spec.phases[1].work, Work::Statements(vec!["COMMIT".to_owned()]));
    assert_eq!(spec.phases[2].limit, None);
    assert_eq!(
        spec.phases[4].work,
        Work::LoadTables(LoadOptions {
            chunk_rows: 0,
            threads: 2,
            method: Method::SingleRow,
            lock_tables: true,
            linger: Duration::from_millis(250),
        })
    );
    assert_eq!(spec.phases[5].work, Work::VerifyTables);
    assert_eq!(spec.phases[6].work, Work::WarmTables { threads: 0 });
}

#[test]
fn encrypted_connections() {
    let tls = |tls: Json| {
        let mut spec = good();
        spec["connection"]["tls"] = tls;
        parse(&spec).map(|spec| spec.connection.tls.is_on())
    };
    assert_eq!(tls(json!({"mode": "disabled", "ca": null})), Ok(false));
    assert_eq!(tls(json!({"mode": "required"})), Ok(true));
}

#[test]
fn connections_to_other_hosts_are_verified_unless_the_specification_says_otherwise() {
    let mode = |host: &str, tls: Json| {
        let mut spec = good();
        spec["connection"] = json!({"host": host, "port": 3306, "user": "me", "tls": tls});
        match parse(&spec) {
            Ok(spec) => spec.connection.tls.verifies(),
            // This host may trust nobody.
            Err(mistake) => mistake.to_string().contains("trusts no certificate authorities"),
        }
    };
    assert!(mode("db.test", Json::Null));
    assert!(!mode("db.test", json!({"mode": "disabled"})));
    assert!(!mode("127.0.0.1", Json::Null));
}

type Change = fn(&mut Json);

fn assert_mistakes(cases: &[(Change, &str)]) {
    for (change, expected) in cases {
        let mut spec = good();
        change(&mut spec);
        let message = parse(&spec).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{message:?} should start with {expected:?}");
    }
}

#[test]
fn every_mistake_at_the_top_names_its_key() {
    assert_mistakes(&[
        (|s| s["version"] = json!(1), "version: 1 is not known, expected 2"),
        (
            |s| s["verison"] = json!(2),
            "verison: unknown field `verison`, expected one of `version`",
        ),
        (|s| s["connection"]["port"] = json!(1), "connection: expected either socket, or"),
        (|s| s["connection"]["user"] = json!(1), "connection.user: invalid type: integer `1`"),
        (
            |s| s["connection"]["tls"] = json!({"mode": "on"}),
            "connection.tls.mode: unknown variant `on`",
        ),
        (
            |s| s["connection"]["tls"] = json!({"mode": "verify-ca", "ca": null}),
            "connection.tls.ca: verify-ca needs a file",
        ),
        (
            |s| s["connection"]["tls"] = json!({"mode": "verify-ca", "ca": "/absent.pem"}),
            "connection.tls.ca: /absent.pem",
        ),
        (
            |s| s["connection"]["tls"] = json!({"mode": "required", "ca": "/x"}),
            "connection.tls.ca: has a meaning in",
        ),
        (|s| s["workload"] = json!(null), "workload: is missing; phases[4] needs it"),
        (
            |s| {
                s["workload"] = json!(null);
                s["phases"] = json!([]);
            },
            "defaults: has no meaning without a workload",
        ),
        (|s| s["seed"] = json!(null), "seed: is missing"),
        (|s| s["seed"] = json!(-1), "seed: invalid value"),
        (|s| s["values"]["size"] = json!([]), "values.size: data did not match"),
        (
            |s| s["workload"]["tests"]["point"]["stepz"] = json!([]),
            "workload.tests.point.stepz: unknown field",
        ),
        (
            |s| s["workload"]["generators"]["id"]["kind"] = json!("dice"),
            "workload.generators.id.kind: unknown variant `dice`",
        ),
        (
            |s| s["workload"]["generators"]["id"]["hihg"] = json!(1),
            "workload.generators.id.hihg: unknown field `hihg`, expected one of `low`, `high`, ",
        ),
    ]);
}

#[test]
fn every_mistake_in_a_phase_names_its_key() {
    assert_mistakes(&[
        (|s| s["phases"][0]["kind"] = json!("x"), "phases[0].kind: unknown variant `x`, expected"),
        (|s| s["phases"][0]["limit"] = json!(1), "phases[0].limit: unknown field `limit`"),
        (|s| s["phases"][0]["limit_s"] = json!(0), "phases[0].limit_s: 0 is no time"),
        (|s| s["phases"][0]["limit_s"] = json!(-1), "phases[0].limit_s: -1 is no time"),
        (|s| s["phases"][0]["sql"] = json!("x"), "phases[0].sql: unknown field `sql`"),
        (
            |s| {
                s["phases"][1].as_object_mut().unwrap().remove("sql");
            },
            "phases[1]: missing field `sql`",
        ),
        (|s| s["phases"][1]["sql"] = json!(1), "phases[1].sql: expected a statement or a list"),
        (|s| s["phases"][1]["table"] = json!("t"), "phases[1].table: unknown field `table`"),
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
        (|s| s["phases"][4]["method"] = json!("local"), "phases[4].lock_tables: has no meaning"),
        (|s| s["phases"][4]["method"] = json!("bulk"), "phases[4].method: unknown variant `bulk`"),
        (|s| s["phases"][5]["threads"] = json!(1), "phases[5].threads: unknown field"),
        (|s| s["phases"][6]["threads"] = json!(-1), "phases[6].threads: invalid value"),
    ]);
}

#[test]
fn what_is_not_json_is_refused() {
    assert!(Spec::parse("").unwrap_err().to_string().contains("EOF"));
    assert!(Spec::parse(&(good().to_string() + "x")).is_err());
}

#[test]
fn an_unknown_name_says_which_is_meant() {
    let mut spec = good();
    spec["workload"]["generators"]["id"]["kind"] = json!("integr");
    let message = parse(&spec).unwrap_err().to_string();
    assert!(message.ends_with("; did you mean `integer`?"), "{message}");
}

#[test]
fn a_key_twice_is_a_mistake() {
    let spec = good().to_string().replacen(
        r#""kind":"verify_tables""#,
        r#""kind":"verify_tables","kind":"drive""#,
        1,
    );
    let message = Spec::parse(&spec).unwrap_err().to_string();
    assert_eq!(message, "phases[5]: duplicate field `kind`");
}

#[test]
fn the_password_is_never_shown() {
    let mut spec = good();
    spec["connection"]["password"] = json!("s3cret");
    let shown = format!("{:?}", parse(&spec).unwrap());
    assert!(!shown.contains("s3cret"), "{shown}");
}

proptest! {
    /// Whatever is cut from a specification or put into it, reading it never panics.
    #[test]
    fn damage_is_a_mistake_or_harmless(at in 0usize..3000, cut in 0usize..40, new in "[\\[\\]{}\",:0-9a-z-]{0,4}") {
        let mut text = good().to_string();
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        text.replace_range(at..end, &new);
        let _ = Spec::parse(&text);
    }
}
