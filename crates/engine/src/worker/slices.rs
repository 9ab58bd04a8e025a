//! The slices of a thread whose clients take turns.
//!
//! A slice begins in the event loop, once nothing is under way: never inside of what ends the one
//! before, so that nothing recurses.

use protocol::script::Script;
use protocol::{ClientError, Session};

use super::{STARTED_AT_ONCE, Worker};
use crate::client::State;

impl<C: Session, S: Script> Worker<'_, C, S> {
    /// Begin the next slice where the last one is over, and the first transactions of its clients.
    /// False where some are left: the answers that have come meanwhile are looked at first.
    pub(super) fn go_on_with_slices(&mut self) -> Result<bool, ClientError> {
        if self.under_way == 0 {
            self.end_slice();
            self.begin_slice();
        }
        for _ in 0..STARTED_AT_ONCE {
            let Some(index) = self.idle.pop_front() else {
                return Ok(true);
            };
            let now_ns = self.shared.clock.now_ns();
            let begun = self.next_transaction(index, now_ns);
            begun.map_err(|error| self.of_side(index, error))?;
            let client = &self.clients[index];
            if let (State::Asking, Some(turns)) = (client.state, &mut self.turns) {
                turns.started(client.sent_ns);
            }
        }
        Ok(self.idle.is_empty())
    }

    /// End the slice whose last answer has come, after the pause where a side is slowed down.
    fn end_slice(&mut self) {
        let Some(turns) = &mut self.turns else {
            return;
        };
        let last_side = turns.side();
        let clients = self.clients.iter().filter(|client| client.side == last_side);
        if let Some(answered_ns) = clients.filter_map(|client| client.answered_ns).max() {
            let mut until_ns = answered_ns;
            if !turns.is_over() {
                let (shared, from_ns) = (self.shared, turns.began_ns());
                let is_over = || shared.is_cancelled();
                let side = last_side as usize;
                until_ns = self.slowdowns.pause(side, shared.clock, from_ns, answered_ns, is_over);
            }
            turns.end(until_ns, until_ns - answered_ns);
            if turns.has_whole_group() {
                self.shared.is_sufficient_from(until_ns);
            }
        }
    }

    /// Begin the next slice, if there is one. Its clients wait in `idle` for their first
    /// transactions, and count as under way already: the slice is over when none is.
    fn begin_slice(&mut self) {
        let Some(turns) = &mut self.turns else {
            return;
        };
        if turns.is_over() {
            return;
        }
        let is_measured = self.shared.clock.now_ns() >= self.shared.measure_from_ns();
        let side = turns.begin(is_measured);
        for (index, client) in self.clients.iter_mut().enumerate() {
            if client.side == side {
                client.answered_ns = None; // the time before its turn is no gap
                self.idle.push_back(index);
            }
        }
        self.under_way = self.idle.len();
    }

    /// Break the slice off: no further transaction begins, in no slice.
    #[cold]
    pub(super) fn cut_slice(&mut self) {
        if let Some(turns) = &mut self.turns {
            turns.cut();
        }
    }

    /// Name the side of a client with its error, in slices.
    #[cold]
    pub(super) fn of_side(&self, index: usize, error: ClientError) -> ClientError {
        match &self.turns {
            Some(_) => error.of_side(self.clients[index].side),
            None => error,
        }
    }
}
