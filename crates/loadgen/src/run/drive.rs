//! The phase that drives clients.

use std::time::Instant;

use super::plan::{PlannedDrive, PlannedPhase};
use super::session::{OPENING_LIMIT, Session};
use super::{Context, Failure};
use crate::events::{Event, PhaseResult};
use engine::{Failed, Report, RunStatements};
use protocol::ClientError;
use protocol::mysql::Deadline;
use protocol::mysql::channel::Channel;
use workload::program::Program;
use workload::script::Script;

/// Drive the clients to the end. What is measured is reported even if they cannot go on.
pub fn drive(
    context: &mut Context<'_>,
    phase: &PlannedPhase,
    planned: &PlannedDrive,
) -> Result<(), Failure> {
    let PlannedDrive { drive, program, .. } = planned;
    if phase.is_last {
        // Clients may need every connection that the server has.
        context.session.close();
    }
    let names = program.names();
    let session = &*context.session;
    let deadline = Deadline::start(context.stop, phase.limit);
    let sides = drive.settings.sides();
    let open = |connection| {
        let deadline = deadline.within(OPENING_LIMIT);
        if let Some((program, client)) = background_client(planned, connection) {
            return open_client(session, (program, drive.pings), client, 0, &deadline);
        }
        let (client, side) = (connection / sides, connection % sides);
        let opened = open_client(session, (program, drive.pings), client, side, &deadline);
        opened.map_err(|error| session.of_side(side, error))
    };
    let report = |report: &Report| {
        context.events.emit(&match report {
            Report::Mark { mark, t_s } => {
                Event::Mark { phase: &phase.name, mark: *mark, t_s: *t_s }
            }
            Report::Interval(interval) => {
                Event::DriveInterval { phase: &phase.name, kind: "drive", interval }
            }
        });
    };
    let maintenance = open_maintenance(session, &drive.maintenance, &deadline)?;
    let (driven, outcome) =
        match engine::drive(&drive.settings, names, open, maintenance, &report, context.stop) {
            Ok(driven) => (Some(Box::new(driven)), Ok(())),
            Err(Failed { driven, error }) => (driven, Err(error)),
        };
    if let Some(driven) = driven {
        let result = PhaseResult::Drive {
            test: &drive.test,
            protocol: drive.protocol,
            primary: drive.primary,
            driven: &driven,
        };
        context.events.emit(&phase.ended(result));
    }
    Ok(outcome?)
}

/// Return what a connection of a background group asks, and its client's number there.
fn background_client(planned: &PlannedDrive, connection: u32) -> Option<(&Program, u32)> {
    let settings = &planned.drive.settings;
    let mut number = connection.checked_sub(settings.connections())?;
    for (group, program) in settings.background_clients.iter().zip(&planned.background_clients) {
        match number.checked_sub(group.clients) {
            None => return Some((program, number)),
            Some(rest) => number = rest,
        }
    }
    None
}

/// Open the session of the statements of maintenance, if there are any.
fn open_maintenance<'a>(
    session: &Session,
    statements: &'a [String],
    deadline: &'a Deadline,
) -> Result<Option<RunStatements<'a>>, ClientError> {
    if statements.is_empty() {
        return Ok(None);
    }
    let mut connection = session.open_on(0, &deadline.within(OPENING_LIMIT))?;
    Ok(Some(Box::new(move || {
        let timed = |sql: &String| {
            let started = Instant::now();
            let outcome = connection.query(sql, deadline);
            outcome.map(|_| started.elapsed()).map_err(|error| error.in_statement(sql))
        };
        statements.iter().map(timed).collect()
    })))
}

/// Log a client in and prepare its requests, after pings: the same on every side.
fn open_client(
    session: &Session,
    (program, pings): (&Program, u32),
    client: u32,
    side: u32,
    deadline: &Deadline,
) -> Result<(Channel, Script), ClientError> {
    let mut connection = session.open_on(side, deadline)?;
    for _ in 0..pings {
        connection.ping(deadline)?;
    }
    for sql in program.client_setup(client) {
        connection.query(&sql, deadline).map_err(|error| error.in_statement(&sql))?;
    }
    let prepared = program
        .texts_to_prepare(client)
        .iter()
        .map(|sql| {
            let prepared = connection.prepare(sql, deadline);
            Ok(prepared.map_err(|error| error.in_statement(sql))?.id)
        })
        .collect::<Result<_, ClientError>>()?;
    Ok((connection.into_channel()?, program.client(client, prepared)))
}
