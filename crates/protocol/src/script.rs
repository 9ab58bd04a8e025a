//! What the engine asks of scripts, which say what its clients send.

/// One request of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Index into the statements' names.
    pub statement: u16,
    /// Index into the transactions' names.
    pub transaction: u16,
    /// It begins its transaction.
    pub first: bool,
    /// It ends its transaction.
    pub last: bool,
}

/// What one client asks, request by request.
pub trait Script {
    /// Appends one command packet to `out`. None where the client has nothing left to ask.
    fn next(&mut self, out: &mut Vec<u8>) -> Option<Request>;

    /// Whether the server may hold a transaction open: asked after an error, before `again` or
    /// `abandon`.
    fn rollback_needed(&self) -> bool;

    /// Begins the current transaction again, with the same values.
    fn again(&mut self);

    /// Gives the current transaction up: the next request begins another.
    fn abandon(&mut self);
}

/// The names of what scripts ask, in the order of the indexes of [`Request`].
#[derive(Clone, Debug, Default)]
pub struct Names {
    pub statements: Vec<String>,
    pub transactions: Vec<String>,
}
