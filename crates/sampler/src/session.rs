//! Samples one process under the control of commands; a command is a line of text.

use std::io;
use std::mem;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};

use super::ThreadsError;
use super::connection_map::ConnectionMap;
use super::pace::Pace;
use super::report::{Message, Report, SamplingFacts};
use super::sampler::Sampler;
use crate::scheduling;

/// Uncounted ticks for the first estimate of a tick's CPU time.
const TRIAL_TICKS: u32 = 3;

/// The process to sample, and the limits of the sampling.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub pid: u32,
    /// The maximum number of ticks per second, above 0.
    pub rate_hz: f64,
    /// The maximum share of a CPU, above 0.
    pub budget: f64,
}

/// Sample from the command to begin until the command to end, or until the process ends, and write
/// the counts.
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
    let mut control = Control { input, rest: Vec::new() };
    let mut command = next(&mut control, None)?;
    if let Some(Command::Line(line)) = &command
        && let Some(activity) = line.strip_prefix("statement_activity ")
    {
        sampler.watch_connections(ConnectionMap::parse(activity)?)?;
        command = next(&mut control, None)?;
    }
    match command {
        Some(Command::Line(line)) if line == "begin" => {}
        Some(Command::Line(line)) => return Err(ThreadsError::Command(line, "begin")),
        Some(Command::HangUp) | None => return Ok(()),
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
            Some(Command::Line(line)) if line == "end" => break false,
            Some(Command::Line(line)) => return Err(ThreadsError::Command(line, "end")),
            Some(Command::HangUp) => return Ok(()),
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

/// Return the next command; None if a tick is due first.
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

#[derive(Debug, PartialEq, Eq)]
enum Command {
    Line(String),
    /// Standard input was closed.
    HangUp,
}

/// Reads lines as they arrive.
struct Control<F> {
    input: F,
    /// The bytes after the last complete line.
    rest: Vec<u8>,
}

impl<F: AsFd> Control<F> {
    /// Return the next command; None if none arrives within the timeout.
    fn next(&mut self, timeout: Option<Duration>) -> io::Result<Option<Command>> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(Command::Line(line)));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let left = left.map(|left| Timespec::try_from(left).unwrap_or_default());
            match poll(&mut [PollFd::new(&self.input, PollFlags::IN)], left.as_ref()) {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let mut bytes = [0; 4096];
            match rustix::io::read(&self.input, &mut bytes) {
                Ok(0) => return Ok(Some(Command::HangUp)),
                Ok(length) => self.rest.extend_from_slice(&bytes[..length]),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn take_line(&mut self) -> Option<String> {
        let end = self.rest.iter().position(|&byte| byte == b'\n')?;
        let rest = self.rest.split_off(end + 1);
        let line = mem::replace(&mut self.rest, rest);
        Some(String::from_utf8_lossy(line.trim_ascii()).into_owned())
    }
}

/// Let ticks preempt other programs, because a busy host would delay them. Return whether that is
/// allowed. The timer is precise in any case.
fn be_punctual() -> bool {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    scheduling::enter(libc::SCHED_FIFO, 1).is_ok()
}

/// Raise the limit of open files: each thread needs up to four. If this is denied, opening a file
/// reports an error later.
fn allow_many_files() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Return the CPU time of this thread, the only one of this program.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Return a seed that differs in each run.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs() ^ u64::from(since.subsec_nanos()) << 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Write, pipe};

    #[test]
    fn lines_come_one_by_one_however_they_are_written() {
        let (reading, mut writing) = pipe().unwrap();
        let mut control = Control { input: reading, rest: Vec::new() };
        let moment = Some(Duration::from_millis(1));
        let line = |text: &str| Some(Command::Line(text.to_owned()));
        assert_eq!(control.next(moment).unwrap(), None);
        writing.write_all(b"begin\nen").unwrap();
        assert_eq!(control.next(None).unwrap(), line("begin"));
        assert_eq!(control.next(moment).unwrap(), None);
        writing.write_all(b"d\r\nstatement_activity {}\n more \n").unwrap();
        for text in ["end", "statement_activity {}", "more"] {
            assert_eq!(control.next(None).unwrap(), line(text));
        }
        writing.write_all(b"beg").unwrap();
        drop(writing);
        assert_eq!(control.next(None).unwrap(), Some(Command::HangUp));
    }
}
