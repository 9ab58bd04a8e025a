//! A connected non-blocking socket, plain or with TLS, for callers that poll many sockets at once.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use nix::sys::stat::fstat;
use rustls::client::ClientConnection;

use super::answer::Mysql;
use crate::{PeerAddress, Session};

/// A session over a plain socket, with one system call for each read and each write, or over TLS.
#[derive(Debug)]
pub struct Channel {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Channel {
    pub fn over_unix(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { socket: Socket::Unix(stream), tls: None })
    }

    /// Return a channel over TCP that sends everything at once (`TCP_NODELAY`).
    pub fn over_tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self { socket: Socket::Tcp(stream), tls: None })
    }

    /// Return whether nobody else can read the traffic.
    pub fn is_private(&self) -> bool {
        self.tls.is_some() || matches!(self.socket, Socket::Unix(_))
    }

    /// Send several pieces; returns as [`Session::write`] does.
    pub fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.write_vectored(pieces),
            Some(session) => write_pieces(session, &mut self.socket, pieces),
        }
    }

    /// Switch to TLS. Until `handshake` has returned true, no other method may be called.
    pub(super) fn begin_tls(&mut self, session: ClientConnection) {
        self.tls = Some(Box::new(session));
    }

    /// Continue the handshake without blocking; return true when it is complete. The inner error is
    /// a TLS error.
    pub(super) fn handshake(&mut self) -> io::Result<Result<bool, rustls::Error>> {
        let Some(session) = &mut self.tls else {
            return Ok(Ok(true));
        };
        loop {
            if let Err(error) = flush(session, &mut self.socket)
                && error.kind() != ErrorKind::WouldBlock
            {
                return Err(error);
            }
            if !session.is_handshaking() || session.wants_write() {
                return Ok(Ok(!session.is_handshaking() && !session.wants_write()));
            }
            match session.read_tls(&mut self.socket) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {
                    if let Err(error) = session.process_new_packets() {
                        let _ = flush(session, &mut self.socket); // sends the alert with the reason
                        return Ok(Err(error));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Ok(false)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Session for Channel {
    type Protocol = Mysql;

    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.read(buffer),
            Some(session) => read_all(session, &mut self.socket, buffer),
        }
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.write(bytes),
            Some(session) => write_pieces(session, &mut self.socket, &[IoSlice::new(bytes)]),
        }
    }

    #[inline]
    fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.wants_write())
    }

    fn peer_address(&self) -> io::Result<PeerAddress> {
        Ok(match &self.socket {
            Socket::Unix(stream) => PeerAddress::Unix { inode: fstat(stream)?.st_ino },
            Socket::Tcp(stream) => PeerAddress::Tcp { port: stream.local_addr()?.port() },
        })
    }
}

/// Fill the buffer with decrypted bytes, as long as the socket has more.
fn read_all(
    session: &mut ClientConnection,
    socket: &mut Socket,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match session.reader().read(&mut buffer[filled..]) {
            // End of the stream: reported by TLS, or only by the socket, as with many servers.
            Ok(0) => break,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Ok(count) => {
                filled += count;
                continue;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        match session.read_tls(socket) {
            Ok(_) => {
                session
                    .process_new_packets()
                    .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Return the bytes decrypted before the error; a permanent error occurs again.
            Err(_) if filled > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn write_pieces(
    session: &mut ClientConnection,
    socket: &mut Socket,
    pieces: &[IoSlice<'_>],
) -> io::Result<usize> {
    let count = session.writer().write_vectored(pieces)?;
    match flush(session, socket) {
        // The session keeps the bytes and sends them with a later call.
        Err(error) if error.kind() == ErrorKind::WouldBlock && count > 0 => Ok(count),
        Err(error) => Err(error),
        Ok(()) if count == 0 && pieces.iter().any(|piece| !piece.is_empty()) => {
            session.writer().write_vectored(pieces)
        }
        Ok(()) => Ok(count),
    }
}

fn flush(session: &mut ClientConnection, socket: &mut Socket) -> io::Result<()> {
    while session.wants_write() {
        match session.write_tls(socket) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Read for Socket {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write_vectored(pieces),
            Self::Tcp(stream) => stream.write_vectored(pieces),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(stream) => stream.as_fd(),
            Socket::Tcp(stream) => stream.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_waits_and_the_end_of_the_stream_has_no_bytes() {
        let (ours, mut other) = UnixStream::pair().unwrap();
        let mut channel = Channel::over_unix(ours).unwrap();
        let mut buffer = [0; 8];
        let error = channel.read(&mut buffer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let full = std::iter::repeat_with(|| channel.write(&[0; 4096])).find_map(Result::err);
        assert_eq!(full.unwrap().kind(), ErrorKind::WouldBlock);
        assert!(!channel.wants_write());
        other.write_all(b"answer").unwrap();
        assert_eq!(channel.read(&mut buffer).unwrap(), 6);
        let (ours, _) = UnixStream::pair().unwrap();
        assert_eq!(Channel::over_unix(ours).unwrap().read(&mut buffer).unwrap(), 0);
    }
}
