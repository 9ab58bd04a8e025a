//! Connecting without waiting past a time limit or a request to stop.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::poll::PollFlags;
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::address::Address;
use super::channel::Channel;
use super::deadline::{Deadline, wait_for};
use crate::ClientError;

/// A server whose queue of new connections is full is asked again so soon.
const PAUSE: Duration = Duration::from_millis(5);

/// Return a connection, or why there is none; the outer error is the deadline's.
type Connected<T> = Result<io::Result<T>, ClientError>;

/// Connect. Only looking up the name of a host takes as long as it takes.
pub fn connect(address: &Address, deadline: &Deadline) -> Result<Channel, ClientError> {
    match address {
        Address::Socket(path) => connect_unix(path, deadline)?.and_then(Channel::over_unix),
        Address::Tcp { host, port } => {
            connect_tcp(host, *port, deadline)?.and_then(Channel::over_tcp)
        }
    }
    .map_err(|source| ClientError::Connection {
        context: format!("cannot connect to {address}"),
        source,
    })
}

fn connect_unix(path: &Path, deadline: &Deadline) -> Connected<UnixStream> {
    let address = match SocketAddrUnix::new(path) {
        Ok(address) => address,
        Err(errno) => return Ok(Err(errno.into())),
    };
    Ok(connect_to(AddressFamily::UNIX, &address, deadline)?.map(UnixStream::from))
}

/// Try the host's addresses in turn.
fn connect_tcp(host: &str, port: u16, deadline: &Deadline) -> Connected<TcpStream> {
    let addresses = match (host, port).to_socket_addrs() {
        Ok(addresses) => addresses,
        Err(error) => return Ok(Err(error)),
    };
    let mut outcome = Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    for address in addresses {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        outcome = connect_to(family, &address, deadline)?.map(TcpStream::from);
        if outcome.is_ok() {
            break;
        }
    }
    Ok(outcome)
}

fn connect_to(
    family: AddressFamily,
    address: &impl SocketAddrArg,
    deadline: &Deadline,
) -> Connected<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = match socket_with(family, SocketType::STREAM, flags, None) {
        Ok(socket) => socket,
        Err(errno) => return Ok(Err(errno.into())),
    };
    loop {
        let wait = deadline.time_left()?;
        // Asked again, it says how what was begun has ended.
        match net::connect(&socket, address) {
            Ok(()) | Err(Errno::ISCONN) => return Ok(Ok(socket)),
            Err(Errno::INPROGRESS | Errno::ALREADY) => {
                if let Err(error) = wait_for(socket.as_fd(), PollFlags::POLLOUT, wait) {
                    return Ok(Err(error));
                }
            }
            Err(Errno::AGAIN) => thread::sleep(PAUSE.min(wait)),
            Err(Errno::INTR) => {}
            Err(errno) => return Ok(Err(errno.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    fn deadline(limit: Duration) -> Deadline {
        Deadline::start(&Arc::new(AtomicBool::new(false)), Some(limit))
    }

    const LONG: Duration = Duration::from_secs(3600);

    fn local(port: u16) -> Address {
        let host = "127.0.0.1".to_owned();
        Address::Tcp { host, port }
    }

    #[test]
    fn listeners_are_connected_to_and_others_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let error = connect(&Address::Socket(path.clone()), &deadline(LONG)).unwrap_err();
        assert!(error.to_string().starts_with("cannot connect to /"), "{error}");
        let _listener = UnixListener::bind(&path).unwrap();
        connect(&Address::Socket(path), &deadline(LONG)).unwrap();

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        connect(&local(port), &deadline(LONG)).unwrap();
        drop(listener);
        let error = connect(&local(port), &deadline(LONG)).unwrap_err();
        assert_eq!(error.kind(), "connection");
        let error = connect(&local(port), &deadline(Duration::ZERO)).unwrap_err();
        assert!(matches!(error, ClientError::TimeLimit { .. }));
    }

    #[test]
    fn a_server_that_takes_nobody_is_not_waited_for_beyond_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        net::listen(&listener, 1).unwrap();
        let (mut queued, deadline) = (Vec::new(), deadline(Duration::from_millis(200)));
        let error = loop {
            match connect(&Address::Socket(path.clone()), &deadline) {
                Ok(channel) => queued.push(channel),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ClientError::TimeLimit { .. }), "{error}");
        assert!(!queued.is_empty());
    }
}
