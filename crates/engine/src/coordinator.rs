//! The coordinator thread: sets the parts of a drive, reports marks and intervals, and ends the
//! drive.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use protocol::ClientError;

use super::clock::{nanoseconds, seconds};
use super::drive_result::{Mark, Report};
use super::interval::{Counts, Interval, Part};
use super::poller::Waker;
use super::resource_usage::ResourceUsage;
use super::settings::{DriveSettings, End, Warmup};
use super::shared::{NEVER, Shared};
use super::worker::{Finished, Message};

/// The length of an interval, for which counts are reported.
const INTERVAL_NS: u64 = 1_000_000_000;

/// The maximum delay until a stop request is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(40);

/// The longest wait for the counts of a thread; later counts belong to the next interval.
const HAND_OVER: Duration = Duration::from_millis(50);

/// Number of seconds whose mean throughput is compared with that of as many seconds before.
const WINDOW: usize = 3;

/// In a steady state, the two means differ by at most this share of the later mean.
const TOLERANCE: f64 = 0.02;

/// The outcome of a drive, with the results of its threads.
pub struct DriveOutcome {
    pub finished: Vec<Finished>,
    pub warmup_s: f64,
    pub warmup_steady: Option<bool>,
    pub duration_s: f64,
    pub used: ResourceUsage,
    /// The reason why the measured part is incomplete.
    pub partial_reason: Option<String>,
    /// The error that ended the drive.
    pub error: Option<ClientError>,
}

/// The state of a running drive.
pub struct Coordinator<'a> {
    drive: &'a DriveSettings,
    shared: &'a Shared,
    wakers: &'a [Waker],
    messages: Receiver<Message>,
    report: &'a dyn Fn(&Report),
    stop: &'a AtomicBool,
    finished: Vec<Finished>,
    is_deserted: bool,
    counts: Counts,
    part: Part,
    interval_from_ns: u64,
    throughput: Vec<f64>,
    steady: Option<bool>,
    measured_until_ns: Option<u64>,
    /// The time at which the mark `MeasureEnded` was reported.
    end_marked_ns: Option<u64>,
    /// The last time at which the server answered, or no request was under way.
    last_answer_ns: u64,
    usage_before: ResourceUsage,
    used: ResourceUsage,
    error: Option<ClientError>,
}

impl<'a> Coordinator<'a> {
    pub fn new(
        drive: &'a DriveSettings,
        shared: &'a Shared,
        wakers: &'a [Waker],
        messages: Receiver<Message>,
        report: &'a dyn Fn(&Report),
        stop: &'a AtomicBool,
    ) -> Self {
        let measure_from_ns = match drive.warmup {
            Warmup::Time(duration) => shared.start_ns + nanoseconds(duration),
            Warmup::Steady { .. } => NEVER,
        };
        if measure_from_ns != NEVER {
            shared.measure(measure_from_ns, end_of(drive, measure_from_ns));
        }
        Self {
            drive,
            shared,
            wakers,
            messages,
            report,
            stop,
            finished: Vec::new(),
            is_deserted: false,
            counts: Counts::default(),
            part: Part::Warmup,
            interval_from_ns: shared.start_ns,
            throughput: Vec::new(),
            steady: None,
            measured_until_ns: None,
            end_marked_ns: None,
            last_answer_ns: shared.start_ns,
            usage_before: ResourceUsage::now(),
            used: ResourceUsage::default(),
            error: None,
        }
    }

    pub fn run(mut self) -> DriveOutcome {
        if self.drive.warmup != Warmup::Time(Duration::ZERO) {
            self.mark(Mark::WarmupStarted);
        }
        while self.finished.len() < self.wakers.len() && !self.is_deserted {
            self.listen();
            self.look_for_reasons_to_end();
            let now_ns = self.shared.clock.now_ns();
            match self.part {
                Part::Warmup if now_ns >= self.shared.measure_from_ns() => self.begin_measuring(),
                Part::Measure if self.measured_until_ns.is_none() => {
                    if now_ns >= self.shared.measure_until_ns() {
                        self.end_measuring(self.shared.measure_until_ns());
                    }
                }
                Part::Measure | Part::Warmup => {}
            }
            if now_ns >= self.next_interval_ns() && self.measured_until_ns.is_none() {
                self.tick(self.next_interval_ns());
                self.end_steady_warmup();
            }
            self.cancel_if_silent(now_ns);
        }
        self.conclude()
    }

    /// Wait for a message, at most until the next scheduled event.
    fn listen(&mut self) {
        let now_ns = self.shared.clock.now_ns();
        let wake_ns = [
            self.next_interval_ns(),
            self.shared.measure_from_ns(),
            self.shared.measure_until_ns(),
        ]
        .into_iter()
        .filter(|&time_ns| time_ns > now_ns)
        .min()
        .unwrap_or(NEVER);
        let timeout = Duration::from_nanos(wake_ns - now_ns).min(POLL_INTERVAL);
        self.receive(timeout);
    }

