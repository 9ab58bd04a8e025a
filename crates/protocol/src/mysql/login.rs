//! The login: greeting, TLS, and authentication by the account's plugin.

use std::os::fd::AsFd;

use super::account::Login;
use super::auth::{self, Plugin};
use super::channel::Channel;
use super::connection::{Connection, unexpected};
use super::deadline::Deadline;
use super::handshake::Greeting;
use super::reply::{self, ERROR, OK};
use super::transport::Transport;
use super::wire::Reader;
use crate::ClientError;

/// The first byte of a server's message during authentication.
const AUTH_MORE_DATA: u8 = 0x01;
const AUTH_SWITCH: u8 = 0xfe;

/// `caching_sha2_password`: the proof was accepted; the server needs the password itself; our
/// request for its key.
const PROOF_ACCEPTED: &[u8] = &[3];
const PASSWORD_WANTED: &[u8] = &[4];
const REQUEST_PUBLIC_KEY: &[u8] = &[2];

impl Connection {
    pub fn open(login: &Login, deadline: &Deadline) -> Result<Self, ClientError> {
        Self::logged_in(Transport::connect(&login.address, deadline)?, login, deadline)
    }

    /// Log in over a connected channel; the address in `login` only names the server.
    pub fn over(channel: Channel, login: &Login, deadline: &Deadline) -> Result<Self, ClientError> {
        Self::logged_in(Transport::over(channel), login, deadline)
    }

    fn logged_in(
        transport: Transport,
        login: &Login,
        deadline: &Deadline,
    ) -> Result<Self, ClientError> {
        let mut connection = Self::new(transport);
        let outcome = log_in(&mut connection, login, deadline);
        connection.end_login(outcome)?;
        Ok(connection)
    }
}

/// Log in on a new connection and return the server's version.
fn log_in(
    connection: &mut Connection,
    login: &Login,
    deadline: &Deadline,
) -> Result<String, ClientError> {
    let first = connection.receive(deadline)?;
    if first.first() == Some(&ERROR) {
        return Err(reply::parse_error(&first)?.into());
    }
    let greeting = Greeting::parse(&first)?;
    if login.tls.is_on() {
        if !greeting.offers_tls() {
            return Err(ClientError::Tls(format!(
                "the server ({}) does not support it: turn TLS off, or give the server a certificate (ssl_cert, ssl_key)",
                greeting.server_version
            )));
        }
        connection.send(&greeting.tls_request(login), deadline)?;
        connection.start_tls(&login.tls, &login.address, deadline)?;
    }
    // The plugin in the greeting is the server's default; the account's own plugin comes with a
    // switch.
    let plugin = Plugin::by_name(&greeting.plugin).unwrap_or(Plugin::Native);
    let password = login.password.as_bytes();
    let proof = plugin.proof(password, &greeting.nonce);
    let answer = greeting.answer(login, plugin.name(), &proof);
    connection.send(&answer, deadline)?;
    authenticate(connection, plugin, login, greeting.nonce, deadline)?;
    Ok(greeting.server_version)
}

/// Answer the server's authentication requests until it accepts or rejects the login.
fn authenticate(
    connection: &mut Connection,
    mut plugin: Plugin,
    login: &Login,
    mut nonce: Vec<u8>,
    deadline: &Deadline,
) -> Result<(), ClientError> {
    let password = login.password.as_bytes();
    loop {
        let message = connection.receive(deadline)?;
        match message.split_first() {
            Some((&OK, _)) => return Ok(()),
            Some((&ERROR, _)) => return Err(reply::parse_error(&message)?.into()),
            Some((&AUTH_SWITCH, data)) => {
                (plugin, nonce) = parse_auth_switch(data)?;
                let proof = plugin.proof(password, &nonce);
                connection.send(&proof, deadline)?;
            }
            Some((&AUTH_MORE_DATA, PROOF_ACCEPTED)) => {}
            Some((&AUTH_MORE_DATA, PASSWORD_WANTED)) if plugin == Plugin::CachingSha2 => {
                send_password(connection, login, &nonce, deadline)?;
            }
            other => return Err(unexpected(&format!("{other:?} during the login"))),
        }
    }
}

