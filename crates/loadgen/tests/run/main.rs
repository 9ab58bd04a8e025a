//! Runs against servers that misbehave, word by word: real ones cannot be made to.

mod bench;
mod data;
mod load_slices;
mod marks;
mod validation;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{self, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};

const GREETING: &[u8] = b"\x0a5.6.24\0\x01\0\0\0abcdefgh\0\xff\xf7\x08\x02\0\x0f\x80\x15\
    \0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0mysql_native_password\0";
const OK: &[u8] = b"\0\0\0\x02\0\0\0";
/// The definition of a column a VARCHAR(255) in latin1.
const COLUMN: &[u8] = b"\x03def\0\0\0\x01a\0\x0c\x08\0\xff\0\0\0\xfd\0\0\0\0\0";

/// A server that follows a script on its first connection.
fn server(socket: &Path, script: impl FnOnce(Peer) + Send + 'static) -> JoinHandle<()> {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || script(Peer(listener.accept().unwrap().0)))
}

/// The server's end of a connection.
struct Peer(UnixStream);

impl Peer {
    fn say(&mut self, sequence: u8, payload: &[u8]) {
        let [a, b, c, ..] = payload.len().to_le_bytes();
        // The client may have gone already: that is what some tests are about.
        let _ = self.0.write_all(&[&[a, b, c, sequence], payload].concat());
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut header = [0; 4];
        if self.0.read_exact(&mut header).is_err() {
            return Vec::new();
        }
        let length = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).unwrap();
        payload
    }

    /// Answer with a result of text rows, which are payloads of packets.
    fn say_rows(&mut self, columns: u8, rows: &[&[u8]]) {
        const END: &[u8] = b"\xfe\0\0\x02\0";
        let definitions = (0..columns).map(|_| COLUMN);
        let packets = definitions.chain([END]).chain(rows.iter().copied()).chain([END]);
        self.say(1, &[columns]);
        for (sequence, packet) in (2..).zip(packets) {
            self.say(sequence, packet);
        }
    }

    /// Take a login and the first request.
    fn first_request(&mut self) -> Vec<u8> {
        self.accept_login();
        self.receive()
    }

    fn accept_login(&mut self) {
        self.say(0, GREETING);
        self.receive();
        self.say(2, OK);
    }
}

/// The exit status, the events, standard error.
type Ended = (i32, Vec<Value>, String);

/// Run one phase against a server that follows a script from the first request on.
fn run(phase: &Value, script: impl FnOnce(Peer) + Send + 'static) -> Ended {
    run_from_login(phase, |mut peer| {
        peer.first_request();
        script(peer);
    })
}

fn run_from_login(phase: &Value, script: impl FnOnce(Peer) + Send + 'static) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let server = server(&socket, script);
    let result = run_spec(&spec(&socket, &[phase]));
    server.join().unwrap();
    result
}

/// A specification of phases for the server that listens at a socket.
fn spec(socket: &Path, phases: &[&Value]) -> Value {
    json!({
        "version": 2,
        "connection": {"socket": socket, "user": "u", "password": "secret"},
        "phases": phases,
    })
}

/// The same for a whole specification. Marks are left out: they are in tests of their own.
fn run_spec(spec: &Value) -> Ended {
    let (status, mut events, said) = run_marked(spec);
    events.retain(|event| event["type"] != "mark");
    (status, events, said)
}

