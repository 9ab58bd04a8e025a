//! Which client's statement is under way, by the socket that the server has for it.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use serde::Deserialize;

use super::ThreadsError;
use engine::statement_activity::Board;

/// A board, and the slot of each of the server's sockets on it.
pub struct Seats {
    board: Board,
    /// By the socket's inode.
    slots: HashMap<u64, usize>,
}

/// As it is ordered.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ordered {
    path: PathBuf,
    slots: HashMap<u64, usize>,
}

/// A place on a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(usize);

impl Seats {
    /// `{"path": "/proc/7/fd/3", "slots": {"4711": 0}}`: the board's file, and slots by the inodes of
    /// the server's sockets.
    pub fn ordered(text: &str) -> Result<Self, ThreadsError> {
        let Ordered { path, slots } = serde_json::from_str(text)
            .map_err(|_| ThreadsError::Order(format!("board {text}"), "a board and its slots"))?;
        let failed = |source| ThreadsError::System {
            context: format!("cannot look at the board {}", path.display()),
            source,
        };
        let board = Board::open(&path).map_err(failed)?;
        if slots.values().any(|&slot| slot >= board.len()) {
            return Err(failed(io::Error::other("it has fewer slots")));
        }
        Ok(Self { board, slots })
    }

    /// The slot of a server's socket; None where it is no client's.
    pub fn slot(&self, inode: u64) -> Option<Slot> {
        self.slots.get(&inode).copied().map(Slot)
    }

    /// What is shown now: 0 for no statement, else its number in [`Self::name`].
    #[inline]
    pub fn shown(&self, slot: Slot) -> u32 {
        self.board.shown(slot.0)
    }

    /// The name of a statement; None for 0, which is none.
    pub fn name(&self, shown: u32) -> Option<&str> {
        let index = shown.checked_sub(1)? as usize;
        self.board.names().get(index).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::statement_activity::Place;
    use protocol::PeerAddress;
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn a_socket_leads_to_what_its_client_shows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("board");
        let sockets = [PeerAddress::Tcp { port: 1 }, PeerAddress::Tcp { port: 2 }];
        let names = ["a".to_owned(), "b".to_owned()];
        let board = Arc::new(Board::create(&path, &sockets, &names).unwrap());
        let order = |slots| json!({"path": path, "slots": slots}).to_string();
        let seats = Seats::ordered(&order(json!({"4711": 1, "12": 0}))).unwrap();
        assert_eq!(seats.slot(13), None);
        let slot = seats.slot(4711).unwrap();
        assert_eq!((seats.shown(slot), seats.name(0)), (0, None));
        Place::new(&board, 1).show(1);
        assert_eq!(seats.name(seats.shown(slot)), Some("b"));
        assert_eq!(seats.name(3), Some("ROLLBACK"));
        assert_eq!(seats.name(4), None);

        for wrong in [order(json!({"1": 2})), order(json!([])), "{".to_owned()] {
            assert!(Seats::ordered(&wrong).is_err(), "{wrong}");
        }
        let elsewhere = json!({"path": "/nowhere", "slots": {}}).to_string();
        let error = Seats::ordered(&elsewhere).err().unwrap().to_string();
        assert!(error.contains("the board /nowhere"), "{error}");
    }
}
