//! Data sets and random numbers that depend only on a seed: the same seed gives the same bytes, for
//! any number of threads and any slice.
//!
//! [`Rows`] is a data set as text: [`Nodes`] has columns that depend on each other, [`TableRows`]
//! has one generator for each column ([`column`]). [`Producer`] produces the rows of either ahead
//! of the consumer, and [`checksum`] computes their checksum. Clients use [`random`],
//! [`distribution`] and [`bijection`] too. Nothing here knows workload definitions or databases.

pub mod bijection;
mod checksum;
pub mod column;
mod counter;
mod digits;
pub mod distribution;
pub mod expression;
#[cfg(any(test, feature = "goodness"))]
pub mod goodness;
mod history;
pub mod link_degrees;
pub mod motifs;
mod nodes;
mod produce;
pub mod random;
pub mod rotations;
mod rows;
mod table_rows;
mod text;
mod users;

pub use checksum::{Checksum, ChecksummedRows, checksum};
pub use counter::{Stream, high_product, mix};
pub use nodes::{MAX_ROWS, Nodes, VERSION as NODES_VERSION};
pub use produce::{Chunk, Producer, write_all};
pub use rows::Rows;
pub use table_rows::TableRows;
pub use text::{put_decimal, put_groups, put_integer, put_letters};
