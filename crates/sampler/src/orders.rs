//! When to begin and when to end, by lines of text.

use std::io;
use std::mem;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// A line, or the end of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The board to look at: this much of the line is about it.
    Board(String),
    Begin,
    End,
    Other(String),
    /// Nobody is left to give orders.
    HangUp,
}

/// Lines that come whenever they are written.
pub struct Orders<F> {
    input: F,
    /// What came after the last whole line.
    rest: Vec<u8>,
}

impl<F: AsFd> Orders<F> {
    pub fn new(input: F) -> Self {
        Self {
            input,
            rest: Vec::new(),
        }
    }

    /// The next order; None where none comes within so long.
    pub fn next(&mut self, patience: Option<Duration>) -> io::Result<Option<Order>> {
        let until = patience.map(|patience| Instant::now() + patience);
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
                Ok(0) => return Ok(Some(Order::HangUp)),
                Ok(length) => self.rest.extend_from_slice(&bytes[..length]),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether there is something to read, within so long.
    fn wait(&self, patience: Option<Duration>) -> Result<bool, Errno> {
        let mut input = [PollFd::new(&self.input, PollFlags::IN)];
        let patience = patience.map(|left| Timespec::try_from(left).unwrap_or_default());
        Ok(poll(&mut input, patience.as_ref())? > 0)
    }

    fn take_line(&mut self) -> Option<Order> {
        let end = self.rest.iter().position(|&byte| byte == b'\n')?;
        let rest = self.rest.split_off(end + 1);
        let line = mem::replace(&mut self.rest, rest);
        let text = String::from_utf8_lossy(line.trim_ascii());
        Some(match (&*text, text.strip_prefix("board ")) {
            ("begin", _) => Order::Begin,
            ("end", _) => Order::End,
            (_, Some(board)) => Order::Board(board.to_owned()),
            (other, None) => Order::Other(other.to_owned()),
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
        let mut orders = Orders::new(reading);
        let moment = Some(Duration::from_millis(1));
        assert_eq!(orders.next(moment).unwrap(), None);
        writing.write_all(b"begin\nen").unwrap();
        assert_eq!(orders.next(None).unwrap(), Some(Order::Begin));
        assert_eq!(orders.next(moment).unwrap(), None);
        writing.write_all(b"d\r\nboard {}\n more \n").unwrap();
        assert_eq!(orders.next(None).unwrap(), Some(Order::End));
        let board = Order::Board("{}".to_owned());
        assert_eq!(orders.next(None).unwrap(), Some(board));
        let other = Order::Other("more".to_owned());
        assert_eq!(orders.next(None).unwrap(), Some(other));
        writing.write_all(b"beg").unwrap();
        drop(writing);
        assert_eq!(orders.next(None).unwrap(), Some(Order::HangUp));
    }
}
