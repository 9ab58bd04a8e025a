//! Opening many connections at once.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use protocol::{ClientError, Session};

use super::client::Client;
use protocol::script::Script;

/// Connections that are opened at the same time: each login waits for the server a few times, and
/// fewer than the shortest queue of a listening server (50) cannot overrun it.
const AT_ONCE: u32 = 16;

/// Open files other than the connections.
const OTHER_FILES: u64 = 64;

/// Open the connections and give each to its thread: connection `n`, of client `n / sides` of side
/// `n % sides`, to thread `n % threads`. The first that cannot be opened ends it.
pub fn open_all<C: Session, S: Script + Send>(
    connections: u32,
    sides: u32,
    threads: u32,
    open: &(impl Fn(u32) -> Result<(C, S), ClientError> + Sync),
) -> Result<Vec<Vec<Client<C, S>>>, ClientError> {
    allow_files(u64::from(connections) + OTHER_FILES)?;
    let next = AtomicU32::new(0);
    let failed = AtomicBool::new(false);
    let opened = Mutex::new(Ok(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(connections) {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= connections {
                        return;
                    }
                    let outcome = open(number);
                    let mut all = opened.lock().expect("no opener panics while it holds it");
                    match (outcome, all.as_mut()) {
                        (Ok((session, script)), Ok(list)) => {
                            let place = (number / sides, number % sides);
                            list.push(Client::new(place, session, script));
                        }
                        (Err(error), Ok(_)) => {
                            failed.store(true, Ordering::Relaxed);
                            *all = Err(error);
                        }
                        (_, Err(_)) => return,
                    }
                }
            });
        }
    });
    let mut all = opened.into_inner().expect("all openers have ended")?;
    all.sort_by_key(|client| (client.number, client.side));
    let mut shares: Vec<Vec<Client<C, S>>> = (0..threads).map(|_| Vec::new()).collect();
    for (connection, client) in all.into_iter().enumerate() {
        shares[connection % threads as usize].push(client);
    }
    Ok(shares)
}

/// Raise the limit of open files as far as needed.
fn allow_files(needed: u64) -> Result<(), ClientError> {
    let refused = |errno: nix::errno::Errno| ClientError::System {
        context: format!("{needed} files have to be open at once (ulimit -n)"),
        source: io::Error::from(errno),
    };
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(refused)?;
    if soft < needed {
        setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).map_err(refused)?;
    }
    Ok(())
}
