//! The checksum of a slice of the data; a server can compute the same one with SQL, in any order of
//! rows.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::rows::Rows;

const CHUNK_ROWS: usize = 4096;

/// The order-independent checksum of some rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum {
    pub rows: u64,
    /// Length of the rows as text, newlines included.
    pub bytes: u64,
    /// The sum of the rows' CRC-32 (ISO-HDLC, as SQL's `CRC32`), each over the row's text without
    /// its newline.
    pub sum: u128,
}

impl Checksum {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            bytes: self.bytes + other.bytes,
            sum: self.sum + other.sum,
        }
    }
}

/// Return the checksum of `slice` of `rows`, computed by `threads` threads.
pub fn checksum(rows: &impl Rows, slice: &Range<u64>, threads: usize) -> Checksum {
    let count = slice.end.saturating_sub(slice.start);
    let share = count.div_ceil(threads as u64).max(1);
    thread::scope(|scope| {
        let start = |part| {
            let from = slice.end.min(slice.start + part * share);
            let to = slice.end.min(from + share);
            scope.spawn(move || checksum_of_part(rows, from, to))
        };
        let parts: Vec<_> = (0..threads as u64).map(start).collect();
        let sums = parts.into_iter().map(|part| part.join().expect("a thread does not panic"));
        sums.fold(Checksum::default(), Checksum::plus)
    })
}

fn checksum_of_part(rows: &impl Rows, from: u64, to: u64) -> Checksum {
    let mut buffer = vec![0; rows.room_for(CHUNK_ROWS)];
    let mut total = Checksum::default();
    let mut row = from;
    while row < to {
        let next = to.min(row + CHUNK_ROWS as u64);
        let length = rows.write(row, next, &mut buffer);
        total = total.plus(checksum_of_text(&buffer[..length]));
        row = next;
    }
    total
}

/// A data set that computes the checksum of its rows while it produces them.
pub struct ChecksummedRows<R> {
    rows: Arc<R>,
    total: Mutex<Checksum>,
}

impl<R: Rows> ChecksummedRows<R> {
    pub fn new(rows: &Arc<R>) -> Self {
        Self { rows: Arc::clone(rows), total: Mutex::default() }
    }

    /// Return the checksum of the rows written so far.
    pub fn total(&self) -> Checksum {
        *self.total.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Rows> Rows for ChecksummedRows<R> {
    fn count(&self) -> u64 {
        self.rows.count()
    }

    fn room_for(&self, rows: usize) -> usize {
        self.rows.room_for(rows)
    }

    fn write(&self, from: u64, to: u64, out: &mut [u8]) -> usize {
        let length = self.rows.write(from, to, out);
        let sum = checksum_of_text(&out[..length]);
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        *total = total.plus(sum);
        length
    }
}

fn checksum_of_text(text: &[u8]) -> Checksum {
    let mut total = Checksum { bytes: text.len() as u64, ..Checksum::default() };
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', text) {
        total.rows += 1;
        total.sum += u128::from(crc32fast::hash(&text[start..end]));
        start = end + 1;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::super::nodes::Nodes;
    use super::*;

    #[test]
    fn the_crc_is_the_one_of_sql() {
        // The manual of `CRC32` documents: SELECT CRC32('MySQL') returns 3259397556.
        let total = checksum_of_text(b"MySQL\n");
        assert_eq!(total, Checksum { rows: 1, bytes: 6, sum: 3_259_397_556 });
    }

    #[test]
    fn slices_add_up_for_any_number_of_threads() {
        let nodes = Nodes::new(10_000, 9);
        let whole = checksum(&nodes, &(0..10_000), 1);
        assert_eq!(whole.rows, 10_000);
        assert_eq!(checksum(&nodes, &(0..10_000), 3), whole);
        let parts = checksum(&nodes, &(0..4_321), 2).plus(checksum(&nodes, &(4_321..10_000), 2));
        assert_eq!(parts, whole);
        assert_eq!(checksum(&nodes, &(3..3), 2), Checksum::default());
    }

    #[test]
    fn rows_are_summed_while_they_are_made() {
        let nodes = Arc::new(Nodes::new(1_000, 9));
        let summed = ChecksummedRows::new(&nodes);
        let mut buffer = vec![0; summed.room_for(1_000)];
        summed.write(500, 1_000, &mut buffer);
        summed.write(0, 500, &mut buffer);
        assert_eq!(summed.total(), checksum(nodes.as_ref(), &(0..1_000), 1));
    }
}
