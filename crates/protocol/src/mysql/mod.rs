//! A client of the MySQL protocol: MySQL from 5.5 and MariaDB, text and prepared statements, local
//! files, TLS.
//!
//! `packet`, `wire`, `handshake`, `auth`, `reply` and `answer` know bytes and no sockets; `channel`,
//! `connect`, `listener` and `transport` know sockets and no protocol; `connection` joins them for whoever can wait.
//! Whoever drives many connections makes channels of them and follows their answers with
//! `answer::AnswerReader`.

pub mod answer;
mod auth;
pub mod binary;
pub mod channel;
mod connect;
mod connection;
pub mod handshake;
mod listener;
mod login;
pub mod packet;
mod prepared;
pub mod reply;
mod tls;
mod transport;
pub mod values;
mod wire;

pub use connection::{Connection, LocalData, Outcome};
pub use login::Login;
pub use prepared::{Parameter, Prepared};
pub use tls::{Tls, TlsMistake, TlsMode};
pub use transport::{Address, Watch};
