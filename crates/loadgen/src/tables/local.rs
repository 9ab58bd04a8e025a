//! Rows that are made while they are sent.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use datagen::{Chunk, Producer, Rows};
use protocol::mysql::LocalData;

/// The size of the rows that are made at once: some packets, and about a socket's buffer.
const CHUNK_BYTES: usize = 256 << 10;

/// One thread makes rows many times faster than any server takes them.
const THREADS: usize = 1;

/// Counts of what a phase has sent so far; other threads read them meanwhile.
#[derive(Default)]
pub struct SentCounts {
    rows: AtomicU64,
    bytes: AtomicU64,
}

impl SentCounts {
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Count rows that the server has taken.
    pub fn add(&self, rows: u64, bytes: usize) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Fewer rows are never made at once: few rows are as long as they may be.
const FEWEST_ROWS: usize = 64;

/// So many rows that their padding is negligible.
const MANY: usize = 1024;

/// The rows of a data set as a local file.
pub struct LocalRows {
    producer: Producer,
    next: Option<Chunk>,
    sending: Option<Chunk>,
    sent: Arc<SentCounts>,
}

impl LocalRows {
    /// Start making a slice of `rows` and wait for the first.
    pub fn start<R: Rows + 'static>(
        rows: &Arc<R>,
        slice: &Range<u64>,
        sent: &Arc<SentCounts>,
    ) -> Self {
        let chunk_rows = (CHUNK_BYTES * MANY / rows.room_for(MANY)).max(FEWEST_ROWS);
        let mut producer = Producer::start(rows, slice, chunk_rows, THREADS);
        let next = producer.next_chunk();
        Self { producer, next, sending: None, sent: Arc::clone(sent) }
    }

    /// Return the time for which the sender waited for rows.
    pub fn waited(&self) -> Duration {
        self.producer.waited()
    }
}

impl LocalData for LocalRows {
    fn next_bytes(&mut self) -> Option<&[u8]> {
        if let Some(chunk) = self.sending.take() {
            self.sent.add(chunk.rows(), chunk.bytes().len());
            self.producer.recycle(chunk);
        }
        self.sending = self.next.take().or_else(|| self.producer.next_chunk());
        self.sending.as_ref().map(Chunk::bytes)
    }
}
