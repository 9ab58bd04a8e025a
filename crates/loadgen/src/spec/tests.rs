use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::tables::Method;
use engine::{Arrivals, DriveSettings, End, Pacing, SliceSettings, Warmup};
use workload::program::Protocol;

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

/// Assert the mistakes of a specification with a value changed: `POINTER = JSON -> MESSAGE`, where `-`
/// removes the value and the message may go on.
fn assert_mistakes(good: &Json, table: &str) {
    for line in table.lines().filter(|line| !line.trim().is_empty()) {
        let (pointer, rest) = line.trim().split_once(" = ").unwrap();
        let (value, expected) = rest.split_once(" -> ").unwrap();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let mut spec = good.clone();
        match (spec.pointer_mut(parent).unwrap(), value) {
            (Json::Object(map), "-") => _ = map.remove(key),
            (Json::Object(map), value) => _ = map.insert(key.to_owned(), value.parse().unwrap()),
            (list, value) => list[key.parse::<usize>().unwrap()] = value.parse().unwrap(),
        }
        let message = parse(&spec).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{message:?} should start with {expected:?}");
    }
}

#[test]
fn every_mistake_at_the_top_names_its_key() {
    assert_mistakes(
        &good(),
        r#"
        /version = 1 -> version: 1 is not known, expected 2
        /verison = 2 -> verison: unknown field `verison`, expected one of `version`
        /connection/port = 1 -> connection: expected either socket, or
        /connection/user = 1 -> connection.user: invalid type: integer `1`
        /connection/tls = {"mode": "on"} -> connection.tls.mode: unknown variant `on`
        /connection/tls = {"mode": "verify-ca", "ca": null} -> connection.tls.ca: verify-ca needs a file
        /connection/tls = {"mode": "verify-ca", "ca": "/absent.pem"} -> connection.tls.ca: /absent.pem
        /connection/tls = {"mode": "required", "ca": "/x"} -> connection.tls.ca: has a meaning in
        /workload = null -> workload: is missing; phases[4] needs it
        /seed = null -> seed: is missing
        /seed = -1 -> seed: invalid value
        /values/size = [] -> values.size: data did not match
        /workload/tests/point/stepz = [] -> workload.tests.point.stepz: unknown field
        /workload/generators/id/kind = "dice" -> workload.generators.id.kind: unknown variant `dice`
        /workload/generators/id/hihg = 1 -> workload.generators.id.hihg: unknown field `hihg`, expected one of `low`, `high`,
        "#,
    );
    let mut without = good();
    without["workload"] = Json::Null;
    assert_mistakes(&without, "/phases = [] -> defaults: has no meaning without a workload");
}

