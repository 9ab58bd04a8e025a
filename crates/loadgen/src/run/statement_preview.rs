//! A preview of the statements that clients will send.

use std::collections::BTreeMap;

use super::plan::{Plan, Work};
use protocol::mysql::binary::query_text;
use protocol::script::Script as _;
use workload::program::Protocol;

/// A statement that many transactions do not come to is too rare to wait for.
const REQUESTS: usize = 10_000;

impl Plan {
    /// Return the first of each statement, by its name, that the first client of each drive phase
    /// in text asks, as a server gets it.
    pub fn statements(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for phase in &self.phases {
            let Work::Drive(drive) = &phase.work else {
                continue;
            };
            if drive.protocol != Protocol::Text {
                continue;
            }
            let names = drive.program.statement_names();
            let mut script = drive.program.client(0, Vec::new());
            let mut packet = Vec::new();
            for _ in 0..REQUESTS {
                packet.clear();
                let Some(request) = script.next(&mut packet) else {
                    break;
                };
                let name = &names[usize::from(request.statement)];
                if !found.contains_key(name) {
                    let text = String::from_utf8_lossy(query_text(&packet));
                    found.insert(name.clone(), text.into_owned());
                }
                if found.len() == names.len() {
                    break;
                }
            }
        }
        found
    }
}
