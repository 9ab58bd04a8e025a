//! Commands to the sampler, as lines of text: when to begin and when to end.

use std::io;
use std::mem;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// A line, or the end of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The activity file to look at: this much of the line is about it.
    StatementActivity(String),
    Begin,
    End,
    Other(String),
    /// Standard input has ended.
    HangUp,
}

/// Lines that come whenever they are written.
pub struct Control<F> {
    input: F,
    /// The bytes after the last whole line.
    rest: Vec<u8>,
}

impl<F: AsFd> Control<F> {
    pub fn new(input: F) -> Self {
        Self { input, rest: Vec::new() }
    }

    /// Return the next command; None where none comes within the timeout.
    pub fn next(&mut self, timeout: Option<Duration>) -> io::Result<Option<Command>> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match self.wait(left) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
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

    /// Wait for something to read; false where nothing comes within the timeout.
    fn wait(&self, timeout: Option<Duration>) -> Result<bool, Errno> {
        let mut input = [PollFd::new(&self.input, PollFlags::IN)];
        let timeout = timeout.map(|left| Timespec::try_from(left).unwrap_or_default());
        Ok(poll(&mut input, timeout.as_ref())? > 0)
    }

    fn take_line(&mut self) -> Option<Command> {
        let end = self.rest.iter().position(|&byte| byte == b'\n')?;
        let rest = self.rest.split_off(end + 1);
        let line = mem::replace(&mut self.rest, rest);
        let text = String::from_utf8_lossy(line.trim_ascii());
        Some(match (&*text, text.strip_prefix("statement_activity ")) {
            ("begin", _) => Command::Begin,
            ("end", _) => Command::End,
            (_, Some(activity)) => Command::StatementActivity(activity.to_owned()),
            (other, None) => Command::Other(other.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Write, pipe};

    #[test]
    fn lines_come_one_by_one_however_they_are_written() {
        let (reading, mut writing) = pipe().unwrap();
        let mut control = Control::new(reading);
        let moment = Some(Duration::from_millis(1));
        assert_eq!(control.next(moment).unwrap(), None);
        writing.write_all(b"begin\nen").unwrap();
        assert_eq!(control.next(None).unwrap(), Some(Command::Begin));
        assert_eq!(control.next(moment).unwrap(), None);
        writing.write_all(b"d\r\nstatement_activity {}\n more \n").unwrap();
        assert_eq!(control.next(None).unwrap(), Some(Command::End));
        let activity = Command::StatementActivity("{}".to_owned());
        assert_eq!(control.next(None).unwrap(), Some(activity));
        let other = Command::Other("more".to_owned());
        assert_eq!(control.next(None).unwrap(), Some(other));
        writing.write_all(b"beg").unwrap();
        drop(writing);
        assert_eq!(control.next(None).unwrap(), Some(Command::HangUp));
    }
}
