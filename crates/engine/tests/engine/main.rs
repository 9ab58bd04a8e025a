//! The engine against servers that stall, refuse, break off and misbehave on purpose.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small numbers

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
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use engine::{DriveResult, DriveSettings, End, Failed, IDLE_TIMEOUT, Pacing, Report, Warmup};

use server::{Server, StatementScript};

/// A drive of a second in a closed loop. The limit only ends tests that would hang.
fn settings(clients: u32, threads: u32) -> DriveSettings {
    DriveSettings {
        clients,
        threads,
        pacing: Pacing::Closed,
        warmup: Warmup::Time(Duration::ZERO),
        end: End::Time(Duration::from_secs(1)),
        retry: vec![1213],
        busy_poll: false,
        cpus: Vec::new(),
        limit: Some(Duration::from_secs(30)),
        idle_timeout: IDLE_TIMEOUT,
        linger: Duration::ZERO,
        statement_activity: None,
        slices: None,
        maintenance_after: None,
        slowdowns: Vec::new(),
        background_clients: Vec::new(),
        seed: 1,
    }
}

/// Drive scripts of one statement each.
fn drive(settings: &DriveSettings, server: &Server) -> Result<DriveResult, Failed> {
    drive_scripts(settings, server, 1, &|_| StatementScript::new(1)).0
}

/// Drive scripts of `statements` names, and give the reports too.
fn drive_scripts(
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
        &|report| reports.borrow_mut().push(report.clone()),
        &AtomicBool::new(false),
    );
    (outcome, reports.into_inner())
}
