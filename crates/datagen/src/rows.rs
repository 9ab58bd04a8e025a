//! The interface of data sets: each row is text that can be computed from the row's number alone.

/// A data set. Row `n` does not depend on earlier rows, so any thread can produce any slice.
pub trait Rows: Send + Sync {
    fn count(&self) -> u64;

    /// Return a number of bytes that always suffices for `rows` rows and the padding of
    /// [`Rows::write`].
    fn room_for(&self, rows: usize) -> usize;

    /// Write the rows from number `from` to below `to`, and return their length.
    ///
    /// Tabs separate columns, and a newline ends each row. `out` must have [`Rows::room_for`] the
    /// rows; bytes after the returned length are undefined.
    fn write(&self, from: u64, to: u64, out: &mut [u8]) -> usize;
}
