//! Servers with scripted answers.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::{self, JoinHandle};

pub const GREETING: &[u8] = b"\x0a5.6.24\0\x01\0\0\0abcdefgh\0\xff\xf7\x08\x02\0\x0f\x80\x15\
    \0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0mysql_native_password\0";
pub const OK: &[u8] = b"\0\0\0\x02\0\0\0";

/// A server that follows a script on its first connection.
pub fn server(socket: &Path, script: impl FnOnce(Peer) + Send + 'static) -> JoinHandle<()> {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || script(Peer(listener.accept().unwrap().0)))
}

/// The server's end of a connection.
pub struct Peer(pub UnixStream);

impl Peer {
    pub fn say(&mut self, sequence: u8, payload: &[u8]) {
        let [a, b, c, ..] = payload.len().to_le_bytes();
        // The client may have gone already: that is what some tests are about.
        let _ = self.0.write_all(&[&[a, b, c, sequence], payload].concat());
    }

    pub fn receive(&mut self) -> Vec<u8> {
        let mut header = [0; 4];
        if self.0.read_exact(&mut header).is_err() {
            return Vec::new();
        }
        let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).unwrap();
        payload
    }

    pub fn accept_login(&mut self) {
        self.say(0, GREETING);
        self.receive();
        self.say(2, OK);
    }
}