    /// Receive one message; if it has counts, return their tick.
    fn receive(&mut self, timeout: Duration) -> Option<u32> {
        match self.messages.recv_timeout(timeout) {
            Ok(Message::Counts(tick, counts)) => {
                self.counts.merge(&counts);
                return Some(tick);
            }
            Ok(Message::Finished(mut finished)) => {
                self.counts.merge(&finished.counts);
                let outcome = std::mem::replace(&mut finished.outcome, Ok(()));
                self.finished.push(*finished);
                if let Err(error) = outcome {
                    self.cancel(error);
                }
            }
            Ok(Message::MaintenanceFailed(error)) => self.cancel(error),
            Err(RecvTimeoutError::Timeout) => {}
            // Each thread sends `Finished` before it ends, unless it panics.
            Err(RecvTimeoutError::Disconnected) => self.is_deserted = true,
        }
        None
    }

    fn look_for_reasons_to_end(&mut self) {
        if self.error.is_some() {
            return;
        }
        if self.stop.load(Ordering::Relaxed) {
            self.cancel(ClientError::Interrupted);
        } else if let Some(limit) = self.drive.limit
            && self.shared.clock.now_ns() >= nanoseconds(limit)
        {
            self.cancel(ClientError::TimeLimit { limit });
        }
    }

    /// End the drive because of an error; the first error is reported.
    fn cancel(&mut self, error: ClientError) {
        self.error.get_or_insert(error);
        self.shared.cancel();
        self.wake_all();
    }

    fn wake_all(&self) {
        self.wakers.iter().for_each(Waker::wake);
    }

    fn begin_measuring(&mut self) {
        self.usage_before = ResourceUsage::now();
        // First the mark: its recipient starts to sample the server, and must not wait for the
        // counts of the warm-up.
        self.mark(Mark::MeasureStarted);
        self.tick(self.shared.measure_from_ns());
        self.part = Part::Measure;
    }

    fn end_measuring(&mut self, until_ns: u64) {
        self.used = ResourceUsage::now().since(&self.usage_before);
        self.measured_until_ns = Some(until_ns);
        self.mark(Mark::MeasureEnded);
        self.end_marked_ns = Some(self.shared.clock.now_ns());
        self.tick(until_ns);
    }

    /// Collect the counts of all threads, and report them as the interval until `until_ns`.
    fn tick(&mut self, until_ns: u64) {
        // Equal work may end just before an interval that has already been reported.
        if until_ns <= self.interval_from_ns {
            return;
        }
        let tick = self.shared.next_tick();
        self.wake_all();
        let now_ns = self.shared.clock.now_ns();
        let deadline_ns = now_ns + nanoseconds(HAND_OVER);
        let mut handed_over = 0;
        while handed_over + self.finished.len() < self.wakers.len() && !self.is_deserted {
            let left_ns = deadline_ns.saturating_sub(self.shared.clock.now_ns());
            if left_ns == 0 {
                break;
            }
            let answer = self.receive(Duration::from_nanos(left_ns));
            handed_over += usize::from(answer == Some(tick));
        }
        self.report_interval(until_ns);
    }

    fn report_interval(&mut self, until_ns: u64) {
        let counts = std::mem::take(&mut self.counts);
        if counts.heard || counts.under_way == 0 {
            self.last_answer_ns = self.shared.clock.now_ns();
        }
        let duration_s = seconds(until_ns - self.interval_from_ns);
        self.throughput.push(counts.totals.transactions as f64 / duration_s);
        self.interval_from_ns = until_ns;
        let interval = Interval::new(self.part, seconds(until_ns), duration_s, &counts);
        (self.report)(&Report::Interval(interval));
    }

    /// End a warm-up that waits for steady throughput, if it is steady or the limit is over.
    fn end_steady_warmup(&mut self) {
        let Warmup::Steady { limit } = self.drive.warmup else {
            return;
        };
        // The current interval becomes the last one of the warm-up, so that it has full length too.
        let from_ns = self.next_interval_ns();
        if self.steady.is_some() || from_ns <= self.shared.clock.now_ns() {
            return;
        }
        let is_steady = is_steady(&self.throughput);
        if is_steady || from_ns - self.shared.start_ns >= nanoseconds(limit) {
            self.steady = Some(is_steady);
            self.shared.measure(from_ns, end_of(self.drive, from_ns));
            self.wake_all(); // a thread that sleeps until an arrival needs the new end of the schedule
        }
    }

    /// Cancel the drive if the server has not answered for the idle timeout.
    fn cancel_if_silent(&mut self, now_ns: u64) {
        let since_ns = self.measured_until_ns.unwrap_or(self.last_answer_ns);
        let limit = self.drive.idle_timeout;
        if self.error.is_none() && now_ns.saturating_sub(since_ns) >= nanoseconds(limit) {
            self.cancel(ClientError::Silent { limit });
        }
    }

