//! The sampling of one process, from one order to another.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};

use super::ThreadsError;
use super::orders::{Order, Orders};
use super::pace::Pace;
use super::place;
use super::report::{Circumstances, Message, Report};
use super::sampler::Sampler;
use super::seats::Seats;
use crate::scheduling;

/// What a tick costs is first known from so many that are not counted.
const TRIAL_TICKS: u32 = 3;

/// What to sample, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub pid: u32,
    /// Ticks a second, at most. Above 0.
    pub rate_hz: f64,
    /// CPU time by time, at most. Above 0.
    pub budget: f64,
}

/// Samples from the order to begin until the order to end, and writes what was counted; it is
/// written at once when the process ends before. Returns without a result where nobody is left to
/// give the order.
pub fn run(
    settings: Settings,
    input: impl AsFd,
    mut emit: impl FnMut(&Message) -> io::Result<()>,
) -> Result<(), ThreadsError> {
    allow_many_files();
    let mut sampler = Sampler::new(settings.pid)?;
    let realtime = be_punctual();
    let mut pace = Pace::new(settings.rate_hz, settings.budget, seed());
    for _ in 0..TRIAL_TICKS {
        let before_s = cpu_s();
        sampler.tick()?;
        pace.spent(cpu_s() - before_s);
    }
    emit(&Message::Ready).map_err(ThreadsError::Output)?;
    let mut orders = Orders::new(input);
    let mut order = next(&mut orders, None)?;
    if let Some(Order::Board(board)) = &order {
        sampler.look_at(Seats::ordered(board)?)?;
        order = next(&mut orders, None)?;
    }
    match order {
        Some(Order::Begin) => {}
        Some(Order::HangUp) | None => return Ok(()),
        Some(other) => return Err(unexpected(other, "begin")),
    }
    let (begun, cpu_before_s) = (Instant::now(), cpu_s());
    sampler.begin()?;
    place::beside(settings.pid);
    let mut spent_s = cpu_before_s;
    let ended = loop {
        match next(&mut orders, Some(&mut pace))? {
            None => {
                if !sampler.tick()? {
                    break true;
                }
                let now_s = cpu_s();
                pace.spent(now_s - spent_s);
                spent_s = now_s;
            }
            Some(Order::End) => break false,
            Some(Order::HangUp) => return Ok(()),
            Some(other) => return Err(unexpected(other, "end")),
        }
    };
    let circumstances = Circumstances {
        window_s: begun.elapsed().as_secs_f64(),
        cpu_s: cpu_s() - cpu_before_s,
        realtime,
        ended,
    };
    let report = Report::new(&mut sampler, circumstances);
    emit(&Message::Report(report)).map_err(ThreadsError::Output)
}

/// The next order; None where it is time for a tick before.
fn next(
    orders: &mut Orders<impl AsFd>,
    pace: Option<&mut Pace>,
) -> Result<Option<Order>, ThreadsError> {
    let order = orders.next(pace.map(Pace::interval));
    order.map_err(|source| ThreadsError::System {
        context: "cannot read standard input".to_owned(),
        source,
    })
}

fn unexpected(order: Order, due: &'static str) -> ThreadsError {
    let line = match order {
        Order::Board(board) => format!("board {board}"),
        Order::Begin => "begin".to_owned(),
        Order::End => "end".to_owned(),
        Order::Other(line) => line,
        Order::HangUp => String::new(),
    };
    ThreadsError::Order(line, due)
}

/// Has ticks come when they are due, whoever is on the CPU: else a busy host would be looked at when
/// it suits it. True where that was allowed; the timer is precise either way.
fn be_punctual() -> bool {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    scheduling::enter(libc::SCHED_FIFO, 1).is_ok()
}

/// Up to four files are open for each thread. Where that is not allowed, opening them says so.
fn allow_many_files() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// The CPU time of this thread, which is all that this program has.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    #[allow(clippy::cast_precision_loss)] // exact for weeks
    let seconds = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    seconds
}

/// Another one each time.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| {
        since.as_secs() ^ u64::from(since.subsec_nanos()) << 32
    })
}
