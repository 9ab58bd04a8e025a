//! A data set to a file or a pipe.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use nix::fcntl::{FcntlArg, fcntl};

use super::produce::Producer;
use super::rows::Rows;

/// About 320 kB: large enough that system calls are few, small enough to be still in a core's
/// cache when it is copied out.
const CHUNK_ROWS: usize = 4096;

/// What an unprivileged process may ask a pipe to hold unless the host says otherwise.
const PIPE_BYTES: i32 = 1 << 20;

/// Writes `slice` of `rows`, made by `threads` threads, to `out`.
pub fn write_all<R: Rows + 'static>(
    rows: &Arc<R>,
    slice: &Range<u64>,
    threads: usize,
    mut out: File,
) -> io::Result<()> {
    // A larger pipe saves switches between us and the reader; files and refusals are no matter.
    let _ = fcntl(&out, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
    let mut producer = Producer::start(rows, slice, CHUNK_ROWS, threads);
    while let Some(chunk) = producer.next_chunk() {
        out.write_all(chunk.bytes())?;
        producer.recycle(chunk);
    }
    Ok(())
}
