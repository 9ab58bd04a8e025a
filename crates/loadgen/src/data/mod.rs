//! Data sets: made, not stored. Same seed, same bytes, for any number of threads and any slice.

mod checksum;
mod counter;
mod digits;
mod history;
mod nodes;
mod output;
mod produce;
mod users;

pub use checksum::checksum;
pub use nodes::{MAX_ROWS, Nodes, VERSION as NODES_VERSION};
pub use output::write_all;
pub use produce::{Chunk, Producer};
