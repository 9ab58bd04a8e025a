//! The requests of a client: send them, handle answers, and record both.

use std::io::{self, ErrorKind};

use crate::client::State;
use crate::record::{Record, Tally};
use protocol::script::{Answer, Observe, Script};
use protocol::{
    AnswerReader, AnswerSummary, ClientError, Protocol, ProtocolError, ServerError, Session,
};

use super::{Worker, cannot_wait};

/// The maximum number of retries of a transaction. One that fails more often will not succeed, and
/// equal work would never end. Even a transaction that fails nine times in ten stays below it.
const MOST_RETRIES: u64 = 1_000;

/// The maximum after the end of the measured part, when everybody waits for transactions under way.
const MOST_RETRIES_AFTER_END: u64 = 10;

impl<C: Session, S: Script> Worker<'_, C, S> {
    /// Serve a connection that has an event.
    #[inline]
    pub(super) fn serve(&mut self, index: usize, has_hung_up: bool) -> Result<(), ClientError> {
        if self.clients[index].has_unsent() {
            self.send_more(index)?;
        }
        self.receive(index, has_hung_up)
    }

    fn send_more(&mut self, index: usize) -> Result<(), ClientError> {
        let client = &mut self.clients[index];
        match client.send_more() {
            Ok(false) => Ok(()),
            Ok(true) => {
                self.poller.set_writing(&client.session, index as u64, false).map_err(cannot_wait)
            }
            Err(error) => Err(self.lost(index, error)),
        }
    }

    /// Read and handle the bytes that have arrived; after a hang-up, up to the end of the stream.
    fn receive(&mut self, index: usize, has_hung_up: bool) -> Result<(), ClientError> {
        loop {
            let client = &mut self.clients[index];
            let count = match client.receive(&mut self.received) {
                Ok(Some(0)) => return Err(self.lost(index, ErrorKind::UnexpectedEof.into())),
                Ok(Some(count)) => count,
                Ok(None) => return Ok(()),
                Err(error) => return Err(self.lost(index, error)),
            };
            self.counts.heard = true;
            let fed = client.answers.feed(&self.received[..count])?;
            if let Some(end) = fed.end {
                if fed.consumed < count {
                    return Err(unasked::<C::Protocol>(&self.received[fed.consumed..count]));
                }
                self.answered(index, end)?;
            }
            if count < self.received.len() && !has_hung_up {
                return Ok(()); // the socket is empty: bytes that arrive now are a new event
            }
        }
    }

    /// Handle an answer that has arrived completely.
    #[inline]
    fn answered(&mut self, index: usize, end: AnswerSummary) -> Result<(), ClientError> {
        let now_ns = self.shared.clock.now_ns();
        let client = &mut self.clients[index];
        client.answered_ns = Some(now_ns);
        client.activity.clear();
        match client.state {
            State::Asking => {}
            State::RollingBack { again } => return self.rolled_back(index, again, end, now_ns),
            State::Idle | State::Ended => {
                return Err(end.error.map_or_else(more_than_asked, |error| (*error).into()));
            }
        }
        let tally = Tally {
            rows: end.rows,
            affected_rows: end.affected_rows,
            bytes_sent: client.sent_bytes as u64,
            bytes_received: end.bytes,
            retries: 0,
        };
        client.transaction.tally.add(&tally);
        self.counts.totals.rows += tally.rows;
        self.counts.totals.bytes += tally.bytes_sent + tally.bytes_received;
        let request = client.request;
        let record =
            &mut self.records[client.side as usize].statements[usize::from(request.statement)];
        let is_measured = client.transaction.measured;
        if is_measured {
            record.tally.add(&tally);
        }
        if let Some(error) = end.error {
            return self.failed(index, *error, now_ns);
        }
        self.counts.totals.statements += 1;
        if is_measured {
            let timed = u64::from(!request.untimed);
            let (service_ns, response_ns) = (now_ns - client.sent_ns, now_ns - client.due_ns);
            record.succeeded(timed * service_ns, timed * response_ns);
        }
        let is_last = match request.observe {
            Observe::Nothing => request.last,
            observe => self.observed(index, observe, &end)?,
        };
        if is_last { self.completed(index, now_ns) } else { self.ask(index, now_ns).map(drop) }
    }

    /// Pass an answer to the client's script; return whether the transaction ends with it.
    fn observed(
        &mut self,
        index: usize,
        observe: Observe,
        end: &AnswerSummary,
    ) -> Result<bool, ClientError> {
        let answers = &mut self.clients[index].answers;
        let mut more_rows = Vec::new();
        let row = match observe {
            Observe::LastRow { of_rows, .. } if end.rows < u64::from(of_rows) => {
                answers.forget_row();
                None
            }
            Observe::Rows(_) => {
                let mut rows = answers.take_rows()?.into_iter();
                let first = rows.next();
                more_rows.extend(rows);
                first
            }
            _ => answers.take_row()?,
        };
        let client = &mut self.clients[index];
        let answer = Answer {
            rows: end.rows,
            affected_rows: end.affected_rows,
            last_insert_id: end.last_insert_id,
            row,
            more_rows,
        };
        let outcome = client.script.answered(&answer);
        outcome.map_err(ClientError::Workload)
    }

    /// Record a successful transaction.
    #[inline]
    fn completed(&mut self, index: usize, now_ns: u64) -> Result<(), ClientError> {
        let client = &self.clients[index];
        let transaction = &client.transaction;
        let begun_ns = transaction.begun_ns.unwrap_or(now_ns);
        let timed = u64::from(!client.request.untimed);
        let service_ns = timed * (now_ns - begun_ns);
        let response_ns = timed * (now_ns - transaction.intended_ns);
        self.counts.totals.transactions += 1;
        self.counts.latencies.record(if self.arrivals.is_some() {
            response_ns
        } else {
            service_ns
        });
        if transaction.measured {
            let record = &mut self.records[client.side as usize].transactions
                [usize::from(client.request.transaction)];
            record.tally.add(&transaction.tally);
            record.succeeded(service_ns, response_ns);
            if let Some(part) = self.part_of(index, now_ns) {
                part.succeeded(service_ns, response_ns);
            }
            self.clients[index].transactions += 1;
        } else {
            let records = &mut self.records[client.side as usize];
            records.before += 1;
            records.before_ns += service_ns;
        }
        self.note_end(index, now_ns);
        if let Some(turns) = &mut self.turns {
            turns.succeeded();
        }
        self.next_transaction(index, now_ns)
    }

    /// Return the record of the part of maintenance that a transaction belongs to if it ends now;
    /// None without maintenance.
    #[inline]
    fn part_of(&mut self, index: usize, now_ns: u64) -> Option<&mut Record> {
        let client = &self.clients[index];
        let parts = &mut self.records[client.side as usize].parts;
        if parts.is_empty() {
            return None;
        }
        let intended_ns = client.transaction.intended_ns;
        parts.get_mut(self.shared.maintenance.part(intended_ns, now_ns))
    }

    /// Handle a request that failed with an error of the server.
    #[cold]
    fn failed(&mut self, index: usize, error: ServerError, now_ns: u64) -> Result<(), ClientError> {
        let most_retries = if now_ns < self.shared.measure_until_ns() {
            MOST_RETRIES
        } else {
            MOST_RETRIES_AFTER_END
        };
        let client = &mut self.clients[index];
        let (code, request) = (error.code, client.request);
        let again = self.retry.contains(&code) && client.transaction.tally.retries < most_retries;
        self.records[client.side as usize].error_messages.entry(code).or_insert(error.message);
        self.counts.totals.errors += 1;
        self.counts.totals.retries += u64::from(again);
        client.transaction.tally.retries += u64::from(again);
        if client.transaction.measured {
            let statement =
                &mut self.records[client.side as usize].statements[usize::from(request.statement)];
            statement.failed(code);
            statement.tally.retries += u64::from(again);
            if !again {
                let transaction = &mut self.records[client.side as usize].transactions
                    [usize::from(request.transaction)];
                transaction.failed(code);
                transaction.tally.add(&client.transaction.tally);
                if let Some(part) = self.part_of(index, now_ns) {
                    part.failed(code);
                }
            }
        }
        if !again {
            self.note_end(index, now_ns);
        }
        let client = &mut self.clients[index];
        if client.script.rollback_needed() {
            client.state = State::RollingBack { again };
            client.activity.show_rollback();
            self.packet.clear();
            self.packet.extend_from_slice(C::Protocol::ROLLBACK);
            return self.send(index);
        }
        self.resume(index, again, now_ns)
    }

    #[cold]
    fn rolled_back(
        &mut self,
        index: usize,
        again: bool,
        end: AnswerSummary,
        now_ns: u64,
    ) -> Result<(), ClientError> {
        let client = &self.clients[index];
        self.records[client.side as usize].rollbacks += u64::from(client.transaction.measured);
        match end.error {
            // The unfinished transaction would become part of the next one.
            Some(error) => Err((*error).into()),
            None => self.resume(index, again, now_ns),
        }
    }

    /// Restart or give up the transaction after an error.
    fn resume(&mut self, index: usize, again: bool, now_ns: u64) -> Result<(), ClientError> {
        let script = &mut self.clients[index].script;
        if again {
            script.again();
            self.ask(index, now_ns).map(drop)
        } else {
            script.abandon();
            if let Some(turns) = &mut self.turns {
                turns.failed();
            }
            self.next_transaction(index, now_ns)
        }
    }

    /// Send a client's next request; return false if there is none.
    #[inline]
    pub(super) fn ask(&mut self, index: usize, due_ns: u64) -> Result<bool, ClientError> {
        let client = &mut self.clients[index];
        self.packet.clear();
        let Some(request) = client.script.next(&mut self.packet) else {
            return Ok(false);
        };
        let now_ns = self.shared.clock.now_ns();
        client.activity.show(request.statement);
        if let Some((which, format)) = request.observe.kept_row() {
            client.answers.keep_row(which, format);
        }
        client.request = request;
        client.state = State::Asking;
        client.due_ns = due_ns;
        client.sent_ns = now_ns;
        client.transaction.begun_ns.get_or_insert(now_ns);
        if let Some(answered_ns) = client.answered_ns
            && client.transaction.measured
        {
            let records = &mut self.records[client.side as usize];
            records.gap_ns += now_ns - answered_ns;
            records.gaps += 1;
        }
        self.send(index)?;
        Ok(true)
    }

    #[inline]
    fn send(&mut self, index: usize) -> Result<(), ClientError> {
        let client = &mut self.clients[index];
        match client.send(&self.packet) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.poller.set_writing(&client.session, index as u64, true).map_err(cannot_wait)
            }
            Err(error) => Err(self.lost(index, error)),
        }
    }

    /// Return the error of a lost connection, with the last message of the server.
    #[cold]
    fn lost(&mut self, index: usize, source: io::Error) -> ClientError {
        let client = &mut self.clients[index];
        let mut context = format!("lost the connection of client {} to the server", client.number);
        let last = client.session.read(&mut self.received).ok().and_then(|count| {
            let fed = client.answers.feed(&self.received[..count]).ok()?;
            fed.end?.error
        });
        if let Some(error) = last {
            context = format!("{context}, which said: {error}");
        }
        ClientError::Connection { context, source }
    }
}

/// Return the error for bytes after the end of an answer.
#[cold]
fn unasked<P: Protocol>(bytes: &[u8]) -> ClientError {
    let fed = P::Answers::default().feed(bytes);
    let end = fed.ok().and_then(|fed| fed.end);
    end.and_then(|end| end.error).map_or_else(more_than_asked, |error| (*error).into())
}

fn more_than_asked() -> ClientError {
    ProtocolError::Unexpected("it answered something that was not asked".to_owned()).into()
}