fn run_marked(spec: &Value) -> Ended {
    let output = Command::cargo_bin("millrace-load")
        .unwrap()
        .args(["run", "-"])
        .write_stdin(spec.to_string())
        .output()
        .unwrap();
    let events = String::from_utf8(output.stdout).unwrap();
    (
        output.status.code().unwrap(),
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// Begin a run of a specification, which is put into a directory.
fn spawn(directory: &Path, spec: &Value) -> process::Child {
    let file = directory.join("spec");
    fs::write(&file, spec.to_string()).unwrap();
    let mut command = process::Command::new(cargo_bin("millrace-load"));
    command.args(["--die-with-parent", "run"]).arg(&file);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn statement() -> Value {
    json!({"name": "ask", "kind": "statement", "sql": "SELECT 1", "limit_s": 5})
}

fn load() -> Value {
    json!({"name": "load", "kind": "load_data", "table": "t", "columns": ["id"], "limit_s": 5,
           "source": {"generate": {"set": "nodes", "rows": 50000, "seed": 1}}})
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[test]
fn a_file_is_sent_whole_and_in_order() {
    let (sender, receiver) = mpsc::channel();
    let (status, events, said) = run_from_login(&load(), move |mut peer| {
        let (file, next) = load_slices::take(&mut peer, Duration::ZERO, usize::MAX);
        peer.say(next, b"\0\xfd\x50\xc3\0\0\x02\0\x07\0");
        sender.send(file).unwrap();
    });
    assert_eq!((status, said.as_str()), (0, ""));
    let direct = data::nodes(&["--rows", "50000", "--seed", "1"]);
    assert!(receiver.recv().unwrap() == direct);
    assert_eq!(types(&events), ["start", "phase", "summary"]);
    assert_eq!(events[1]["affected_rows"], 50_000);
    assert_eq!(events[1]["warnings"], 7);
    assert_eq!(events[1]["rows_sent"], 50_000);
    assert_eq!(events[1]["bytes_sent"], direct.len());
    assert_eq!(events[2]["statements"][0]["count"], 1);
}

#[test]
fn a_client_that_is_done_says_goodbye() {
    let (status, _, _) = run(&statement(), |mut peer| {
        peer.say(1, OK);
        assert_eq!(peer.receive(), b"\x01");
        assert!(peer.receive().is_empty());
    });
    assert_eq!(status, 0);
}

#[test]
fn results_that_nobody_reads_are_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let (closed, wait) = mpsc::channel();
    let server = server(&socket, move |mut peer| {
        peer.first_request();
        wait.recv().unwrap();
        peer.say(1, OK);
    });
    let mut child = spawn(directory.path(), &spec(&socket, &[&statement()]));
    let mut first = String::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut first).unwrap();
    drop(reader);
    closed.send(()).unwrap();
    let output = child.wait_with_output().unwrap();
    server.join().unwrap();
    assert!(first.contains("start"), "{first}");
    assert_eq!(output.status.code(), Some(141));
    assert!(output.stderr.is_empty());
}

/// A server of two connections that takes everything but LOAD DATA.
fn refuse_load_data(listener: &UnixListener) {
    let mut shared = Peer(listener.accept().unwrap().0);
    shared.accept_login();
    let mut loader = Peer(listener.accept().unwrap().0);
    loader.accept_login();
    loop {
        let asked = loader.receive();
        let text = String::from_utf8_lossy(asked.get(1..).unwrap_or(b""));
        if asked.is_empty() || asked == b"\x01" {
            break;
        } else if text.starts_with("SELECT @@") {
            loader.say_rows(1, &[b"\x0716777216"]);
        } else if text.starts_with("LOAD DATA") {
            loader.say(1, b"\xff\x6c\x0f#42000it is disabled");
        } else {
            loader.say(1, OK);
        }
    }
}

#[test]
fn rows_made_for_a_refused_load_data_are_not_counted() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = thread::spawn(move || refuse_load_data(&listener));
    let phase = json!({"name": "load", "kind": "load_tables", "limit_s": 5});
    let mut spec = spec(&socket, &[&phase]);
    spec["seed"] = json!(1);
    spec["workload"]["tables"]["t"] = json!({
        "name": "t", "rows": 100, "create": "CREATE TABLE {table} (id INT)",
        "columns": [{"name": "id", "kind": "sequence"}],
    });
    let (status, events, said) = run_spec(&spec);
    server.join().unwrap();
    assert_eq!((status, said.as_str()), (0, ""));
    assert_eq!(events[1]["method"], "multi_row");
    assert_eq!(events[1]["rows_sent"], 100);
    assert_eq!(events[1]["tables"][0]["rows"], 100);
}

#[test]
fn no_file_of_this_host_is_ever_sent() {
    for phase in [statement(), load()] {
        let (status, events, _) = run(&phase, |mut peer| {
            peer.say(1, b"\xfb/etc/hostname");
            assert!(peer.receive().is_empty(), "nothing but an empty packet or the end");
        });
        assert_eq!(status, 1);
        assert_eq!(events[1]["kind"], "protocol");
        assert!(events[1]["message"].as_str().unwrap().contains("file"), "{events:?}");
    }
}

#[test]
fn a_server_that_hangs_meets_the_time_limit() {
    let phase = json!({"name": "ask", "kind": "statement", "sql": "SELECT 1", "limit_s": 0.2});
    let (status, events, said) = run(&phase, |mut peer| {
        assert_eq!(peer.receive(), b"\x01", "the client leaves");
    });
    assert_eq!((status, types(&events)), (1, vec!["start", "error", "summary"]));
    assert_eq!(events[1]["kind"], "time_limit");
    assert!(said.contains("the time limit of 0.2 s is over"), "{said}");
}

#[test]
fn a_server_that_stops_reading_meets_the_time_limit() {
    let mut phase = load();
    phase["limit_s"] = json!(0.3);
    let (done, wait) = mpsc::channel::<()>();
    let (status, events, _) = run(&phase, move |mut peer| {
        peer.say(1, b"\xfbnodes");
        // Long enough for the limit; the client's end is what ends the wait early.
        let _ = wait.recv_timeout(Duration::from_secs(1));
    });
    drop(done);
    assert_eq!((status, &events[1]["kind"]), (1, &json!("time_limit")));
}

#[test]
fn a_connection_that_breaks_is_lost() {
    for cut in [&b""[..], b"\x50\0\0\x01\x01"] {
        let (status, events, said) = run(&statement(), move |mut peer| {
            peer.0.write_all(cut).unwrap();
        });
        assert_eq!((status, &events[1]["kind"]), (1, &json!("connection")));
        assert!(said.contains("lost the connection to the server"), "{said}");
    }
}

#[test]
fn an_error_of_the_server_comes_with_its_code() {
    let (status, events, said) = run(&load(), |mut peer| {
        peer.say(1, b"\xff\x24\x05#42000not allowed");
    });
    assert_eq!(status, 1);
    let expected = json!({"type": "error", "phase": "load", "kind": "server", "code": "1316",
                          "sqlstate": "42000", "message": "not allowed"});
    assert_eq!(events[1], expected);
    assert_eq!(events[2]["statements"][0]["errors"], json!({"1316": 1}));
    assert!(said.contains("error 1316"), "{said}");
}

#[test]
fn a_server_that_gives_up_in_the_middle_of_a_file_is_heard() {
    let (status, events, _) = run(&load(), |mut peer| {
        peer.say(1, b"\xfbnodes");
        peer.receive();
        peer.say(9, b"\xff\xfd\x03#HY000disk full");
        peer.0.shutdown(std::net::Shutdown::Read).unwrap();
    });
    assert_eq!(status, 1);
    assert_eq!((&events[1]["code"], &events[1]["message"]), (&json!("1021"), &json!("disk full")));
}

#[test]
fn packets_out_of_order_are_refused() {
    let (status, events, _) = run(&statement(), |mut peer| {
        peer.say(4, OK);
    });
    assert_eq!(status, 1);
    let message = events[1]["message"].as_str().unwrap();
    assert!(message.contains("packet 4 came where packet 1 was due"), "{message}");
}

#[test]
fn a_login_can_switch_plugins_and_be_refused() {
    let (status, events, _) = run_from_login(&statement(), |mut peer| {
        peer.say(0, GREETING);
        peer.receive();
        peer.say(2, b"\xfecaching_sha2_password\0ABCDEFGHIJKLMNOPQRST\0");
        assert_eq!(peer.receive().len(), 32, "a SHA-256 proof");
        peer.say(4, b"\x01\x04");
        assert_eq!(peer.receive(), b"secret\0", "a socket file is private");
        peer.say(6, b"\xff\x15\x04#28000Access denied");
    });
    assert_eq!(status, 1);
    assert_eq!(types(&events), ["error"]);
    assert_eq!((&events[0]["phase"], &events[0]["code"]), (&json!("connect"), &json!("1045")));
}

#[test]
fn text_rows_are_reported_up_to_a_hundred() {
    let (status, events, _) = run(&statement(), |mut peer| {
        peer.say_rows(2, &[b"\x01x\xfb".as_slice(); 150]);
    });
    assert_eq!(status, 0);
    let rows = events[1]["result"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]), (100, &json!(["x", null])));
}
