//! Connections that the engine drives.

/// The client's end of a connection, by which the server's end is found: the inode of a UNIX socket,
/// or a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    Unix { inode: u64 },
    Tcp { port: u16 },
}
