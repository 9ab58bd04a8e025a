//! The interface of data sets: rows as text, each computable by its number alone.

/// A data set. Row `n` needs no row before it, so any slice can be made by any thread.
pub trait Rows: Send + Sync {
    fn count(&self) -> u64;

    /// Bytes that always hold `rows` rows, with the padding [`Rows::write`] needs.
    fn room_for(&self, rows: usize) -> usize;

    /// Write the rows from number `from` up to, not including, `to`, and return their length.
    ///
    /// Columns are separated by tabs, and a newline ends each row. `out` must have
    /// [`Rows::room_for`] those rows; what is behind the returned length is without meaning.
    fn write(&self, from: u64, to: u64, out: &mut [u8]) -> usize;
}
