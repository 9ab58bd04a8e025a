//! Maintenance statements run in the middle of a drive and split the clients' records into parts.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use engine::{DriveResult, DriveSettings, End, Failed, RunStatements};
use protocol::ClientError;

use super::server::{OK, Server, StatementScript};
use super::settings;

fn maintained(clients: u32, run: RunStatements<'_>) -> Result<DriveResult, Failed> {
    let server = Server::answering(OK);
    let settings = DriveSettings {
        end: End::Time(Duration::from_millis(400)),
        maintenance_after: Some(Duration::from_millis(200)),
        ..settings(clients, 1)
    };
    engine::drive(
        &settings,
        &StatementScript::names(1),
        |client| Ok((server.connect(client), StatementScript::new(1))),
        Some(run),
        &|_| (),
        &AtomicBool::new(false),
    )
}

#[test]
fn parts_are_all_transactions_and_all_of_the_time() {
    let took = Duration::from_millis(300);
    let run = Box::new(|| {
        thread::sleep(took);
        Ok(vec![took])
    });
    let driven = maintained(3, run).unwrap();
    let maintenance = driven.maintenance.unwrap();
    assert_eq!(maintenance.statements_s, [0.3]);
    assert!(maintenance.until_s - maintenance.from_s >= 0.3);
    let names: Vec<&str> = maintenance.parts.iter().map(|part| &*part.record.name).collect();
    assert_eq!(names, ["before", "during", "after"]);
    assert!(maintenance.parts.iter().all(|part| part.record.count > 0));
    let counts: u64 = maintenance.parts.iter().map(|part| part.record.service.count()).sum();
    assert_eq!(counts, driven.transactions[0].count);
    let durations: Vec<f64> = maintenance.parts.iter().map(|part| part.duration_s).collect();
    assert!((durations.iter().sum::<f64>() - driven.duration_s).abs() < 1e-6);
    assert!(durations[0] >= 0.2 && durations[1] >= 0.3 && durations[2] >= 0.199);
    assert!(!driven.partial);
}

#[test]
fn a_statement_that_fails_ends_the_drive() {
    let run = Box::new(|| Err(ClientError::Interrupted));
    let failed = maintained(2, run).unwrap_err();
    assert!(matches!(failed.error, ClientError::Interrupted));
    let driven = failed.driven.unwrap();
    assert!(driven.partial && driven.maintenance.is_none());
}
