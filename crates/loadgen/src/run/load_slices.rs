//! LOAD DATA into several servers, one at a time.
//!
//! A *slice* feeds one server a part of the rows, and ends when it has read them; all servers get the
//! same parts. Each part is made before the slices that send it.

use std::time::{Duration, Instant};

use super::Context;
use super::statements::{Ended, LOCAL_FILE, counted};
use crate::statement::StatementRecord;
use crate::tables::SentCounts;
use datagen::Rows;
use engine::{Groups, Slice};
use protocol::ClientError;
use protocol::mysql::{Connection, Deadline, Outcome};

/// A load of the same rows into all servers.
pub struct SlicedLoad<'a, R> {
    pub sql: &'a str,
    pub rows: &'a R,
    /// The rows of a slice, at most.
    pub slice_rows: u64,
    /// Of the order of sides.
    pub seed: u64,
    /// The counts of what each server has been sent.
    pub sent: &'a SentCounts,
}

/// The rows of a slice, as text.
struct Part {
    rows: u64,
    text: Vec<u8>,
}

/// The work of one server so far.
#[derive(Default)]
struct Turns {
    took: Duration,
    slices: Vec<Slice>,
}

impl<R: Rows> SlicedLoad<'_, R> {
    /// Load, and return the ends of the statements by their sides.
    pub fn run(
        &self,
        context: &mut Context<'_>,
        record: &mut StatementRecord,
        deadline: &Deadline,
    ) -> Result<Vec<Ended>, ClientError> {
        let sides = context.session.sides();
        let origin = Instant::now();
        let mut turns: Vec<Turns> = Vec::new();
        let mut on_side =
            |side, work: &mut dyn FnMut(&mut Connection) -> Result<(), ClientError>| {
                let started = Instant::now();
                context.on_side(side, |connection| counted(record, work(connection)))?;
                Ok::<_, ClientError>((started - origin, started.elapsed()))
            };
        for side in 0..sides {
            let (_, took) = on_side(side, &mut |connection| {
                connection.begin_local(self.sql, LOCAL_FILE, deadline)
            })?;
            turns.push(Turns { took, slices: Vec::new() });
        }
        let mut groups = Groups::new(sides, self.seed);
        for parts in self.parts() {
            let order = groups.next_group();
            for (half, part) in order.chunks(sides as usize).zip(&parts) {
                for &side in half {
                    let (from, took) = on_side(side, &mut |connection| {
                        connection.send_local_part(&part.text, deadline)
                    })?;
                    turns[side as usize].add(side, from, took, part.rows);
                }
                self.sent.add(part.rows, part.text.len());
            }
        }
        let mut ended = Vec::new();
        for (side, Turns { took: before, slices }) in (0..sides).zip(turns) {
            let mut outcome = Outcome::default();
            let (_, took) = on_side(side, &mut |connection| {
                outcome = connection.end_local(deadline)?;
                Ok(())
            })?;
            ended.push(Ended { duration: before + took, outcome, slices: Some(slices) });
        }
        for each in &ended {
            record.succeeded(each.duration);
        }
        Ok(ended)
    }

    /// Yield the rows of each group: two parts, about equally long, the second of at least one row.
    fn parts(&self) -> impl Iterator<Item = [Part; 2]> {
        let rows = self.rows.count();
        let groups = rows.div_ceil(2 * self.slice_rows);
        let begin = move |part: u64| {
            let (each, more) = (rows / (2 * groups), rows % (2 * groups));
            part * each + part.min(more)
        };
        (0..groups).map(move |group| {
            [2 * group, 2 * group + 1].map(|part| self.part(begin(part), begin(part + 1)))
        })
    }

    fn part(&self, from: u64, to: u64) -> Part {
        let rows = to - from;
        let room = self.rows.room_for(usize::try_from(rows).expect("a slice is checked"));
        let mut text = vec![0; room];
        let length = self.rows.write(from, to, &mut text);
        text.truncate(length);
        Part { rows, text }
    }
}

impl Turns {
    fn add(&mut self, side: u32, from: Duration, took: Duration, rows: u64) {
        self.took += took;
        self.slices.push(Slice {
            side,
            from_ns: nanoseconds(from),
            until_ns: nanoseconds(from + took),
            transactions: rows,
            rested_ns: 0,
        });
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datagen::Nodes;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn parts_are_all_rows_in_their_order(rows in 0_u64..3_000, slice_rows in 1_u64..700) {
            let nodes = Nodes::new(rows, 7);
            let sent = SentCounts::default();
            let load = SlicedLoad { sql: "", rows: &nodes, slice_rows, seed: 1, sent: &sent };
            let parts: Vec<Part> = load.parts().flatten().collect();
            prop_assert_eq!(parts.iter().map(|part| part.rows).sum::<u64>(), rows);
            let most = parts.iter().map(|part| part.rows).max().unwrap_or(0);
            prop_assert!(most <= slice_rows);
            prop_assert!(parts.iter().all(|part| most - part.rows <= 1));
            let text: Vec<u8> = parts.into_iter().flat_map(|part| part.text).collect();
            let whole = load.part(0, rows).text;
            prop_assert_eq!(text, whole);
        }
    }
}