#[test]
fn every_mistake_in_a_phase_names_its_key() {
    assert_mistakes(
        &good(),
        r#"
        /phases/0/kind = "x" -> phases[0].kind: unknown variant `x`, expected
        /phases/0/limit = 1 -> phases[0].limit: unknown field `limit`
        /phases/0/limit_s = 0 -> phases[0].limit_s: 0 is not a time
        /phases/0/limit_s = -1 -> phases[0].limit_s: -1 is not a time
        /phases/0/sql = "x" -> phases[0].sql: unknown field `sql`
        /phases/1/sql = - -> phases[1]: missing field `sql`
        /phases/1/sql = 1 -> phases[1].sql: expected a statement or a list
        /phases/1/table = "t" -> phases[1].table: unknown field `table`
        /phases/0/source/generate/rows = "many" -> phases[0].source.generate.rows: invalid type: string "many"
        /phases/3/source/server_file = "it's" -> phases[3].source.server_file: "it's" has a quote
        /phases/4/method = "local" -> phases[4].lock_tables: has no meaning
        /phases/4/method = "bulk" -> phases[4].method: unknown variant `bulk`
        /phases/5/threads = 1 -> phases[5].threads: unknown field
        /phases/6/threads = -1 -> phases[6].threads: invalid value
        /phases/0/source/generate/rows = 72057594037927937 -> phases[0].source.generate.rows: 72057594037927937 is more than
        "#,
    );
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
fn the_password_of_no_server_is_ever_shown() {
    let mut spec = good_slices();
    spec["connection"]["password"] = json!("s3cret");
    let shown = format!("{:?}", parse(&spec).unwrap());
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn what_drives_clients() {
    let spec = parse(&good()).unwrap();
    let Work::Drive(full) = &spec.phases[7].work else { panic!("{:?}", spec.phases[7]) };
    assert_eq!(
        **full,
        Drive {
            test: "point".to_owned(),
            protocol: Protocol::Text,
            settings: DriveSettings {
                pacing: Pacing::Open {
                    rate: 1000.0,
                    arrivals: Arrivals::Constant,
                    max_lateness: Some(Duration::from_millis(100)),
                },
                warmup: Warmup::Steady { limit: Duration::from_secs(60) },
                retry: vec![1213],
                busy_poll: true,
                cpus: vec![0, 2],
                linger: Duration::from_millis(250),
                statement_activity: Some("/run/activity".into()),
                seed: 7,
                ..DriveSettings::closed_loop(8, 1, End::Operations(100_000))
            },
            maintenance: Vec::new(),
            pings: 3,
            primary: true,
        }
    );
    let Work::Drive(short) = &spec.phases[8].work else { panic!("{:?}", spec.phases[8]) };
    assert!(!short.primary);
    let settings = &short.settings;
    assert_eq!(settings.pacing, Pacing::Closed);
    assert_eq!(settings.warmup, Warmup::Time(Duration::ZERO));
    assert_eq!(settings.end, End::Time(Duration::from_millis(500)));
    assert_eq!(settings.linger, Duration::ZERO);
    assert_eq!(settings.statement_activity, None);
    assert_eq!((short.protocol, &*settings.retry), (Protocol::Prepared, &RETRY[..]));
}

#[test]
fn statements_of_maintenance_are_of_the_drive() {
    let mut spec = good();
    spec["phases"][8]["maintenance"] =
        json!({"after_s": 0.25, "sql": ["DROP TABLE a", "SELECT 1"]});
    let spec = parse(&spec).unwrap();
    let Work::Drive(drive) = &spec.phases[8].work else { panic!("{:?}", spec.phases[8]) };
    assert_eq!(drive.maintenance, ["DROP TABLE a", "SELECT 1"]);
    assert_eq!(drive.settings.maintenance_after, Some(Duration::from_millis(250)));
}

#[test]
fn the_only_phase_that_drives_clients_is_the_primary_one() {
    let mut spec = good();
    let phases = spec["phases"].as_array_mut().unwrap();
    phases.remove(7);
    let spec = parse(&spec).unwrap();
    assert!(matches!(&spec.phases[7].work, Work::Drive(drive) if drive.primary));
}

#[test]
fn every_mistake_in_what_drives_clients_names_its_key() {
    assert_mistakes(
        &good(),
        r#"
        /phases/7/primary = false -> phases: 2 of them drive clients, and 0 have primary = true; expected one
        /phases/8/primary = true -> phases: 2 of them drive clients, and 2 have primary = true; expected one
        /phases/7/maintenance = {"after_s": 1, "sql": "DROP TABLE t"} -> phases[7].maintenance: needs an end by time, which it moves
        /phases/8/maintenance = {"after_s": 0.6, "sql": []} -> phases[8].maintenance.after_s: 0.6 is after the end at 0.5
        /phases/8/maintenance = {"after_s": -1, "sql": []} -> phases[8].maintenance.after_s: -1 is not a time
        /phases/7/clients = 0 -> phases[7].clients: 0 is not from 1 to
        /phases/7/clients = 100001 -> phases[7].clients: 100001 is not
        /phases/4/linger_s = -1 -> phases[4].linger_s: -1 is not a time
        /phases/7/linger_s = -0.5 -> phases[7].linger_s: -0.5 is not a time
        /phases/7/cpus = [] -> phases[7].cpus: is empty
        /phases/7/cpus = [0, 1024] -> phases[7].cpus[1]: 1024 is not the number of a CPU, which is from 0 to 1023
        /phases/7/pacing = {"kind": "closed", "rate": 1} -> phases[7].pacing.rate: unknown field `rate`
        /phases/7/pacing/kind = "ajar" -> phases[7].pacing.kind: unknown variant `ajar`
        /phases/7/pacing/rate = 0 -> phases[7].pacing.rate: 0 is not a rate
        /phases/7/pacing/rate = "1k" -> phases[7].pacing.rate: invalid type
        /phases/7/pacing/max_lateness_s = 0 -> phases[7].pacing.max_lateness_s: 0 is not a time
        /phases/7/warmup = {"kind": "time", "seconds": -1} -> phases[7].warmup.seconds: -1 is not a time
        /phases/7/warmup/seconds = 1 -> phases[7].warmup.seconds: unknown field
        /phases/7/end/transactions = 0 -> phases[7].end.transactions: 0 is too few, expected 1 or more
        /phases/7/retry = [1213] -> phases[7].retry[0]: invalid type
        /phases/7/retry = ["1213", "deadlock"] -> phases[7].retry[1]: "deadlock" is not an error code
        /phases/8/end = - -> phases[8]: missing field `end`
        "#,
    );
}

/// Return a specification of two servers with 3 clients each, driven in slices.
fn good_slices() -> Json {
    let mut spec = good();
    spec["against"] =
        json!([{"host": "127.0.0.1", "port": 3307, "user": "u", "password": "s3cret"}]);
    spec["phases"] = json!([
        {"name": "measure", "kind": "drive", "test": "point", "clients": 3,
         "end": {"kind": "time", "seconds": 2.0},
         "slices": {"at_least_s": 0.005, "at_most_s": 0.2, "transactions": 150}},
    ]);
    spec
}

#[test]
fn several_servers_are_driven_in_slices_and_a_side_may_be_slower() {
    let mut spec = good_slices();
    spec["phases"][0]["slices"]["slowdowns"] = json!([0, 0.01]);
    let spec = parse(&spec).unwrap();
    assert_eq!(spec.connection.address, Address::Socket("/run/s".into()));
    let [against] = spec.against.as_slice() else { panic!("{:?}", spec.against) };
    assert_eq!(against.address, Address::Tcp { host: "127.0.0.1".to_owned(), port: 3307 });
    let Work::Drive(drive) = &spec.phases[0].work else { panic!("{:?}", spec.phases[0]) };
    let (at_least, at_most) = (Duration::from_millis(5), Duration::from_millis(200));
    let slices = SliceSettings { sides: 2, at_least, at_most, transactions: 150 };
    assert_eq!(drive.settings.slices, Some(slices));
    assert_eq!(drive.settings.slowdowns, [0.0, 0.01]);
    assert_eq!((drive.settings.clients, drive.settings.connections()), (3, 6));
    assert_eq!(drive.settings.thread_count(), 1);
}

#[test]
fn without_other_servers_there_are_no_slices() {
    let mut spec = good();
    spec["against"] = json!(null);
    spec["phases"][8]["slices"] = json!(null);
    let spec = parse(&spec).unwrap();
    assert!(spec.against.is_empty());
    let Work::Drive(drive) = &spec.phases[8].work else { panic!("{:?}", spec.phases[8]) };
    assert_eq!((drive.settings.slices, drive.settings.connections()), (None, 1));
}

#[test]
fn every_mistake_with_several_servers_names_its_key() {
    assert_mistakes(
        &good_slices(),
        r#"
        /against = [] -> against: has 0 servers, expected 1 to 7
        /against = {} -> against: invalid type: map, expected a sequence
        /against/0/port = null -> against[0]: expected either socket, or
        /against/0/user = 1 -> against[0].user: invalid type: integer `1`
        /against/0/usr = "u" -> against[0].usr: unknown field `usr`
        /against/0/tls = {"mode": "verify-ca", "ca": "/absent.pem"} -> against[0].tls.ca: /absent.pem
        /against/0/tls = {"mode": "required", "ca": "/x"} -> against[0].tls.ca: has a meaning in
        /against = null -> phases[0].slices: has no meaning without against
        /phases/0/slices = null -> phases[0].slices: is missing; a run with against needs it
        /phases/0 = {"name": "warm", "kind": "warm_tables"} -> phases[0].kind: works on one server; a run with against has the kinds drive, load_data
        /phases/0/slices/at_least_s = 0 -> phases[0].slices.at_least_s: 0 is not a time
        /phases/0/slices/at_most_s = 0.001 -> phases[0].slices.at_most_s: 0.001 is less than at_least_s, 0.005
        /phases/0/slices/transactions = 0 -> phases[0].slices.transactions: 0 is too few, expected 1 or more
        /phases/0/slices/slowdowns = [0.1] -> phases[0].slices.slowdowns: has 1, expected one for each of 2 sides
        /phases/0/slices/slowdowns = [0, 1.5] -> phases[0].slices.slowdowns[1]: 1.5 is not from 0 to 1
        /phases/0/slices/order = 1 -> phases[0].slices.order: unknown field
        /phases/0/pacing = {"kind": "open", "rate": 10} -> phases[0].pacing.kind: slices need a closed loop
        /phases/0/threads = 2 -> phases[0].threads: 2 is too many; slices use
        /phases/0/end = {"kind": "operations", "transactions": 5} -> phases[0].end.kind: slices need an end by time
        /phases/0/end/seconds = 2501 -> phases[0].end.seconds: 2501 are more than 500000 slices; expected longer slices
        /phases/0/clients = 50001 -> phases[0].clients: 50001 on each of 2 servers are more than 100000
        "#,
    );
    let many = vec![good()["connection"].clone(); 8];
    let eight = format!("/against = {} -> against: has 8 servers, expected 1 to 7", json!(many));
    assert_mistakes(&good_slices(), &eight);
}

/// Return a specification of two servers that load in slices.
fn good_load() -> Json {
    let mut spec = good();
    spec["against"] = json!([{"socket": "/run/other", "user": "u"}]);
    spec["phases"] = json!([spec["phases"][1], spec["phases"][0]]);
    spec["phases"][1]["slices"] = json!({"rows": 4000});
    spec
}

#[test]
fn several_servers_load_in_slices() {
    let spec = parse(&good_load()).unwrap();
    let Work::LoadData(load) = &spec.phases[1].work else { panic!("{:?}", spec.phases[1]) };
    assert_eq!(load.slice_rows, Some(4000));
}

#[test]
fn every_mistake_with_servers_that_load_in_slices_names_its_key() {
    assert_mistakes(
        &good_load(),
        r#"
        /phases/1/slices = null -> phases[1].slices: is missing; a run with against needs it
        /against = null -> phases[1].slices: has no meaning without against
        /phases/1/slices/rows = 0 -> phases[1].slices.rows: 0 is not from 1 to 1000000
        /phases/1/source/generate/rows = 3000000000 -> phases[1].slices.rows: 3000000000 rows are more than 500000 slices of 4000
        /phases/1/source = {"server_file": "/nodes"} -> phases[1].source.server_file: a server that reads a file itself takes no turns
        /against/0 = {"host": "127.0.0.1", "port": 1, "user": "u"} -> phases[1].slices: need connections by socket
        /phases/1/slices/ms = 1 -> phases[1].slices.ms: unknown field
        "#,
    );
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
