//! Everything a server can send in a session: greeting, login, a query, a prepared statement.
//! Whatever the server sends, the session must end well before its time limit.
#![no_main]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use protocol::ClientError;
use protocol::mysql::channel::Channel;
use protocol::mysql::{Address, Connection, Deadline, Login, Parameter, Tls};

fn talk(channel: Channel) -> Result<(), ClientError> {
    let deadline = Deadline::start(&Arc::default(), Some(Duration::from_secs(20)));
    let login = Login {
        address: Address::Socket("/nowhere".into()),
        user: "me".to_owned(),
        password: "secret".to_owned(),
        database: None,
        tls: Tls::default(),
        allow_unverified: true,
    };
    let mut connection = Connection::over(channel, &login, &deadline)?;
    connection.query("SELECT 1", &deadline)?;
    let prepared = connection.prepare("SELECT ?", &deadline)?;
    let parameters = vec![Parameter::Integer(1); usize::from(prepared.parameters)];
    connection.execute(&prepared, &parameters, &deadline)?;
    connection.close(prepared, &deadline)
}

fuzz_target!(|bytes: &[u8]| {
    let (ours, mut server) = UnixStream::pair().expect("a pair of sockets");
    if bytes.len() > 64 << 10 {
        return; // more than fits into a socket's buffer
    }
    server.write_all(bytes).expect("room in the socket");
    server.shutdown(Shutdown::Write).expect("an open socket");
    let outcome = talk(Channel::over_unix(ours).expect("a socket"));
    assert!(!matches!(outcome, Err(ClientError::TimeLimit { .. })));
    let mut said = Vec::new();
    let _ = server.read_to_end(&mut said);
});
