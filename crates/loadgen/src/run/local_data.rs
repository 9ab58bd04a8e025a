//! Rows that are made while they are sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::data::{Chunk, Nodes, Producer};
use crate::mysql::LocalData;

/// About 160 kB: some packets, and less than a socket's buffer.
const CHUNK_ROWS: usize = 2048;

/// One thread makes rows many times faster than any server takes them.
const THREADS: usize = 1;

/// What a phase has sent so far; read by others while it sends.
#[derive(Default)]
pub struct Sent {
    rows: AtomicU64,
    bytes: AtomicU64,
}

impl Sent {
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn add(&self, chunk: &Chunk) {
        self.rows.fetch_add(chunk.rows(), Ordering::Relaxed);
        self.bytes
            .fetch_add(chunk.bytes().len() as u64, Ordering::Relaxed);
    }
}

/// The rows of a data set as a local file.
pub struct GeneratedRows {
    producer: Producer,
    next: Option<Chunk>,
    sending: Option<Chunk>,
    sent: Arc<Sent>,
}

impl GeneratedRows {
    /// Starts making rows and waits for the first.
    pub fn start(nodes: &Arc<Nodes>, sent: &Arc<Sent>) -> Self {
        let mut producer = Producer::start(nodes, &(0..nodes.rows()), CHUNK_ROWS, THREADS);
        let next = producer.next_chunk();
        Self {
            producer,
            next,
            sending: None,
            sent: Arc::clone(sent),
        }
    }

    /// How long the sender waited for rows.
    pub fn waited(&self) -> Duration {
        self.producer.waited()
    }
}

impl LocalData for GeneratedRows {
    fn next_bytes(&mut self) -> Option<&[u8]> {
        if let Some(chunk) = self.sending.take() {
            self.sent.add(&chunk);
            self.producer.recycle(chunk);
        }
        self.sending = self.next.take().or_else(|| self.producer.next_chunk());
        self.sending.as_ref().map(Chunk::bytes)
    }
}
