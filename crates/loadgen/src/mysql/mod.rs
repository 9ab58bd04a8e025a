//! A small client of the MySQL protocol: MySQL from 5.5 and MariaDB, text protocol, local files.
//!
//! `packet`, `wire`, `handshake`, `auth` and `reply` know bytes and no sockets; `transport` knows
//! sockets and no protocol; `connection` joins them.

mod auth;
mod connection;
mod error;
mod handshake;
mod packet;
mod reply;
mod transport;
mod wire;

pub use connection::{Connection, LocalData, Outcome};
pub use error::ClientError;
pub use transport::{Address, Watch};
