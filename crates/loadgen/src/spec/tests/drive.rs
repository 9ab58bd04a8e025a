//! Phases that drive clients.

use super::*;

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
                clients: 8,
                threads: 1,
                pacing: Pacing::Open {
                    rate: 1000.0,
                    arrivals: Arrivals::Constant,
                    max_lateness: Some(Duration::from_millis(100)),
                },
                warmup: Warmup::Steady { limit: Duration::from_secs(60) },
                end: End::Operations(100_000),
                retry: vec![1213],
                busy_poll: true,
                cpus: vec![0, 2],
                limit: None,
                idle_timeout: IDLE_TIMEOUT,
                linger: Duration::from_millis(250),
                statement_activity: Some("/run/activity".into()),
                slices: None,
                maintenance_after: None,
                slowdowns: Vec::new(),
                background_clients: Vec::new(),
                seed: 7,
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
    assert_mistakes(&[
        (
            |s| s["phases"][7]["primary"] = json!(false),
            "phases: 2 of them drive clients, and 0 have primary = true; expected one",
        ),
        (
            |s| s["phases"][8]["primary"] = json!(true),
            "phases: 2 of them drive clients, and 2 have primary = true; expected one",
        ),
        (
            |s| s["phases"][7]["maintenance"] = json!({"after_s": 1, "sql": "DROP TABLE t"}),
            "phases[7].maintenance: needs an end by time, which it moves",
        ),
        (
            |s| s["phases"][8]["maintenance"] = json!({"after_s": 0.6, "sql": []}),
            "phases[8].maintenance.after_s: 0.6 is after the end at 0.5",
        ),
        (
            |s| s["phases"][8]["maintenance"] = json!({"after_s": -1, "sql": []}),
            "phases[8].maintenance.after_s: -1 is no time",
        ),
        (|s| s["phases"][7]["clients"] = json!(0), "phases[7].clients: 0 is not from 1 to"),
        (|s| s["phases"][7]["clients"] = json!(100_001), "phases[7].clients: 100001 is not"),
        (|s| s["phases"][4]["linger_s"] = json!(-1), "phases[4].linger_s: -1 is no time"),
        (|s| s["phases"][7]["linger_s"] = json!(-0.5), "phases[7].linger_s: -0.5 is no time"),
        (|s| s["phases"][7]["cpus"] = json!([]), "phases[7].cpus: is empty"),
        (
            |s| s["phases"][7]["cpus"] = json!([0, 1024]),
            "phases[7].cpus[1]: 1024 is no CPU; they are numbered from 0 to 1023",
        ),
        (
            |s| s["phases"][7]["pacing"] = json!({"kind": "closed", "rate": 1}),
            "phases[7].pacing.rate: unknown field `rate`",
        ),
        (
            |s| s["phases"][7]["pacing"]["kind"] = json!("ajar"),
            "phases[7].pacing.kind: unknown variant `ajar`",
        ),
        (|s| s["phases"][7]["pacing"]["rate"] = json!(0), "phases[7].pacing.rate: 0 is no rate"),
        (|s| s["phases"][7]["pacing"]["rate"] = json!("1k"), "phases[7].pacing.rate: invalid type"),
        (
            |s| s["phases"][7]["pacing"]["max_lateness_s"] = json!(0),
            "phases[7].pacing.max_lateness_s: 0 is no time",
        ),
        (
            |s| s["phases"][7]["warmup"] = json!({"kind": "time", "seconds": -1}),
            "phases[7].warmup.seconds: -1 is no time",
        ),
        (
            |s| s["phases"][7]["warmup"]["seconds"] = json!(1),
            "phases[7].warmup.seconds: unknown field",
        ),
        (
            |s| s["phases"][7]["end"]["transactions"] = json!(0),
            "phases[7].end.transactions: 0 is no work",
        ),
        (|s| s["phases"][7]["retry"] = json!([1213]), "phases[7].retry[0]: invalid type"),
        (
            |s| s["phases"][7]["retry"] = json!(["1213", "deadlock"]),
            "phases[7].retry[1]: \"deadlock\" is not an error code",
        ),
        (
            |s| {
                s["phases"][8].as_object_mut().unwrap().remove("end");
            },
            "phases[8]: missing field `end`",
        ),
    ]);
}
