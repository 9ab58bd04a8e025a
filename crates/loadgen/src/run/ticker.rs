//! Reports once a second, from a thread of its own, what a phase has sent.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::events::{Event, Events};
use crate::tables::SentCounts;

const INTERVAL: Duration = Duration::from_secs(1);

/// Once it is dropped, no more intervals come.
pub struct Ticker {
    alive: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub fn start(phase: &str, sent: &Arc<SentCounts>, events: &Events) -> Self {
        let (alive, ended) = channel::<()>();
        let (phase, sent, events) = (phase.to_owned(), Arc::clone(sent), events.clone());
        let thread = thread::spawn(move || {
            let started = Instant::now();
            let mut due = started + INTERVAL;
            loop {
                let wait = due.saturating_duration_since(Instant::now());
                if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                events.emit(&Event::Interval {
                    phase: &phase,
                    t_s: started.elapsed().as_secs_f64(),
                    rows: sent.rows(),
                    bytes: sent.bytes(),
                });
                due += INTERVAL;
            }
        });
        Self { alive: Some(alive), thread: Some(thread) }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.alive.take();
        if let Some(thread) = self.thread.take() {
            // It reports and sleeps; there is nothing in it to fail.
            let _ = thread.join();
        }
    }
}
