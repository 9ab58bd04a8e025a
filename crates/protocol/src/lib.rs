//! Protocols of database servers, as clients speak them.
//!
//! `session` has the traits between the engine and a database; `script` those between the engine and
//! what its clients ask. [`mysql`] implements the former for MySQL and MariaDB.

#[cfg(all(feature = "instrumented", not(fuzzing)))]
compile_error!("fuzz targets need an instrumented library: build them by fuzz/run.sh");

mod error;
pub mod mysql;
pub mod script;
mod session;
pub mod shown;

pub use error::{ClientError, ProtocolError, ServerError};
pub use session::{AnswerReader, AnswerSummary, FeedResult, PeerAddress, Protocol, Session};
