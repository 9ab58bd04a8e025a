//! Specifications of several servers.

use super::*;
use engine::SliceSettings;

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
fn several_servers_are_driven_in_slices() {
    let spec = parse(&good_slices()).unwrap();
    assert_eq!(spec.connection.address, Address::Socket("/run/s".into()));
    let [against] = spec.against.as_slice() else { panic!("{:?}", spec.against) };
    assert_eq!(against.address, Address::Tcp { host: "127.0.0.1".to_owned(), port: 3307 });
    let Work::Drive(drive) = &spec.phases[0].work else { panic!("{:?}", spec.phases[0]) };
    let (at_least, at_most) = (Duration::from_millis(5), Duration::from_millis(200));
    let slices = SliceSettings { sides: 2, at_least, at_most, transactions: 150 };
    assert_eq!(drive.settings.slices, Some(slices));
    assert_eq!((drive.settings.clients, drive.settings.connections()), (3, 6));
    assert_eq!(drive.settings.thread_count(), 1);
}

#[test]
fn a_side_may_be_slower() {
    let mut spec = good_slices();
    spec["phases"][0]["slices"]["slowdowns"] = json!([0, 0.01]);
    let spec = parse(&spec).unwrap();
    let Work::Drive(drive) = &spec.phases[0].work else { panic!("{:?}", spec.phases[0]) };
    assert_eq!(drive.settings.slowdowns, [0.0, 0.01]);
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
fn the_password_of_no_server_is_ever_shown() {
    let shown = format!("{:?}", parse(&good_slices()).unwrap());
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn every_mistake_with_several_servers_names_its_key() {
    let cases: [(Change, &str); 22] = [
        (|s| s["against"] = json!([]), "against: has 0 servers, expected 1 to 7"),
        (
            |s| s["against"] = json!(vec![s["connection"].clone(); 8]),
            "against: has 8 servers, expected 1 to 7",
        ),
        (|s| s["against"] = json!({}), "against: invalid type: map, expected a sequence"),
        (|s| s["against"][0]["port"] = json!(null), "against[0]: expected either socket, or"),
        (|s| s["against"][0]["user"] = json!(1), "against[0].user: invalid type: integer `1`"),
        (|s| s["against"][0]["usr"] = json!("u"), "against[0].usr: unknown field `usr`"),
        (
            |s| s["against"][0]["tls"] = json!({"mode": "verify-ca", "ca": "/absent.pem"}),
            "against[0].tls.ca: /absent.pem",
        ),
        (
            |s| s["against"][0]["tls"] = json!({"mode": "required", "ca": "/x"}),
            "against[0].tls.ca: has a meaning in",
        ),
        (|s| s["against"] = json!(null), "phases[0].slices: has no meaning without against"),
        (
            |s| s["phases"][0]["slices"] = json!(null),
            "phases[0].slices: is missing; a run with against needs it",
        ),
        (
            |s| s["phases"][0] = json!({"name": "warm", "kind": "warm_tables"}),
            "phases[0].kind: works on one server; a run with against has the kinds drive, load_data",
        ),
        (
            |s| s["phases"][0]["slices"]["at_least_s"] = json!(0),
            "phases[0].slices.at_least_s: 0 is no time",
        ),
        (
            |s| s["phases"][0]["slices"]["at_most_s"] = json!(0.001),
            "phases[0].slices.at_most_s: 0.001 is less than at_least_s, 0.005",
        ),
        (
            |s| s["phases"][0]["slices"]["transactions"] = json!(0),
            "phases[0].slices.transactions: 0 is no slice",
        ),
        (
            |s| s["phases"][0]["slices"]["slowdowns"] = json!([0.1]),
            "phases[0].slices.slowdowns: has 1, expected one for each of 2 sides",
        ),
        (
            |s| s["phases"][0]["slices"]["slowdowns"] = json!([0, 1.5]),
            "phases[0].slices.slowdowns[1]: 1.5 is not from 0 to 1",
        ),
        (|s| s["phases"][0]["slices"]["order"] = json!(1), "phases[0].slices.order: unknown field"),
        (
            |s| s["phases"][0]["pacing"] = json!({"kind": "open", "rate": 10}),
            "phases[0].pacing.kind: slices need a closed loop",
        ),
        (|s| s["phases"][0]["threads"] = json!(2), "phases[0].threads: 2 is too many; slices use"),
        (
            |s| s["phases"][0]["end"] = json!({"kind": "operations", "transactions": 5}),
            "phases[0].end.kind: slices need an end by time",
        ),
        (
            |s| s["phases"][0]["end"]["seconds"] = json!(2_501),
            "phases[0].end.seconds: 2501 are more than 500000 slices; expected longer slices",
        ),
        (
            |s| s["phases"][0]["clients"] = json!(50_001),
            "phases[0].clients: 50001 on each of 2 servers are more than 100000",
        ),
    ];
    for (change, expected) in cases {
        assert_mistake(good_slices(), change, expected);
    }
}

fn assert_mistake(mut spec: Json, change: Change, expected: &str) {
    change(&mut spec);
    let message = parse(&spec).unwrap_err().to_string();
    assert!(message.starts_with(expected), "{message:?} should start with {expected:?}");
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
    let cases: [(Change, &str); 7] = [
        (
            |s| s["phases"][1]["slices"] = json!(null),
            "phases[1].slices: is missing; a run with against needs it",
        ),
        (|s| s["against"] = json!(null), "phases[1].slices: has no meaning without against"),
        (
            |s| s["phases"][1]["slices"]["rows"] = json!(0),
            "phases[1].slices.rows: 0 is not from 1 to 1000000",
        ),
        (
            |s| s["phases"][1]["source"]["generate"]["rows"] = json!(3_000_000_000_u64),
            "phases[1].slices.rows: 3000000000 rows are more than 500000 slices of 4000",
        ),
        (
            |s| s["phases"][1]["source"] = json!({"server_file": "/nodes"}),
            "phases[1].source.server_file: a server that reads a file itself takes no turns",
        ),
        (
            |s| s["against"][0] = json!({"host": "127.0.0.1", "port": 1, "user": "u"}),
            "phases[1].slices: need connections by socket",
        ),
        (|s| s["phases"][1]["slices"]["ms"] = json!(1), "phases[1].slices.ms: unknown field"),
    ];
    for (change, expected) in cases {
        assert_mistake(good_load(), change, expected);
    }
}
