//! The handshake: the server's greeting, and the client's response.

use super::account::Login;
use super::wire::{Reader, put_string, put_string_and_zero};
use crate::ProtocolError;
use crate::error::refused;

/// Capability flags, with the names in the protocol's documentation.
pub mod capability {
    pub const LONG_PASSWORD: u32 = 1;
    pub const LONG_FLAG: u32 = 1 << 2;
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    pub const LOCAL_FILES: u32 = 1 << 7;
    pub const PROTOCOL_41: u32 = 1 << 9;
    pub const TLS: u32 = 1 << 11;
    pub const TRANSACTIONS: u32 = 1 << 13;
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    pub const MULTI_RESULTS: u32 = 1 << 17;
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    pub const PLUGIN_AUTH_LENENC_DATA: u32 = 1 << 21;
}
use capability as c;

/// Capabilities that this client requires; every server since MySQL 5.5 has them.
const NEEDED: u32 = c::PROTOCOL_41 | c::SECURE_CONNECTION | c::PLUGIN_AUTH;

const WANTED: u32 = NEEDED
    | c::LONG_PASSWORD
    | c::LONG_FLAG
    | c::LOCAL_FILES
    | c::TRANSACTIONS
    | c::MULTI_RESULTS
    | c::PLUGIN_AUTH_LENENC_DATA;

/// `utf8mb4_general_ci`, which every server since MySQL 5.5.3 supports.
const CHARSET: u8 = 45;

/// The largest packet that this client announces to accept.
const MAX_PACKET: u32 = 1 << 30;

/// The first message of a server.
#[derive(Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The server's own `VERSION()`, without MariaDB's prefix `5.5.5-` for old replicas.
    pub server_version: String,
    pub capabilities: u32,
    /// The 20 random bytes that are mixed with the password.
    pub nonce: Vec<u8>,
    pub plugin: String,
}

impl Greeting {
    /// Parse a greeting of protocol version 10; an error packet is returned as an error.
    pub fn parse(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(message);
        let protocol = reader.byte("protocol version")?;
        if protocol != 10 {
            return refused(format!(
                "the server greeted with protocol version {protocol} instead of 10"
            ));
        }
        let version = String::from_utf8_lossy(reader.string_to_zero()).into_owned();
        reader.bytes(4, "connection id")?;
        let mut nonce = reader.bytes(8, "first half of the nonce")?.to_vec();
        reader.bytes(1, "filler")?;
        let low = u32::from(reader.short("capabilities")?);
        reader.bytes(3, "character set and status")?;
        let capabilities = low | u32::from(reader.short("capabilities")?) << 16;
        if capabilities & NEEDED != NEEDED {
            let message =
                format!("the server {version} is too old: MySQL 5.5 or MariaDB 10 is needed");
            return refused(message);
        }
        let nonce_length = usize::from(reader.byte("length of the nonce")?);
        reader.bytes(10, "reserved bytes")?;
        let second = reader.bytes(nonce_length.saturating_sub(8).max(13), "nonce")?;
        nonce.extend_from_slice(second.strip_suffix(&[0]).unwrap_or(second));
        let plugin = String::from_utf8_lossy(reader.string_to_zero()).into_owned();
        let server_version = version.strip_prefix("5.5.5-").unwrap_or(&version).to_owned();
        Ok(Self { server_version, capabilities, nonce, plugin })
    }

    pub fn offers_tls(&self) -> bool {
        self.capabilities & c::TLS != 0
    }

    /// Return the request for TLS: the first part of the response. MariaDB accepts only this form.
    pub fn tls_request(&self, login: &Login) -> Vec<u8> {
        let mut more = 0;
        if login.tls.is_on() {
            more |= c::TLS;
        }
        if login.database.is_some() {
            more |= c::CONNECT_WITH_DB;
        }
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(&(WANTED & self.capabilities | more).to_le_bytes());
        out.extend_from_slice(&MAX_PACKET.to_le_bytes());
        out.push(CHARSET);
        out.extend_from_slice(&[0; 23]);
        out
    }

