//! The phase that drives clients.

use super::plan::{PlannedDrive, PlannedPhase};
use super::session::{OPENING_LIMIT, Session};
use super::{Context, Failure};
use crate::events::{Event, PhaseResult};
use engine::{Failed, Report};
use protocol::ClientError;
use protocol::mysql::Deadline;
use protocol::mysql::channel::Channel;
use protocol::script::Names;
use workload::script::Script;

/// Drive the clients to the end. What is measured is reported even if they cannot go on.
pub fn drive(
    context: &mut Context<'_>,
    phase: &PlannedPhase,
    drive: &PlannedDrive,
) -> Result<(), Failure> {
    if phase.is_last {
        // Clients may need every connection that the server has.
        context.session.close();
    }
    let names = Names {
        statements: drive.program.statement_names().to_vec(),
        transactions: drive.program.transaction_names().to_vec(),
    };
    let session = &*context.session;
    let deadline = Deadline::start(context.stop, phase.limit);
    let sides = drive.settings.sides();
    let open = |connection| {
        let deadline = deadline.within(OPENING_LIMIT);
        let (client, side) = (connection / sides, connection % sides);
        let opened = open_client(session, drive, client, side, &deadline);
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
    let (driven, outcome) =
        match engine::drive(&drive.settings, &names, open, &report, context.stop) {
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

/// Log a client in and prepares what it will ask: the same as that client of any other side.
fn open_client(
    session: &Session,
    drive: &PlannedDrive,
    client: u32,
    side: u32,
    deadline: &Deadline,
) -> Result<(Channel, Script), ClientError> {
    let program = &drive.program;
    let mut connection = session.open_on(side, deadline)?;
    for _ in 0..drive.pings {
        connection.ping(deadline)?;
    }
    for sql in program.client_setup(client) {
        connection.query(&sql, deadline)?;
    }
    let prepared = program
        .texts_to_prepare(client)
        .iter()
        .map(|sql| Ok(connection.prepare(sql, deadline)?.id))
        .collect::<Result<_, ClientError>>()?;
    Ok((connection.into_channel()?, program.client(client, prepared)))
}
