//! The sampling of one process, from one command to another.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};

use super::ThreadsError;
use super::connection_map::ConnectionMap;
use super::control::{Command, Control};
use super::pace::Pace;
use super::report::{Message, Report, SamplingFacts};
use super::sampler::Sampler;
use crate::scheduling;

/// Uncounted ticks that give the first estimate of a tick's CPU time.
const TRIAL_TICKS: u32 = 3;

/// The process to sample, and the rate.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub pid: u32,
    /// Ticks a second, at most. Above 0.
    pub rate_hz: f64,
    /// CPU time by time, at most. Above 0.
    pub budget: f64,
}

/// Sample between the commands to begin and to end, or until the process ends, and write what was counted.
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
    let mut control = Control::new(input);
    let mut command = next(&mut control, None)?;
    if let Some(Command::StatementActivity(activity)) = &command {
        sampler.watch_connections(ConnectionMap::parse(activity)?)?;
        command = next(&mut control, None)?;
    }
    match command {
        Some(Command::Begin) => {}
        Some(Command::HangUp) | None => return Ok(()),
        Some(other) => return Err(unexpected(other, "begin")),
    }
    let (begun, cpu_before_s) = (Instant::now(), cpu_s());
    sampler.begin()?;
    scheduling::move_beside(settings.pid);
    let mut spent_s = cpu_before_s;
    let ended = loop {
        match next(&mut control, Some(&mut pace))? {
            None => {
                if !sampler.tick()? {
                    break true;
                }
                let now_s = cpu_s();
                pace.spent(now_s - spent_s);
                spent_s = now_s;
            }
            Some(Command::End) => break false,
            Some(Command::HangUp) => return Ok(()),
            Some(other) => return Err(unexpected(other, "end")),
        }
    };
    let circumstances = SamplingFacts {
        window_s: begun.elapsed().as_secs_f64(),
        cpu_s: cpu_s() - cpu_before_s,
        realtime,
        ended,
    };
    let report = Report::new(&mut sampler, circumstances);
    emit(&Message::Report(report)).map_err(ThreadsError::Output)
}

/// Return the next command; None where it is time for a tick before.
fn next(
    control: &mut Control<impl AsFd>,
    pace: Option<&mut Pace>,
) -> Result<Option<Command>, ThreadsError> {
    let command = control.next(pace.map(Pace::interval));
    command.map_err(|source| ThreadsError::System {
        context: "cannot read standard input".to_owned(),
        source,
    })
}

fn unexpected(command: Command, due: &'static str) -> ThreadsError {
    let line = match command {
        Command::StatementActivity(activity) => format!("statement_activity {activity}"),
        Command::Begin => "begin".to_owned(),
        Command::End => "end".to_owned(),
        Command::Other(line) => line,
        Command::HangUp => String::new(),
    };
    ThreadsError::Command(line, due)
}

/// Let ticks preempt others: else a busy host delays them. True where allowed; the timer is precise anyway.
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

/// Return the CPU time of this thread, which is all that this program has.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    #[allow(clippy::cast_precision_loss)] // exact for weeks
    let seconds = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    seconds
}

/// Another one each time.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs() ^ u64::from(since.subsec_nanos()) << 32)
}
