//! A specification with everything compiled that can be wrong before a server is asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::session::Session;
use crate::spec::read::refused;
use crate::spec::{self, Drive, LoadData, Spec, Workload};
use crate::tables::LoadOptions;
use engine::{Arrivals, BackgroundClients, End, Pacing};
use protocol::mysql::binary::query_text;
use protocol::script::Script as _;
use workload::background_clients;
use workload::program::{Program, Protocol};
use workload::tables::{self, Table};
use workload::validation::ValidationError;
use workload::values::Values;

/// Further phases that drive clients draw from seeds of their own, so that they do not repeat the
/// statements of the first: this odd number apart (the golden ratio of 2^64).
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A statement that many transactions do not come to is too rare to wait for.
const REQUESTS: usize = 10_000;

/// A run that can begin.
pub struct Plan {
    pub(super) session: Session,
    pub(super) phases: Vec<PlannedPhase>,
}

pub(super) struct PlannedPhase {
    pub name: String,
    pub limit: Option<Duration>,
    /// It is the last phase: nobody needs the session after it.
    pub is_last: bool,
    pub work: Work,
}

/// The compiled work of a phase.
pub(super) enum Work {
    Statements(Vec<String>),
    LoadData(LoadData),
    LoadTables(Arc<[Table]>, LoadOptions),
    VerifyTables(Arc<[Table]>),
    WarmTables(Arc<[Table]>, usize),
    Drive(Box<PlannedDrive>),
}

/// Clients and what they ask.
pub(super) struct PlannedDrive {
    pub drive: Drive,
    pub program: Program,
    /// The programs of the background groups, in their order.
    pub background_clients: Vec<Program>,
}

impl Plan {
    /// Compile what the phases need of the workload.
    pub fn make(spec: Spec) -> Result<Self, ValidationError> {
        let count = spec.phases.len();
        let mut compiler = Compiler { workload: spec.workload, tables: None, drives: 0 };
        let phases = spec
            .phases
            .into_iter()
            .enumerate()
            .map(|(index, phase)| {
                Ok(PlannedPhase {
                    name: phase.name,
                    limit: phase.limit,
                    is_last: index + 1 == count,
                    work: compiler.work(phase.work, &format!("phases[{index}]"))?,
                })
            })
            .collect::<Result<_, ValidationError>>()?;
        Ok(Self {
            session: Session::new(spec.connection, spec.against, spec.session, spec.idle_timeout),
            phases,
        })
    }

    /// Return the first statement of each name that the first client of a drive phase in text sends.
    pub fn statements(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for phase in &self.phases {
            let Work::Drive(drive) = &phase.work else {
                continue;
            };
            if drive.drive.protocol != Protocol::Text {
                continue;
            }
            let names = &drive.program.names().statements;
            let mut script = drive.program.client(0, Vec::new());
            let mut packet = Vec::new();
            for _ in 0..REQUESTS {
                packet.clear();
                let Some(request) = script.next(&mut packet) else {
                    break;
                };
                found
                    .entry(names[usize::from(request.statement)].clone())
                    .or_insert_with(|| String::from_utf8_lossy(query_text(&packet)).into_owned());
                if found.len() == names.len() {
                    break;
                }
            }
        }
        found
    }
}

struct Compiler {
    workload: Option<Workload>,
    /// Once they are needed.
    tables: Option<Arc<[Table]>>,
    /// The number of phases so far that drive clients.
    drives: u64,
}

impl Compiler {
    fn work(&mut self, work: spec::Work, key: &str) -> Result<Work, ValidationError> {
        Ok(match work {
            spec::Work::Statements(list) => Work::Statements(list),
            spec::Work::LoadData(load) => Work::LoadData(load),
            spec::Work::LoadTables(how) => Work::LoadTables(self.tables()?, how),
            spec::Work::VerifyTables => Work::VerifyTables(self.tables()?),
            spec::Work::WarmTables { threads } => Work::WarmTables(self.tables()?, threads),
            spec::Work::Drive(drive) => Work::Drive(Box::new(self.drive(*drive, key)?)),
        })
    }

    fn workload(&self) -> Result<&Workload, ValidationError> {
        self.workload.as_ref().ok_or_else(|| ValidationError::new("workload", "is missing"))
    }

    fn tables(&mut self) -> Result<Arc<[Table]>, ValidationError> {
        if let Some(tables) = &self.tables {
            return Ok(Arc::clone(tables));
        }
        let tables: Arc<[Table]> = tables_of(self.workload()?)?.into();
        Ok(Arc::clone(self.tables.insert(tables)))
    }

    fn drive(&mut self, mut drive: Drive, key: &str) -> Result<PlannedDrive, ValidationError> {
        let workload = self.workload()?;
        if !workload.definition.tests.contains_key(&drive.test) {
            let known = workload.definition.tests.keys().map(String::as_str);
            return Err(ValidationError::unknown(
                format!("{key}.test"),
                "test",
                &drive.test,
                known,
            ));
        }
        let seed = workload.seed.wrapping_add(SEED_STEP.wrapping_mul(self.drives));
        let (definition, defaults) = (&workload.definition, &workload.defaults);
        let (values, clients) = (&workload.values, drive.settings.clients);
        let compile = |test: &str, clients: u32, seed: u64| {
            Program::compile(definition, defaults, values, test, clients, drive.protocol, seed)
        };
        let program = compile(&drive.test, clients, seed)?;
        let groups =
            background_clients::groups(definition, defaults, values, &drive.test, clients)?;
        refuse_background_clients(&groups, &drive, key)?;
        drive.settings.seed = seed;
        let mut programs = Vec::new();
        for (number, group) in (1..).zip(groups) {
            let seed = seed.wrapping_add(number);
            let program = compile(&group.test, group.clients, seed)?;
            drive.settings.background_clients.push(BackgroundClients {
                test: group.test,
                clients: group.clients,
                pacing: group.rate.map_or(Pacing::Closed, |rate| Pacing::Open {
                    rate,
                    arrivals: Arrivals::Constant,
                    max_lateness: None,
                }),
                names: program.names().clone(),
                seed,
            });
            programs.push(program);
        }
        self.drives += 1;
        Ok(PlannedDrive { drive, program, background_clients: programs })
    }
}

/// Return the mistakes in a workload's tables, and in what phases, each with its key, need of it.
pub fn mistakes(workload: Workload, phases: Vec<(String, spec::Phase)>) -> Vec<ValidationError> {
    let mut compiler = Compiler { workload: Some(workload), tables: None, drives: 0 };
    let tables = compiler.tables().err();
    let of_phases = phases.into_iter().map(|(key, phase)| compiler.work(phase.work, &key));
    tables.into_iter().chain(of_phases.filter_map(Result::err)).collect()
}

/// Refuse background clients where nothing would end them, or where others work by turns.
fn refuse_background_clients(
    groups: &[background_clients::Group],
    drive: &Drive,
    key: &str,
) -> Result<(), ValidationError> {
    let Some(first) = groups.first() else {
        return Ok(());
    };
    let message = |why| format!("{} has background clients of {}, {why}", drive.test, first.test);
    if drive.settings.slices.is_some() {
        return refused(key, "slices", message("which take no turns"));
    }
    if !matches!(drive.settings.end, End::Time(_)) {
        return refused(key, "end.kind", message("which only a time ends"));
    }
    Ok(())
}

/// Return the tables of a workload. They are the same for all of its tests.
pub fn tables_of(workload: &Workload) -> Result<Vec<Table>, ValidationError> {
    let values = Values::new(&workload.defaults, &BTreeMap::new(), &workload.values);
    tables::plan(&workload.definition, &values, workload.seed)
}