/// Do the full exchange of `caching_sha2_password`, for an account that is not in the server's
/// cache.
fn send_password(
    connection: &mut Connection,
    login: &Login,
    nonce: &[u8],
    deadline: &Deadline,
) -> Result<(), ClientError> {
    if let Some(reason) = login.reason_to_distrust(connection.channel().as_fd()) {
        let message = format!("the server wants the password itself, and {reason}");
        return Err(ClientError::Authentication(message));
    }
    let password = login.password.as_bytes();
    if connection.channel().is_private() {
        return connection.send(&auth::with_zero(password), deadline);
    }
    connection.send(REQUEST_PUBLIC_KEY, deadline)?;
    let message = connection.receive(deadline)?;
    match message.split_first() {
        Some((&AUTH_MORE_DATA, key)) => {
            let encrypted = auth::encrypted_password(password, nonce, key)?;
            connection.send(&encrypted, deadline)
        }
        Some((&ERROR, _)) => Err(reply::parse_error(&message)?.into()),
        other => Err(unexpected(&format!("{other:?} where a public key was due"))),
    }
}

/// Parse the server's request to switch plugins: name and nonce.
fn parse_auth_switch(data: &[u8]) -> Result<(Plugin, Vec<u8>), ClientError> {
    let mut reader = Reader::new(data);
    let name = if data.is_empty() {
        "mysql_old_password".into()
    } else {
        String::from_utf8_lossy(reader.string_to_zero())
    };
    let plugin = Plugin::by_name(&name).ok_or_else(|| {
        let known: Vec<&str> = Plugin::ALL.iter().map(|plugin| plugin.name()).collect();
        ClientError::Authentication(format!(
            "the account uses {name}, which this client does not know: use an account identified \
             with one of {}",
            known.join(", ")
        ))
    })?;
    let sent = reader.rest();
    let nonce = sent.get(..plugin.nonce_bytes()).ok_or_else(|| {
        let (sent, due) = (sent.len(), plugin.nonce_bytes());
        unexpected(&format!("a nonce of {sent} bytes for {name}, where {due} are due"))
    })?;
    Ok((plugin, nonce.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::{Address, Tls, TlsMode};
    use std::fs::{self, Permissions};
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn the_password_is_sent_to_verified_servers_alone() {
        let tcp = Address::Tcp { host: "127.0.0.1".to_owned(), port: 3306 };
        let login = |address: &Address, mode, allow_unverified| Login {
            address: address.clone(),
            user: "me".to_owned(),
            password: "secret".to_owned(),
            database: None,
            tls: Tls::new(mode, None).unwrap(),
            allow_unverified,
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let _listener = UnixListener::bind(&path).unwrap();
        let stream = UnixStream::connect(&path).unwrap();
        for mode in [TlsMode::Disabled, TlsMode::Required] {
            assert!(login(&tcp, mode, false).reason_to_distrust(stream.as_fd()).is_some());
            assert_eq!(login(&tcp, mode, true).reason_to_distrust(stream.as_fd()), None);
        }
        let socket = login(&Address::Socket(path.clone()), TlsMode::Disabled, false);
        assert_eq!(socket.reason_to_distrust(stream.as_fd()), None);
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
        let reason = socket.reason_to_distrust(stream.as_fd()).unwrap();
        assert!(reason.contains("other users can write"), "{reason}");
    }

    #[test]
    fn a_switch_names_plugin_and_nonce() {
        let native = parse_auth_switch(b"mysql_native_password\0abcdefghijklmnopqrst\0").unwrap();
        assert_eq!(native, (Plugin::Native, b"abcdefghijklmnopqrst".to_vec()));
        let nonce = [[7; 30].as_slice(), &[0, 0]].concat(); // an Ed25519 nonce may end with zeros
        let message = [b"client_ed25519\0", nonce.as_slice()].concat();
        assert_eq!(parse_auth_switch(&message).unwrap(), (Plugin::Ed25519, nonce));
    }

    #[test]
    fn a_wrong_switch_is_refused_with_a_hint() {
        for (message, expected) in [
            (
                &b"client_ed25519\0abc"[..],
                "a nonce of 3 bytes for client_ed25519, where 32 are due",
            ),
            (b"auth_gssapi_client\0abc", "uses auth_gssapi_client"),
            (b"auth_gssapi_client\0abc", "mysql_native_password, caching_"),
            (b"", "mysql_old_password"),
        ] {
            let error = parse_auth_switch(message).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
