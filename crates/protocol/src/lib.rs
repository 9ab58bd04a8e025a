//! The client side of database servers' protocols.
//!
//! `session` has the traits between the engine and a database; `script` has those between the
//! engine and the source of requests. [`mysql`] implements `session` for MySQL and MariaDB.
//! Workloads, pacing and measurements do not belong here.

#[cfg(all(feature = "instrumented", not(fuzzing)))]
compile_error!("fuzz targets need an instrumented library: build them by fuzz/run.sh");

mod error;
pub mod mysql;
pub mod script;
mod session;
pub mod shown;

pub use error::{ClientError, ProtocolError, ServerError};
pub use session::{AnswerReader, AnswerSummary, FeedResult, PeerAddress, Protocol, Session};
