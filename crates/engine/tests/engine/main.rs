//! The engine against servers that stall, fail, disconnect or misbehave on purpose.
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small numbers

mod any;
mod background_clients;
mod errors;
mod failing;
mod maintenance;
mod observing;
mod other_protocol;
mod pacing;
mod server;
mod slices;
mod statement_activity;
mod work;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use engine::{DriveResult, DriveSettings, End, Failed, Report, Warmup};

use server::{Answer, OK, Server, StatementScript, error};

/// Return the settings of a closed loop of one second. The limit only ends tests that would hang.
fn settings(clients: u32, threads: u32) -> DriveSettings {
    let limit = Some(Duration::from_secs(30));
    let closed = DriveSettings::closed_loop(clients, threads, End::Time(Duration::from_secs(1)));
    DriveSettings { retry: vec![1213], limit, ..closed }
}

/// Drive scripts of one statement each, until they end or are stopped.
fn drive_stoppable(
    settings: &DriveSettings,
    server: &Server,
    report: &dyn Fn(&Report),
    stop: &AtomicBool,
) -> Result<DriveResult, Failed> {
    let open = |client| Ok((server.connect(client), StatementScript::new(1)));
    engine::drive(settings, &StatementScript::names(1), open, None, report, stop)
}

/// Run `work`, which is stopped after 0.3 s.
fn stopped<T>(work: impl FnOnce(&AtomicBool) -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
        });
        work(&stop)
    })
}

/// Drive scripts of one statement each.
fn drive(settings: &DriveSettings, server: &Server) -> Result<DriveResult, Failed> {
    drive_stoppable(settings, server, &|_| (), &AtomicBool::new(false))
}

/// Drive scripts with `statements` names, which may end after some transactions, against a server
/// that fails one of `failing` requests. Assert that the server has received all counted requests.
fn drive_failing(
    settings: &DriveSettings,
    failing: u64,
    statements: u16,
    used_up_after: Option<u64>,
) -> DriveResult {
    let server = Server::new(move |asked| {
        thread::sleep(Duration::from_micros(asked.number % 5 * 50));
        let code = if asked.number % 2 == 0 { 1213 } else { 1062 };
        Answer::Bytes(if asked.number % failing == 1 { error(code) } else { OK.to_vec() })
    });
    let driven = drive_scripts(settings, &server, statements, &|_| {
        let asker = StatementScript::new(statements);
        used_up_after.map_or(asker.clone(), |left| asker.with_transactions(left))
    });
    let requests =
        driven.statements.iter().map(|record| record.count + record.errors.values().sum::<u64>());
    let requests = requests.sum::<u64>();
    if settings.warmup == Warmup::Time(Duration::ZERO) {
        assert_eq!((requests, driven.rollbacks), (server.seen(), server.rollbacks()));
    } else {
        assert!(requests <= server.seen());
    }
    driven
}

/// Drive scripts with `statements` names to their end.
fn drive_scripts(
    settings: &DriveSettings,
    server: &Server,
    statements: u16,
    script: &(dyn Fn(u32) -> StatementScript + Sync),
) -> DriveResult {
    drive_reporting(settings, server, statements, script).0.unwrap()
}

/// Drive scripts with `statements` names, and return the reports too.
fn drive_reporting(
    settings: &DriveSettings,
    server: &Server,
    statements: u16,
    script: &(dyn Fn(u32) -> StatementScript + Sync),
) -> (Result<DriveResult, Failed>, Vec<Report>) {
    let reports = RefCell::new(Vec::new());
    let outcome = engine::drive(
        settings,
        &StatementScript::names(statements),
        |client| Ok((server.connect(client), script(client))),
        None,
        &|report| reports.borrow_mut().push(report.clone()),
        &AtomicBool::new(false),
    );
    (outcome, reports.into_inner())
}
