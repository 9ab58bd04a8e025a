//! Statement errors are counted, retried and rolled back.

use std::thread;
use std::time::Duration;

use engine::{DriveSettings, End};

use super::server::{Answer, OK, Server, StatementScript, error};
use super::work::until;
use super::{drive, drive_scripts, settings};

#[test]
fn errors_are_counted_by_code_and_the_clients_go_on() {
    // Of every four requests, the third fails with a duplicate key and the fourth with a deadlock.
    let server = Server::new(|asked| match asked.number % 4 {
        2 => Answer::Bytes(error(1062)),
        3 => Answer::Bytes(error(1213)),
        _ => Answer::Bytes(OK.to_vec()),
    });
    let driven = drive(&until(90, 1, 1), &server).unwrap();
    let (statement, transaction) = (&driven.statements[0], &driven.transactions[0]);
    assert_eq!((transaction.count, transaction.errors[&1062]), (60, 30));
    assert_eq!(transaction.errors.len(), 1, "{:?}", transaction.errors);
    let deadlocks = statement.errors[&1213];
    assert!((29..=30).contains(&deadlocks));
    assert_eq!((transaction.tally.retries, statement.tally.retries), (deadlocks, deadlocks));
    assert_eq!(statement.count + statement.errors.values().sum::<u64>(), server.seen());
    assert_eq!(driven.error_messages[&1062], "scripted");
    assert_eq!((driven.rollbacks, server.rollbacks()), (0, 0));
}

#[test]
fn an_error_inside_a_transaction_is_rolled_back() {
    // The second statement of every third transaction fails, alternately with a permanent and a
    // transient error.
    let server = Server::new(|asked| match asked.number % 12 {
        1 => Answer::Bytes(error(1205)),
        6 => Answer::Bytes(error(1213)),
        _ => Answer::Bytes(OK.to_vec()),
    });
    let driven = drive_scripts(&until(200, 3, 1), &server, 3, &|_| StatementScript::new(3));
    let transaction = &driven.transactions[0];
    assert_eq!(transaction.count + transaction.errors[&1205], 200);
    assert!(transaction.tally.retries > 0);
    assert_eq!(driven.rollbacks, transaction.errors[&1205] + transaction.tally.retries);
    assert_eq!(driven.rollbacks, server.rollbacks());
    let answered: u64 = driven.statements.iter().map(|record| record.count).sum();
    assert_eq!(answered + driven.rollbacks, server.seen());
}

#[test]
fn a_retried_transaction_takes_as_long_as_all_its_attempts() {
    let server = Server::new(|asked| {
        thread::sleep(Duration::from_millis(20));
        Answer::Bytes(if asked.number < 3 { error(1213) } else { OK.to_vec() })
    });
    let driven = drive(&until(1, 1, 1), &server).unwrap();
    assert!(driven.transactions[0].service.min_s().unwrap() >= 0.08);
    assert!(driven.statements[0].service.max_s() < driven.transactions[0].service.min_s());
    assert_eq!(driven.transactions[0].tally.retries, 3);
}

#[test]
fn equal_work_that_never_succeeds_ends() {
    let server = Server::new(|_| Answer::Bytes(error(1213)));
    let driven = drive(&until(5, 2, 1), &server).unwrap();
    let transaction = &driven.transactions[0];
    assert_eq!((transaction.count, transaction.errors[&1213]), (0, 5));
    assert_eq!((transaction.tally.retries, server.seen()), (5_000, 5_005));
    assert!(!driven.partial);
}

#[test]
fn what_still_fails_after_the_end_is_given_up() {
    let server = Server::new(|_| {
        thread::sleep(Duration::from_millis(1));
        Answer::Bytes(error(1213))
    });
    let short = DriveSettings { end: End::Time(Duration::from_millis(100)), ..settings(3, 1) };
    let driven = drive(&short, &server).unwrap();
    let transaction = &driven.transactions[0];
    assert_eq!((transaction.count, transaction.errors[&1213]), (0, 3));
    assert_eq!(transaction.tally.retries + 3, server.seen());
}
