//! A client of the MySQL protocol for MySQL from 5.5 and MariaDB: text queries, prepared
//! statements, local files, TLS.
//!
//! `packet`, `wire`, `handshake`, `auth`, `reply` and `answer` handle bytes without sockets.
//! `channel`, `account` and `transport` handle sockets without the protocol. `connection` joins
//! them for callers that may block. To drive many connections, turn them into channels
//! ([`Connection::into_channel`]) and follow their answers with [`MysqlAnswerReader`].

mod account;
mod address;
mod answer;
mod auth;
pub mod binary;
pub mod channel;
mod connection;
mod deadline;
pub mod handshake;
mod login;
pub mod packet;
mod prepared;
pub mod reply;
mod tls;
mod transport;
pub mod values;
mod wire;

pub use account::Login;
pub use address::Address;
pub use answer::{Mysql, MysqlAnswerReader};
pub use connection::{Connection, LocalData, Outcome};
pub use deadline::Deadline;
pub use prepared::{Parameter, Prepared};
pub use tls::{Tls, TlsConfigError, TlsMode};