    /// Return the response: user, capabilities and proof.
    pub fn answer(&self, login: &Login, plugin: &str, proof: &[u8]) -> Vec<u8> {
        let mut out = self.tls_request(login);
        put_string_and_zero(&mut out, login.user.as_bytes());
        // The proofs are short, so the length byte is the same as in the older form.
        put_string(&mut out, proof);
        if let Some(database) = &login.database {
            put_string_and_zero(&mut out, database.as_bytes());
        }
        put_string_and_zero(&mut out, plugin.as_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::address::Address;
    use crate::mysql::tls::{Tls, TlsMode};

    fn greeting(version: &[u8], plugin_end: &[u8]) -> Vec<u8> {
        let mut bytes = vec![10];
        put_string_and_zero(&mut bytes, version);
        bytes.extend_from_slice(&[9, 0, 0, 0]);
        bytes.extend_from_slice(b"abcdefgh\0");
        bytes.extend_from_slice(&[0xff, 0xf7, 8, 2, 0, 0x0f, 0x80, 21]);
        bytes.extend_from_slice(&[0; 10]);
        bytes.extend_from_slice(b"ijklmnopqrst\0");
        bytes.extend_from_slice(b"mysql_native_password");
        bytes.extend_from_slice(plugin_end);
        bytes
    }

    #[test]
    fn greetings_of_servers() {
        for (version, end, expected) in [
            (&b"5.6.24-log"[..], &b"\0"[..], "5.6.24-log"),
            (b"5.5.9", b"", "5.5.9"), // this version omits the last zero
            (b"5.5.5-10.2.11-MariaDB", b"\0", "10.2.11-MariaDB"),
        ] {
            let parsed = Greeting::parse(&greeting(version, end)).unwrap();
            assert_eq!(
                (parsed.server_version.as_str(), parsed.capabilities),
                (expected, 0x800f_f7ff)
            );
            assert_eq!(parsed.nonce, b"abcdefghijklmnopqrst");
            assert_eq!(parsed.plugin, "mysql_native_password");
        }
    }

    #[test]
    fn a_cut_or_foreign_greeting_is_refused() {
        let whole = greeting(b"5.6.24-log", b"\0");
        for length in 0..whole.len() - "mysql_native_password\0".len() {
            assert!(Greeting::parse(&whole[..length]).is_err(), "{length} bytes");
        }
        assert!(Greeting::parse(b"SSH-2.0-OpenSSH_9.2p1").is_err());
    }

    #[test]
    fn servers_before_5_5_are_refused_by_name() {
        let mut old = greeting(b"5.1.73", b"\0");
        let plugin_auth = 1 + b"5.1.73\0".len() + 4 + 9 + 2 + 3;
        old[plugin_auth] = 0;
        let error = Greeting::parse(&old).unwrap_err().to_string();
        assert!(error.contains("5.1.73 is too old"), "{error}");
    }

    #[test]
    fn the_answer_byte_by_byte() {
        let parsed = Greeting::parse(&greeting(b"5.6.24-log", b"\0")).unwrap();
        let mut login = Login {
            address: Address::Socket("/tmp/x".into()),
            user: "me".to_owned(),
            password: "secret".to_owned(),
            database: Some("test".to_owned()),
            tls: Tls::default(),
            allow_unverified: false,
        };
        let answer = |login: &Login| parsed.answer(login, "mysql_native_password", &[1, 2, 3]);
        let mut expected = vec![0x8d, 0xa2, 0x0a, 0x00, 0, 0, 0, 0x40, 45];
        expected.extend_from_slice(&[0; 23]);
        expected.extend_from_slice(b"me\0\x03\x01\x02\x03test\0mysql_native_password\0");
        assert_eq!(answer(&login), expected);
        login.tls = Tls::new(TlsMode::Required, None).unwrap();
        expected[1] |= 0x08;
        assert_eq!(answer(&login), expected);
        assert_eq!(parsed.tls_request(&login), expected[..32]);
        login.database = None;
        assert_eq!(parsed.tls_request(&login), answer(&login)[..32]);
    }
}
