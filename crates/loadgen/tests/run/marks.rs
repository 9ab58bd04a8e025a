//! The marks of phases, and their times.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::*;

#[test]
fn every_phase_is_marked_when_it_starts() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let server = server(&socket, |mut peer| {
        peer.accept_login();
        for _ in 0..2 {
            peer.receive();
            peer.say(1, OK);
        }
    });
    let named = |name| json!({"name": name, "kind": "statement", "sql": "COMMIT"});
    let (status, events, _) = run_marked(&spec(&socket, &[&named("a"), &named("b")]));
    server.join().unwrap();
    assert_eq!(status, 0);
    assert_eq!(types(&events), ["start", "mark", "phase", "mark", "phase", "summary"]);
    let mark = |phase| json!({"type": "mark", "phase": phase, "mark": "phase_started", "t_s": 0.0});
    assert_eq!((&events[1], &events[3]), (&mark("a"), &mark("b")));
}

/// A server of any number of connections that says yes to everything; it ends with the test.
fn agree(listener: UnixListener) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut peer = Peer(stream.unwrap());
            thread::spawn(move || {
                peer.accept_login();
                while !matches!(peer.receive().as_slice(), [] | b"\x01") {
                    peer.say(1, OK);
                }
            });
        }
    });
}

#[test]
fn the_end_of_the_measured_part_is_told_before_clients_linger() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    agree(UnixListener::bind(&socket).unwrap());
    let phase = json!({"name": "measure", "kind": "drive", "test": "a", "clients": 2,
                       "protocol": "text", "linger_s": 3600,
                       "end": {"kind": "operations", "transactions": 20}});
    let mut spec = spec(&socket, &[&phase]);
    spec["seed"] = json!(1);
    spec["workload"] = json!({
        "statements": {"ask": {"sql": "DO 1"}},
        "tests": {"a": {"title": "t", "steps": [{"statements": ["ask"]}]}},
    });
    let mut child = spawn(directory.path(), &spec);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut read = || lines.next().map(|line| line.unwrap().parse::<Value>().unwrap());
    while read().unwrap()["mark"] != "measure_ended" {}
    // What was measured is whole, so this does not count as a failure.
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let rest: Vec<Value> = std::iter::from_fn(read).collect();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(types(&rest), ["interval", "phase", "summary"]);
    assert_eq!(rest[1]["partial"], false);
    assert_eq!(rest[1]["transactions"][0]["count"], 20);
}
