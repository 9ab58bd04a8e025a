//! Talks to a real server for the tests of the protocol: a JSON request on standard input, JSON
//! lines on standard output.
//!
//! Each statement runs twice: on a connection that waits, which gives its values, and through a
//! channel, which gives what the driver's hot path counts. An error that ends the connection is the
//! last line.

use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Deserialize;
use serde_json::{Value, json};

use protocol::ClientError;
use protocol::mysql::MysqlAnswerReader;
use protocol::mysql::binary::{Execute, Kind, put_query};
use protocol::mysql::channel::Channel;
use protocol::mysql::{Address, Connection, Deadline, Login, Outcome, Parameter, Tls, TlsMode};
use protocol::{AnswerReader as _, AnswerSummary, Session as _};

const LIMIT: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    socket: Option<PathBuf>,
    host: Option<String>,
    port: Option<u16>,
    user: String,
    password: String,
    #[serde(default)]
    tls: TlsMode,
    ca: Option<PathBuf>,
    #[serde(default)]
    allow_unverified: bool,
    /// Statements that run once, first, on either connection.
    #[serde(default)]
    session: Vec<String>,
    #[serde(default)]
    statements: Vec<Statement>,
    /// The bytes that the channel reads at once.
    #[serde(default = "usual_read")]
    read_bytes: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Statement {
    sql: String,
    /// Parameters make it a prepared statement.
    parameters: Option<Vec<Value>>,
    /// Tell how long the values are instead of the values, which may be too much to print.
    #[serde(default)]
    lengths: bool,
}

fn usual_read() -> usize {
    64 << 10
}

fn main() -> ExitCode {
    match talk() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{}", error_line(&error));
            ExitCode::FAILURE
        }
    }
}

fn talk() -> Result<(), ClientError> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).expect("a request");
    let request: Request = serde_json::from_str(&text).expect("a request");
    let deadline = Deadline::start(&Arc::default(), Some(LIMIT));
    let login = request.login();
    let mut waiting = open(&login, &request, &deadline)?;
    println!("{}", json!({"version": waiting.server_version()}));
    for statement in &request.statements {
        let waited = waited(&mut waiting, statement, &deadline)?;
        println!("{waited}");
    }
    for statement in &request.statements {
        // A connection of its own: a prepared statement is not known to another one.
        let mut connection = open(&login, &request, &deadline)?;
        let command = command(&mut connection, statement, &deadline)?;
        let mut channel = connection.into_channel()?;
        let end = ask(&mut channel, &command, request.read_bytes)?;
        println!("{}", end_line(&end));
    }
    Ok(())
}

impl Request {
    fn login(&self) -> Login {
        let address = match (&self.socket, &self.host, self.port) {
            (Some(socket), _, _) => Address::Socket(socket.clone()),
            (None, Some(host), Some(port)) => Address::Tcp { host: host.clone(), port },
            _ => panic!("neither socket nor host and port"),
        };
        Login {
            address,
            user: self.user.clone(),
            password: self.password.clone(),
            database: None,
            tls: Tls::new(self.tls, self.ca.as_deref()).expect("TLS settings"),
            allow_unverified: self.allow_unverified,
        }
    }
}

fn open(login: &Login, request: &Request, deadline: &Deadline) -> Result<Connection, ClientError> {
    let mut connection = Connection::open(login, deadline)?;
    for sql in &request.session {
        connection.query(sql, deadline)?;
    }
    Ok(connection)
}

/// The statement's values, or the server's error.
fn waited(
    connection: &mut Connection,
    statement: &Statement,
    deadline: &Deadline,
) -> Result<Value, ClientError> {
    let outcome = match &statement.parameters {
        None => connection.query(&statement.sql, deadline),
        Some(values) => connection.prepare(&statement.sql, deadline).and_then(|made| {
            let parameters: Vec<Parameter<'_>> = values.iter().map(parameter).collect();
            let outcome = connection.execute(&made, &parameters, deadline);
            connection.close(made, deadline)?;
            outcome
        }),
    };
    match outcome {
        Ok(outcome) => Ok(outcome_line(&outcome, statement.lengths)),
        Err(error @ ClientError::Server(_)) => Ok(error_line(&error)),
        Err(error) => Err(error),
    }
}

