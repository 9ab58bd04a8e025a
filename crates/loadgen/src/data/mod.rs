//! Data sets: made, not stored. Same seed, same bytes, for any number of threads and any slice.

mod checksum;
mod counter;
mod digits;
mod history;
mod local;
mod nodes;
mod output;
mod produce;
mod rows;
mod text;
mod users;

pub use checksum::{Checksum, Summed, checksum};
pub use counter::{Stream, high_product, mix};
pub use local::{LocalRows, Sent, rows_in};
pub use nodes::{MAX_ROWS, Nodes, VERSION as NODES_VERSION};
pub use output::write_all;
pub use produce::{Chunk, Producer};
pub use rows::Rows;
pub use text::{put_decimal, put_groups, put_integer, put_letters};
