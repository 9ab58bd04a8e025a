//! Threads that produce rows ahead of their consumer, who receives them in order.
//!
//! Thread `c mod threads` produces chunk `c` of a slice, so the consumer knows which thread has the
//! next chunk, and nothing needs a lock. Every thread has a few buffers, which the consumer
//! returns; this bounds memory, and a slow consumer makes the threads wait. The threads end when
//! the producer is dropped.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};

use super::rows::Rows;

/// Buffers of a thread: one is being filled; the others wait for the consumer or are in use by it.
const BUFFERS: usize = 4;

/// About 320 kB: few system calls, and the chunk is still in a core's cache when it is written.
const CHUNK_ROWS: usize = 4096;

/// The kernel's default limit for the pipe size of an unprivileged process.
const PIPE_BYTES: i32 = 1 << 20;

/// Some whole rows as text.
pub struct Chunk {
    buffer: Vec<u8>,
    length: usize,
    rows: u64,
    worker: usize,
}

impl Chunk {
    /// Return the rows as text, each with its newline.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }
}

/// The consumer's ends of a thread's two queues.
struct Worker {
    full: Receiver<Chunk>,
    empty: Sender<Vec<u8>>,
}

/// Threads that produce a slice of a data set.
pub struct Producer {
    workers: Vec<Worker>,
    turn: usize,
    rows_left: u64,
    waited: Duration,
}

impl Producer {
    /// Start `threads` threads on `slice` of `rows`; a chunk has `chunk_rows` rows.
    pub fn start<R: Rows + 'static>(
        rows: &Arc<R>,
        slice: &Range<u64>,
        chunk_rows: usize,
        threads: usize,
    ) -> Self {
        let start = |turn| start_worker(rows, slice, chunk_rows, turn, threads);
        let rows_left = slice.end.saturating_sub(slice.start);
        let workers = (0..threads).map(start).collect();
        Self { workers, turn: 0, rows_left, waited: Duration::ZERO }
    }

    /// Return the next chunk, or None after the last.
    pub fn next_chunk(&mut self) -> Option<Chunk> {
        if self.rows_left == 0 {
            return None;
        }
        let full = &self.workers[self.turn].full;
        let chunk = match full.try_recv() {
            Ok(chunk) => Ok(chunk),
            Err(TryRecvError::Disconnected) => full.recv(),
            Err(TryRecvError::Empty) => {
                let asked = Instant::now();
                let chunk = full.recv();
                self.waited += asked.elapsed();
                chunk
            }
        }
        .expect("a thread ends only after its last chunk");
        self.turn = (self.turn + 1) % self.workers.len();
        self.rows_left -= chunk.rows;
        Some(chunk)
    }

    /// Return a chunk's buffer to the thread that filled it; the thread needs it to continue.
    pub fn recycle(&self, chunk: Chunk) {
        // A thread that has produced its last chunk no longer receives buffers.
        let _ = self.workers[chunk.worker].empty.send(chunk.buffer);
    }

    /// Return how long the consumer has waited for the threads.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

/// Write `slice` of `rows`, produced by `threads` threads, to `out`.
pub fn write_all<R: Rows + 'static>(
    rows: &Arc<R>,
    slice: &Range<u64>,
    threads: usize,
    mut out: File,
) -> io::Result<()> {
    // A larger pipe saves context switches between writer and reader. It fails for files, which is
    // harmless.
    let _ = fcntl(&out, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES));
    let mut producer = Producer::start(rows, slice, CHUNK_ROWS, threads);
    while let Some(chunk) = producer.next_chunk() {
        out.write_all(chunk.bytes())?;
        producer.recycle(chunk);
    }
    Ok(())
}

fn start_worker<R: Rows + 'static>(
    rows: &Arc<R>,
    slice: &Range<u64>,
    chunk_rows: usize,
    turn: usize,
    threads: usize,
) -> Worker {
    let (full_sender, full) = channel();
    let (empty, empty_receiver) = channel();
    for _ in 0..BUFFERS {
        let unused = empty.send(vec![0; rows.room_for(chunk_rows)]);
        debug_assert!(unused.is_ok(), "the receiver is in this scope");
    }
    let rows = Arc::clone(rows);
    let end = slice.end;
    let step = chunk_rows as u64;
    let starts = (slice.start..end).step_by(chunk_rows).skip(turn).step_by(threads);
    thread::spawn(move || {
        for from in starts {
            let Ok(mut buffer) = empty_receiver.recv() else {
                return;
            };
            let to = end.min(from + step);
            let length = rows.write(from, to, &mut buffer);
            let chunk = Chunk { buffer, length, rows: to - from, worker: turn };
            if full_sender.send(chunk).is_err() {
                return;
            }
        }
    });
    Worker { full, empty }
}

#[cfg(test)]
mod tests {
    use super::super::nodes::Nodes;
    use super::*;
    use proptest::prelude::*;

    fn all(nodes: &Arc<Nodes>, slice: Range<u64>, chunk_rows: usize, threads: usize) -> Vec<u8> {
        let mut producer = Producer::start(nodes, &slice, chunk_rows, threads);
        let mut bytes = Vec::new();
        while let Some(chunk) = producer.next_chunk() {
            bytes.extend_from_slice(chunk.bytes());
            producer.recycle(chunk);
        }
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn threads_and_slices_do_not_change_a_byte(
            seed: u64, rows in 1u64..3_000, cut in 0.0..1.0, chunk_rows in 1usize..500, threads in 1usize..5,
        ) {
            let nodes = Arc::new(Nodes::new(rows, seed));
            let mut whole = vec![0; nodes.room_for(3_000)];
            let length = nodes.write(0, rows, &mut whole);
            whole.truncate(length);
            #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation)]
            let middle = (rows as f64 * cut) as u64;
            let mut joined = all(&nodes, 0..middle, chunk_rows, threads);
            joined.extend(all(&nodes, middle..rows, chunk_rows, threads));
            prop_assert_eq!(joined, whole);
        }
    }

    #[test]
    fn an_early_end_leaves_no_thread_behind() {
        let nodes = Arc::new(Nodes::new(1 << 40, 1));
        let mut producer = Producer::start(&nodes, &(0..1 << 40), 100, 2);
        assert_eq!(producer.next_chunk().map(|chunk| chunk.rows()), Some(100));
        drop(producer);
        // The threads hold the other references to the set, so they have ended when one is left.
        while Arc::strong_count(&nodes) > 1 {
            thread::yield_now();
        }
    }
}