    /// Build the outcome, after all threads have ended.
    fn conclude(mut self) -> DriveOutcome {
        let now_ns = self.shared.clock.now_ns();
        if self.part == Part::Measure && self.measured_until_ns.is_none() {
            let last_ns = self.finished.iter().map(|finished| finished.last_end_ns).max();
            let until_ns = if self.error.is_none() { last_ns } else { None };
            let until_ns = until_ns.unwrap_or(now_ns);
            self.end_measuring(until_ns.max(self.shared.measure_from_ns()));
        }
        self.linger();
        let side = self.finished.iter().find_map(|finished| finished.side);
        // The side that the others are waiting for did not answer, whether the idle timeout or the
        // limit ended the drive.
        self.error = match (self.error.take(), side) {
            (
                Some(error @ (ClientError::Silent { .. } | ClientError::TimeLimit { .. })),
                Some(side),
            ) => Some(error.of_side(side)),
            (error, _) => error,
        };
        let until_ns = self.measured_until_ns;
        let from_ns = self.shared.measure_from_ns().min(until_ns.unwrap_or(now_ns));
        DriveOutcome {
            partial_reason: self.partial_reason(),
            warmup_s: seconds(from_ns - self.shared.start_ns.min(from_ns)),
            warmup_steady: self.steady,
            duration_s: until_ns.map_or(0.0, |until_ns| seconds(until_ns - from_ns)),
            used: self.used,
            finished: self.finished,
            error: self.error,
        }
    }

    /// Keep the clients connected for the linger time, unless an error occurred, the drive is
    /// stopped, or its limit is over. The measurement is complete in any case.
    fn linger(&self) {
        let (Some(ended_ns), None) = (self.end_marked_ns, &self.error) else {
            return;
        };
        let lingered_ns = ended_ns + nanoseconds(self.drive.linger);
        let limit_ns = self.drive.limit.map_or(NEVER, nanoseconds);
        let until_ns = lingered_ns.min(limit_ns);
        while !self.stop.load(Ordering::Relaxed) {
            let left_ns = until_ns.saturating_sub(self.shared.clock.now_ns());
            if left_ns == 0 {
                return;
            }
            thread::sleep(Duration::from_nanos(left_ns).min(POLL_INTERVAL));
        }
    }

    fn partial_reason(&self) -> Option<String> {
        if let Some(error) = &self.error {
            return Some(error.to_string());
        }
        let primary = self.finished.iter().filter(|finished| finished.group == 0);
        let used_up: usize = primary.map(|finished| finished.used_up).sum();
        let budget = self.shared.budget.as_ref();
        if used_up == 0 || budget.is_some_and(|budget| budget.left() == 0) {
            return None;
        }
        let clients = match (used_up, self.drive.connections()) {
            (used_up, clients) if used_up == clients as usize => "all clients".to_owned(),
            (used_up, clients) => format!("{used_up} of {clients} clients"),
        };
        Some(format!("{clients} used up what they had to ask"))
    }

    fn next_interval_ns(&self) -> u64 {
        self.interval_from_ns + INTERVAL_NS
    }

    fn mark(&self, mark: Mark) {
        let t_s = self.shared.clock.now_s();
        (self.report)(&Report::Mark { mark, t_s });
    }
}

/// Return the end of the measured part as known so far; maintenance postpones it.
fn end_of(drive: &DriveSettings, from_ns: u64) -> u64 {
    match drive.end {
        _ if drive.maintenance_after.is_some() => NEVER,
        End::Time(duration) | End::Either(duration, _) => from_ns + nanoseconds(duration),
        End::Operations(_) => NEVER,
    }
}

/// Return whether throughput is steady: the means of the last three seconds and of the three
/// seconds before differ by at most 2 %.
///
/// On most hosts, single seconds vary more than that. A throughput of 0 is not steady.
fn is_steady(throughput: &[f64]) -> bool {
    let Some(start) = throughput.len().checked_sub(2 * WINDOW) else {
        return false;
    };
    let (before, after) = throughput[start..].split_at(WINDOW);
    let (before, after): (f64, f64) = (before.iter().sum(), after.iter().sum());
    after > 0.0 && (after - before).abs() <= TOLERANCE * after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rise_is_not_steady_and_its_end_is() {
        let mut seconds = vec![10.0, 50.0, 80.0, 95.0, 99.0, 100.0];
        assert!(!is_steady(&seconds));
        seconds.extend([100.0, 101.0, 99.0]);
        assert!(is_steady(&seconds));
    }

    #[test]
    fn neither_few_seconds_nor_none_done_are_steady() {
        assert!(!is_steady(&[100.0; 5]));
        assert!(is_steady(&[100.0; 6]));
        assert!(!is_steady(&[0.0; 6]));
    }
}
