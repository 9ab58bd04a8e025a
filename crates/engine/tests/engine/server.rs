//! A server with scripted answers, one thread for each connection, and clients for it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use protocol::mysql::channel::Channel;
use protocol::script::{Names, Request, Script};

pub const OK: &[u8] = b"\x07\0\0\x01\0\x01\0\x02\0\0\0";

/// One column and two rows, in the text protocol.
pub const TWO_ROWS: &[u8] = b"\x01\0\0\x01\x01\
    \x17\0\0\x02\x03def\0\0\0\x01c\0\x0c\x08\0\x01\0\0\0\xfe\0\0\0\0\0\
    \x05\0\0\x03\xfe\0\0\x02\0\
    \x02\0\0\x04\x01a\
    \x02\0\0\x05\x01b\
    \x05\0\0\x06\xfe\0\0\x02\0";

pub fn error(code: u16) -> Vec<u8> {
    let payload = [&[0xff], &code.to_le_bytes()[..], b"#HY000scripted"].concat();
    [&[u8::try_from(payload.len()).unwrap(), 0, 0, 1], &payload[..]].concat()
}

/// The server's reaction to a request.
pub enum Answer {
    Bytes(Vec<u8>),
    /// Send these bytes and close the connection.
    Close(Vec<u8>),
    /// Send nothing until the client has disconnected.
    Nothing,
}

/// A request, as the server receives it.
pub struct SeenRequest<'a> {
    pub client: u32,
    /// The number of the request on its connection, from 0.
    pub number: u64,
    pub payload: &'a [u8],
}

type Behaviour = dyn Fn(&SeenRequest<'_>) -> Answer + Send + Sync;

/// Counts requests, and answers them by a function.
#[derive(Clone)]
pub struct Server {
    behaviour: Arc<Behaviour>,
    /// Requests of scripts; `ROLLBACK`s are counted separately.
    seen: Arc<AtomicU64>,
    /// Answers that were sent completely, including those to `ROLLBACK`.
    answered: Arc<AtomicU64>,
    rollbacks: Arc<AtomicU64>,
    /// Connections that sent QUIT.
    quits: Arc<AtomicU64>,
}

impl Server {
    pub fn new(behaviour: impl Fn(&SeenRequest<'_>) -> Answer + Send + Sync + 'static) -> Self {
        Self {
            behaviour: Arc::new(behaviour),
            seen: Arc::default(),
            answered: Arc::default(),
            rollbacks: Arc::default(),
            quits: Arc::default(),
        }
    }

    pub fn answering(bytes: &'static [u8]) -> Self {
        Self::new(move |_| Answer::Bytes(bytes.to_vec()))
    }

    /// Return a server that answers after this time.
    pub fn answering_after(
        time: impl Fn(&SeenRequest<'_>) -> Duration + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |asked| {
            thread::sleep(time(asked));
            Answer::Bytes(OK.to_vec())
        })
    }

    /// Open a connection of a client; the server's thread ends with it.
    pub fn connect(&self, client: u32) -> Channel {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = self.clone();
        thread::spawn(move || server.serve(theirs, client));
        Channel::over_unix(ours).unwrap()
    }

    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::SeqCst)
    }

    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::SeqCst)
    }

    pub fn rollbacks(&self) -> u64 {
        self.rollbacks.load(Ordering::SeqCst)
    }

    pub fn quits(&self) -> u64 {
        self.quits.load(Ordering::SeqCst)
    }

    fn serve(&self, mut stream: UnixStream, client: u32) {
        let mut number = 0;
        while let Some(payload) = hear(&mut stream) {
            let answer = match payload.as_slice() {
                [1] => {
                    self.quits.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                b"\x03ROLLBACK" => {
                    self.rollbacks.fetch_add(1, Ordering::SeqCst);
                    Answer::Bytes(OK.to_vec())
                }
                payload => {
                    self.seen.fetch_add(1, Ordering::SeqCst);
                    number += 1;
                    (self.behaviour)(&SeenRequest { client, number: number - 1, payload })
                }
            };
            // The client may have disconnected already, as some tests intend.
            match answer {
                Answer::Bytes(bytes) => {
                    drop(stream.write_all(&bytes));
                    self.answered.fetch_add(1, Ordering::SeqCst);
                }
                Answer::Close(bytes) => {
                    drop(stream.write_all(&bytes));
                    return;
                }
                Answer::Nothing => {
                    let _ = stream.read(&mut [0]);
                    return;
                }
            }
        }
    }
}

/// Return the payload of the next packet; None if the client has disconnected.
fn hear(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut header = [0; 4];
    stream.read_exact(&mut header).ok()?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).ok()?;
    Some(payload)
}

/// A script whose transactions have this number of equal statements.
#[derive(Clone)]
pub struct StatementScript {
    statements: u16,
    /// The number of transactions left; None without a limit.
    left: Option<u64>,
    position: u16,
    payload: Vec<u8>,
}

impl StatementScript {
    pub fn new(statements: u16) -> Self {
        Self { statements, left: None, position: 0, payload: b"\x03SELECT 1".to_vec() }
    }

    pub fn with_transactions(self, left: u64) -> Self {
        Self { left: Some(left), ..self }
    }

    /// Set the length of the requests in bytes.
    pub fn with_length(self, length: usize) -> Self {
        Self { payload: vec![3; length], ..self }
    }

    /// Return the names of this script's statements and of its only transaction.
    pub fn names(statements: u16) -> Names {
        Names {
            statements: (0..statements).map(|number| format!("s{number}")).collect(),
            transactions: vec!["t".to_owned()],
        }
    }
}

impl Script for StatementScript {
    fn next(&mut self, out: &mut Vec<u8>) -> Option<Request> {
        if self.position == 0
            && let Some(left) = &mut self.left
        {
            *left = left.checked_sub(1)?;
        }
        let statement = self.position;
        self.position = (self.position + 1) % self.statements;
        let [a, b, c, ..] = self.payload.len().to_le_bytes();
        out.extend_from_slice(&[a, b, c, 0]);
        out.extend_from_slice(&self.payload);
        let (first, last) = (statement == 0, self.position == 0);
        Some(Request { statement, first, last, ..Request::default() })
    }

    fn rollback_needed(&self) -> bool {
        self.position > 0
    }

    fn again(&mut self) {
        self.position = 0;
        self.left = self.left.map(|left| left + 1);
    }

    fn abandon(&mut self) {
        self.position = 0;
    }
}
