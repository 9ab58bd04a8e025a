//! Carries a specification out, phase by phase, and reports as it goes.

mod drive;
mod failure;
mod load_slices;
mod plan;
mod session;
mod statement_preview;
mod statements;
mod tables;
mod ticker;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::events::{ClientUsage, Event, Events, PhaseResult};
use crate::statement::StatementRecord;
use engine::Mark;
use protocol::ClientError;
use protocol::mysql::Connection;

pub use failure::Failure;
pub use plan::{Plan, mistakes, tables_of};

use plan::{PlannedPhase, Work};
use session::Session;

/// An error that ended a phase; it has been reported.
#[derive(Debug)]
pub struct Failed(pub Failure);

/// The means by which phases are executed.
struct Context<'a> {
    session: &'a mut Session,
    events: &'a Events,
    stop: &'a Arc<AtomicBool>,
}

impl Context<'_> {
    /// Work with the session of a side that phases share; an error names the side, of several.
    fn on_side<T>(
        &mut self,
        side: u32,
        work: impl FnOnce(&mut Connection) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let connection = self.session.connection(side, self.stop).map_err(|(_, error)| error)?;
        work(connection).map_err(|error| self.session.of_side(side, error))
    }
}

impl PlannedPhase {
    /// Return the event of its end.
    fn ended<'a>(&'a self, result: PhaseResult<'a>) -> Event<'a> {
        Event::Phase { name: &self.name, result }
    }
}

/// Run the phases. Whatever happens is reported as events; the error only says how to exit.
pub fn run(plan: Plan, events: &Events, stop: &Arc<AtomicBool>) -> Result<(), Failed> {
    let mut session = Session::new(plan.login, plan.against, plan.session, plan.idle_timeout);
    let version = session
        .connection(0, stop)
        .map(|connection| connection.server_version().to_owned())
        .map_err(|(phase, error)| report(events, phase, error.into()))?;
    events.emit(&Event::Start {
        load_generator: env!("CARGO_PKG_VERSION"),
        server_version: &version,
    });
    let mut records = Vec::new();
    let outcome = plan.phases.iter().try_for_each(|phase| {
        let mut record = StatementRecord::new(&phase.name);
        let mut context = Context { session: &mut session, events, stop };
        events.emit(&Event::Mark { phase: &phase.name, mark: Mark::PhaseStarted, t_s: 0.0 });
        let outcome = run_phase(&mut context, phase, &mut record);
        if matches!(phase.work, Work::Statements(_) | Work::LoadData(_)) {
            records.push(record);
        }
        outcome.map_err(|failure| report(events, &phase.name, failure))
    });
    events.emit(&Event::Summary {
        statements: records.iter().map(StatementRecord::summary).collect(),
        client: ClientUsage::now(),
        bytes_sent: session.bytes_sent(),
        bytes_received: session.bytes_received(),
    });
    outcome
}

fn run_phase(
    context: &mut Context<'_>,
    phase: &PlannedPhase,
    record: &mut StatementRecord,
) -> Result<(), Failure> {
    match &phase.work {
        Work::Statements(list) => statements::run(context, phase, list, record),
        Work::LoadData(load) => statements::load_data(context, phase, load, record),
        Work::LoadTables(tables, how) => tables::load(context, phase, tables, how),
        Work::VerifyTables(tables) => tables::verify(context, phase, tables),
        Work::WarmTables(tables, threads) => tables::warm(context, phase, tables, *threads),
        Work::Drive(drive) => drive::drive(context, phase, drive),
    }
}

fn report(events: &Events, phase: &str, failure: Failure) -> Failed {
    events.emit(&failure.event(phase));
    Failed(failure)
}
