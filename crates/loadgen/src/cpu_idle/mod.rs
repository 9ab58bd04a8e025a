//! Sleeping CPUs: how long one takes to wake, and how to keep them all awake.
//!
//! A CPU with nothing to do halts, and on a virtual machine it takes tens of microseconds to run
//! again. A server that answers one client sleeps between two requests, so that delay is in every
//! latency and dilutes the difference between two servers.

mod awake;
mod measure;

pub use awake::{DisabledIdleStates, DisablingMethod, yield_to_other_sessions};
pub use measure::{IdleLatency, allowed_cpus, measure};