/// The statement as the hot path sends it.
fn command(
    connection: &mut Connection,
    statement: &Statement,
    deadline: &Deadline,
) -> Result<Vec<u8>, ClientError> {
    let mut out = Vec::new();
    let prepared = match &statement.parameters {
        None => None,
        Some(values) => match connection.prepare(&statement.sql, deadline) {
            Ok(prepared) => Some((prepared, values)),
            Err(ClientError::Server(_)) => None, // its text gives the same error
            Err(error) => return Err(error),
        },
    };
    let Some((prepared, values)) = prepared else {
        put_query(&mut out, |out| out.extend_from_slice(statement.sql.as_bytes()));
        return Ok(out);
    };
    let kinds: Vec<Kind> = values.iter().map(|value| parameter(value).kind()).collect();
    let mut execute = Execute::begin(&mut out, prepared.id, prepared.parameters, &kinds);
    for value in values {
        parameter(value).put(&mut execute);
    }
    execute.end();
    Ok(out)
}

fn parameter(value: &Value) -> Parameter<'_> {
    match value {
        Value::Null => Parameter::Null,
        Value::Number(number) => Parameter::Integer(number.as_i64().expect("an integer")),
        Value::String(text) => Parameter::Text(text.as_bytes()),
        Value::Object(object) => Parameter::Decimal(object["decimal"].as_str().expect("text")),
        other => panic!("{other} is not a parameter"),
    }
}

/// Send a command and follow its answer without ever waiting in a read or a write.
fn ask(
    channel: &mut Channel,
    command: &[u8],
    read_bytes: usize,
) -> Result<AnswerSummary, ClientError> {
    let mut reader = MysqlAnswerReader::default();
    let mut buffer = vec![0; read_bytes];
    let mut unsent = command;
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        if !unsent.is_empty() || channel.wants_write() {
            match channel.write(unsent) {
                Ok(count) => unsent = &unsent[count..],
                Err(error) => would_block(error)?,
            }
        }
        match channel.read(&mut buffer) {
            Ok(0) => return Err(lost(ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                let fed = reader.feed(&buffer[..count])?;
                if let Some(end) = fed.end {
                    assert_eq!(fed.consumed, count, "nothing follows an answer");
                    return Ok(end);
                }
                continue; // a short read means that there is no more, a full one that there may be
            }
            Err(error) => would_block(error)?,
        }
        let mut readiness = PollFlags::POLLIN;
        readiness.set(PollFlags::POLLOUT, !unsent.is_empty() || channel.wants_write());
        let waited = poll(
            &mut [PollFd::new(std::os::fd::AsFd::as_fd(channel), readiness)],
            PollTimeout::from(1000u16),
        );
        waited.map_err(|errno| lost(errno.into()))?;
    }
    Err(ClientError::TimeLimit { limit: LIMIT })
}

fn would_block(error: io::Error) -> Result<(), ClientError> {
    match error.kind() {
        ErrorKind::WouldBlock => Ok(()),
        _ => Err(lost(error)),
    }
}

fn lost(source: io::Error) -> ClientError {
    let context = "lost the connection to the server".to_owned();
    ClientError::Connection { context, source }
}

fn outcome_line(outcome: &Outcome, lengths: bool) -> Value {
    let rows = match &outcome.rows {
        Some(rows) if lengths => rows.iter().map(|row| lengths_of(row)).collect(),
        rows => json!(rows),
    };
    json!({
        "affected_rows": outcome.affected_rows,
        "warnings": outcome.warnings,
        "rows": rows,
    })
}

fn lengths_of(row: &[Option<String>]) -> Vec<Option<usize>> {
    row.iter().map(|value| value.as_ref().map(String::len)).collect()
}

fn end_line(end: &AnswerSummary) -> Value {
    json!({
        "affected_rows": end.affected_rows,
        "warnings": end.warnings,
        "rows": end.rows,
        "bytes": end.bytes,
        "error": end.error.as_ref().map(|error| json!([error.code, error.sqlstate, error.message])),
    })
}

fn error_line(error: &ClientError) -> Value {
    let words = match error {
        ClientError::Server(error) => json!([error.code, error.sqlstate, error.message]),
        other => json!(other.to_string()),
    };
    json!({"error": words, "kind": error.kind()})
}
