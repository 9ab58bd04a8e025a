//! Maps the server's threads to the statements of their clients, by the sockets between them.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use serde::Deserialize;

use super::ThreadsError;
use engine::statement_activity::StatementActivity;

/// An activity file, and the slot in it for each of the server's sockets.
pub struct ConnectionMap {
    activity: StatementActivity,
    /// Slots by the socket's inode.
    slots: HashMap<u64, usize>,
}

/// The map in the form in which a command contains it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ordered {
    path: PathBuf,
    slots: HashMap<u64, usize>,
}

impl ConnectionMap {
    /// Parse `{"path": "/proc/7/fd/3", "slots": {"4711": 0}}`: the path of an activity file, and
    /// slots by inode.
    pub fn parse(text: &str) -> Result<Self, ThreadsError> {
        let Ordered { path, slots } = serde_json::from_str(text).map_err(|_| {
            ThreadsError::Command(
                format!("statement_activity {text}"),
                "the file of a statement activity and its slots",
            )
        })?;
        let failed = |source| ThreadsError::System {
            context: format!("cannot read the activity file {}", path.display()),
            source,
        };
        let activity = StatementActivity::open(&path).map_err(failed)?;
        if slots.values().any(|&slot| slot >= activity.count()) {
            return Err(failed(io::Error::other("it has fewer slots")));
        }
        Ok(Self { activity, slots })
    }

    /// Return the slot of a server's socket; None if no client has the other end.
    pub fn slot(&self, inode: u64) -> Option<usize> {
        self.slots.get(&inode).copied()
    }

    /// Return the current statement in a slot: 0 for none, else the number to pass to
    /// [`Self::name`].
    #[inline]
    pub fn shown(&self, slot: usize) -> u32 {
        self.activity.shown(slot)
    }

    /// Return the name of a statement; None for 0.
    pub fn name(&self, shown: u32) -> Option<&str> {
        let index = shown.checked_sub(1)? as usize;
        self.activity.names().get(index).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::statement_activity::ActivitySlot;
    use protocol::PeerAddress;
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn a_socket_leads_to_what_its_client_shows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("activity");
        let sockets = [PeerAddress::Tcp { port: 1 }, PeerAddress::Tcp { port: 2 }];
        let names = ["a".to_owned(), "b".to_owned()];
        let activity = Arc::new(StatementActivity::create(&path, &sockets, &names).unwrap());
        let command = |slots| json!({"path": path, "slots": slots}).to_string();
        let connections = ConnectionMap::parse(&command(json!({"4711": 1, "12": 0}))).unwrap();
        assert_eq!(connections.slot(13), None);
        let slot = connections.slot(4711).unwrap();
        assert_eq!((connections.shown(slot), connections.name(0)), (0, None));
        ActivitySlot::new(&activity, 1).show(1);
        assert_eq!(connections.name(connections.shown(slot)), Some("b"));
        assert_eq!(connections.name(3), Some("ROLLBACK"));
        assert_eq!(connections.name(4), None);

        for wrong in [command(json!({"1": 2})), command(json!([])), "{".to_owned()] {
            assert!(ConnectionMap::parse(&wrong).is_err(), "{wrong}");
        }
        let elsewhere = json!({"path": "/nowhere", "slots": {}}).to_string();
        let error = ConnectionMap::parse(&elsewhere).err().unwrap().to_string();
        assert!(error.contains("the activity file /nowhere"), "{error}");
    }
}
