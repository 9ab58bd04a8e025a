//! Drives many connections with a few threads and measures them.
//!
//! [`drive`] opens the connections and gives each to one thread (`worker`), which never blocks on a
//! single connection. A client (`client`) is a connection, its script and a small state. In an open
//! loop, transactions arrive by a schedule (`arrivals`). In equal work, all threads draw from one
//! budget (`budget`). In slices, the clients of one server work at a time (`slices`), some of them
//! slowed down on purpose (`slowdowns`). The calling thread (`coordinator`) sets the parts of the
//! drive, reports once a second, and ends the drive. `record` and `drive_result` have the results.
//! Protocols and workloads do not belong here.

mod arrivals;
mod budget;
mod client;
mod clock;
mod coordinator;
mod drive;
mod drive_result;
mod interval;
mod latency;
mod poller;
mod record;
mod resource_usage;
mod settings;
mod shared;
mod slices;
mod slowdowns;
pub mod statement_activity;
mod worker;

pub use arrivals::LATE_NS;
pub use clock::nanoseconds;
pub use drive::{RunStatements, drive};
pub use drive_result::{
    BackgroundResult, ClientCpu, DriveResult, Failed, MaintenanceResult, Mark, PacingResult,
    PartResult, PerClient, Punctuality, Report, SideResult,
};
pub use interval::{Counts, Interval, Part, Totals};
pub use latency::{Latencies, encoded};
pub use record::Record;
pub use resource_usage::{ResourceUsage, max_rss_bytes};
pub use settings::{
    Arrivals, BackgroundClients, CPU_NUMBERS, DriveSettings, End, IDLE_TIMEOUT, Pacing, Warmup,
};
pub use slices::{Groups, Slice, SliceSettings};
pub use worker::{first_unusable_cpu, pin};
