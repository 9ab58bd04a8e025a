//! Groups of background clients have their own rate and records.

use std::time::Duration;

use engine::{Arrivals, BackgroundClients, DriveSettings, End, Pacing, PacingResult, Part, Report};

use super::pacing::fate;
use super::server::{Answer, OK, Server, StatementScript};
use super::{drive_reporting, drive_scripts, settings};

fn group(test: &str, clients: u32, pacing: Pacing) -> BackgroundClients {
    BackgroundClients {
        test: test.to_owned(),
        clients,
        pacing,
        names: StatementScript::names(2),
        seed: 1,
    }
}

#[test]
fn groups_have_their_rates_and_records() {
    let server = Server::new(|_| Answer::Bytes(OK.to_vec()));
    let paced = Pacing::Open { rate: 50.0, arrivals: Arrivals::Constant, max_lateness: None };
    let settings = DriveSettings {
        end: End::Time(Duration::from_secs(2)),
        background_clients: vec![group("paced", 2, paced), group("eager", 1, Pacing::Closed)],
        ..settings(2, 2)
    };
    // Connections 0 and 1 are the drive's; the next two are the first group's.
    let script = |connection| StatementScript::new(if connection < 2 { 1 } else { 2 });
    let (driven, reports) = drive_reporting(&settings, &server, 1, &script);
    let driven = driven.unwrap();
    assert_eq!(driven.clients, 2);
    let counts = |records: &[engine::Record]| records.iter().map(|each| each.count).sum::<u64>();
    let [paced, eager] = &driven.background_clients[..] else {
        panic!("{:?}", driven.background_clients)
    };
    assert_eq!((paced.test.as_str(), paced.clients), ("paced", 2));
    let (scheduled, _, skipped) = fate(&paced.pacing);
    assert_eq!(scheduled, 100);
    assert_eq!(counts(&paced.transactions), scheduled - skipped);
    assert_eq!(paced.statements.len(), 2);
    assert_eq!(counts(&paced.statements), 2 * counts(&paced.transactions));
    assert!(paced.transactions[0].response.is_some());
    assert_eq!(eager.pacing, PacingResult::Closed);
    assert!(counts(&eager.transactions) > scheduled);
    let own = counts(&driven.transactions);
    assert_eq!(counts(&driven.statements), own);
    let reported: u64 = reports
        .iter()
        .map(|report| match report {
            Report::Interval(interval) if interval.part == Part::Measure => {
                interval.totals.transactions
            }
            _ => 0,
        })
        .sum();
    assert!(reported <= own, "{reported} of {own}: intervals are of the drive's own clients");
}

#[test]
fn a_group_that_a_slow_server_holds_up_says_what_it_missed() {
    let server = Server::answering_after(|_| Duration::from_millis(100));
    let paced = Pacing::Open { rate: 100.0, arrivals: Arrivals::Constant, max_lateness: None };
    let settings =
        DriveSettings { background_clients: vec![group("paced", 1, paced)], ..settings(1, 1) };
    let driven = drive_scripts(&settings, &server, 1, &|_| StatementScript::new(1));
    let paced = &driven.background_clients[0];
    let (scheduled, _, skipped) = fate(&paced.pacing);
    assert_eq!(scheduled, 100);
    assert!(skipped > 50, "{skipped}");
}
