//! The output of commands without a server: errors, lists, merged histograms.

use std::process::Output;

use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;

use super::*;

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("millrace-load").unwrap();
    command.args(arguments).env_remove("MYSQL_PWD");
    command
}

/// Run `bench` with options that it has to refuse.
fn refused(options: &[&str]) -> String {
    let mut arguments = vec!["bench", "--workload", "point-query"];
    arguments.extend(options);
    let assert = program(&arguments).assert().code(2);
    let output = assert.get_output();
    assert!(output.stdout.is_empty());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn suggested_option_is_one_that_may_be_meant() {
    for (given, suggested) in [("--test=x", "--workload"), ("--tabels=3", "--tables")] {
        let said = refused(&[given]);
        assert!(said.contains(&format!("similar argument exists: '{suggested}'")), "{said}");
    }
    let said = refused(&["--tap"]);
    assert!(said.contains("unexpected argument '--tap'"), "{said}");
    assert!(!said.contains("similar"), "{said}");
}

#[test]
fn every_mistake_in_the_options_is_named() {
    let cases: [(&[&str], &str); 24] = [
        (&["--time", "0"], "--time 0 without --events"),
        (&["--time=-1"], "expected seconds"),
        (&["--threads", "0"], "'--threads <N>'"),
        (&["--connections", "many"], "invalid value 'many'"),
        (&["--arrivals", "constant"], "say --rate too"),
        (&["--max-lateness", "1"], "say --rate too"),
        (&["--rate=-5"], "expected transactions a second"),
        (&["--warmup-time", "soon"], "expected seconds, or steady"),
        (&["--percentile", "99,101"], "expected a number above 0 and up to 100"),
        (&["--cpus", "3-1"], "say 1-3"),
        (&["--cpus", "1024"], "from 0 to 1023, not 1024"),
        (&["--socket", "/s", "--port", "3306"], "cannot be used with"),
        (&["--tls-ca", "/ca.pem"], "--tls=verify-ca or --tls=verify-identity only"),
        (&["--mysql-ssl=verify_ca"], "--tls-ca: verify-ca needs a file"),
        (&["--mysql-ssl=verify_ca", "--tls-ca", "/absent/ca.pem"], "--tls-ca: /absent/ca.pem"),
        (&["--set", "table_size"], "expected NAME=VALUE"),
        (&["--set", "table_size=many"], "table_size is an integer, not \"many\""),
        (&["--set", "clients=3"], "that is what --threads is for"),
        (&["--cpus", "1023"], "--cpus: this host has no CPU 1023"),
        (&["--set", "distribution=zzz"], "value \"zzz\""),
        (&["--range-size=0"], "--set range_size: 0 is less than 1"),
        (&["--tables=10001"], "--tables: 10001 is more than 10000"),
        (&["--skip-trx=perhaps"], "--set skip_trx: "),
        (&["--range-sise=10"], "unexpected argument '--range-sise'"),
    ];
    for (options, expected) in cases {
        let stderr = refused(options);
        assert!(stderr.contains(expected), "{options:?}: {stderr}");
    }
}

#[test]
fn a_parameter_that_the_workload_lacks_is_refused_with_those_it_has() {
    let stderr = refused(&["--set", "table_sise=1"]);
    assert!(stderr.contains("sysbench has no parameter table_sise"), "{stderr}");
    assert!(stderr.contains("table_size"), "{stderr}");
    for (arguments, expected) in [
        (
            &["key", "--table-size=5"][..],
            "--table-size: mysqlslap has no parameter table_size; it has",
        ),
        (&["key", "--range-size=10"], "mysqlslap has no parameter range_size; it has"),
        (&["point-qery"], "unknown test point-qery; did you mean point-query?"),
    ] {
        let arguments = [&["bench", "--workload"], arguments].concat();
        program(&arguments).assert().code(2).stderr(contains(expected));
    }
}

#[test]
fn sysbenchs_options_are_the_parameters_of_workloads() {
    let options = [
        "--range-size=10",
        "--point_selects",
        "3",
        "--skip-trx=on",
        "--delete-inserts=2",
        "--rand-type=zipf-scrambled",
        "--mysql-socket=/nowhere/s",
    ];
    let arguments = [&["bench", "--workload=oltp_read_write"], &options[..]].concat();
    program(&arguments).assert().code(1).stderr(contains("cannot connect to /nowhere/s"));
}

#[test]
fn a_server_that_is_not_there_is_told_with_what_to_do() {
    program(&["bench", "--workload", "point-query", "--mysql-socket", "/nowhere/s"])
        .assert()
        .code(1)
        .stderr(contains("cannot connect to /nowhere/s").and(contains("is --socket right?")));
}

#[test]
fn tests_are_listed_as_a_table_and_as_json() {
    program(&["tests"]).assert().success().stdout(contains("point-query"));
    let output = program(&["tests", "--json"]).assert().success();
    let tests: Vec<Value> = serde_json::from_slice(&output.get_output().stdout).unwrap();
    let test = tests.iter().find(|test| test["name"] == "point-query").unwrap();
    assert_eq!(test["workload"], "sysbench");
    assert!(!test["title"].as_str().unwrap().is_empty());
}

/// A result of `count` transactions that took 1 ms each, as `run` writes it.
fn result(directory: &Path, name: &str, count: u64) -> String {
    let latencies = |count: u64| {
        let mut latencies = engine::Latencies::default();
        (0..count).for_each(|_| latencies.record(1_000_000));
        serde_json::to_value(latencies).unwrap()
    };
    let record = |name: &str| json!({"name": name, "service": latencies(count), "response": null});
    let event = json!({"type": "phase", "kind": "drive", "name": "measure",
                       "transactions": [record("t")], "statements": [record("s")]});
    let path = directory.join(name);
    fs::write(&path, format!("{}\n{event}\n", json!({"type": "start"}))).unwrap();
    path.display().to_string()
}

#[test]
fn histograms_of_several_files_are_one() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (result(directory.path(), "a", 3), result(directory.path(), "b", 4));
    let output = program(&["histogram", "--json", "--percentile", "99.99", &first, &second])
        .assert()
        .success();
    let lines = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    let merged: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(merged.len(), 2);
    for (merged, of) in merged.iter().zip(["statement", "transaction"]) {
        assert_eq!((&merged["of"], &merged["count"]), (&json!(of), &json!(7)));
        assert_eq!(merged["percentiles_s"]["99.99"], json!(0.001));
        assert!((merged["sum_s"].as_f64().unwrap() - 0.007).abs() < 1e-9);
    }
    program(&["histogram", "--histogram", &first])
        .assert()
        .success()
        .stdout(contains("p99.9"))
        .stdout(contains("****"));
}

#[test]
fn files_that_are_no_results_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    for (text, expected) in [
        ("no json", "this is not JSON"),
        ("{}", "it has no result of a phase that drove clients"),
        (
            r#"{"type": "phase", "kind": "drive", "name": "m", "transactions": 1}"#,
            "this is not a result of this program",
        ),
    ] {
        fs::write(&path, text).unwrap();
        program(&["histogram", &path.display().to_string()])
            .assert()
            .code(2)
            .stderr(contains(expected));
    }
    program(&["histogram", "/nowhere/x"]).assert().code(2).stderr(contains("/nowhere/x"));
}

/// Run an action of `bench` against a server that follows a script; what it wrote.
fn against(action: &str, options: &[&str], script: impl FnOnce(Peer) + Send + 'static) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let server = server(&socket, script);
    let path = socket.display().to_string();
    let arguments = ["bench", action, "--workload", "point-query", "--socket", &path];
    let output = program(&[&arguments, options].concat()).output().unwrap();
    server.join().unwrap();
    output
}

/// Stays until the client has gone, and answers nothing.
fn listen(mut peer: Peer) {
    while !peer.receive().is_empty() {}
}

#[test]
fn a_server_that_is_silent_is_given_up() {
    let logged_in = |mut peer: Peer| {
        peer.accept_login();
        listen(peer);
    };
    for (action, script, expected) in [
        ("cleanup", listen as fn(Peer), "the time limit of 0.2 s is over"),
        ("prepare", listen, "the time limit of 0.2 s is over"),
        ("run", listen, "the time limit of 0.2 s is over"),
        ("cleanup", logged_in, "the server left requests unanswered for 0.2 s"),
    ] {
        let output = against(action, &["--idle-timeout", "0.2"], script);
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(expected), "{action}: {stderr}");
    }
}

#[test]
fn words_of_a_server_do_nothing_to_the_terminal() {
    const HOSTILE: &str = "x\x1b]52;c;aGk=\x07\u{9b}2J\u{202e}\r\ny";
    const SHOWN: &str = "x\\x1b]52;c;aGk=\\x07\\x9b2J\\u202e\\r\\ny";
    for json in [&[][..], &["--json", "-"]] {
        let output = against("cleanup", json, |mut peer| {
            let greeting = [b"\x0a", HOSTILE.as_bytes(), &GREETING["\x0a5.6.24".len()..]];
            peer.say(0, &greeting.concat());
            peer.receive();
            peer.say(2, OK);
            peer.receive();
            peer.say(1, &[b"\xff\x10\x04#HY000", HOSTILE.as_bytes()].concat());
        });
        assert_eq!(output.status.code(), Some(1));
        let (stdout, stderr) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        let (screen, lines) =
            if json.is_empty() { (&stdout, "") } else { (&stderr, stdout.as_str()) };
        assert!(screen.contains(&format!("server {SHOWN} at ")), "{screen}");
        assert!(stderr.contains(&format!("the server refused: {SHOWN}")), "{stderr}");
        for line in lines.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            if event["type"] == "start" {
                assert_eq!(event["server_version"], HOSTILE);
            }
        }
        let obeyed = |sign: char| sign.is_control() && sign != '\n' || sign == '\u{202e}';
        assert!(!stdout.contains(obeyed), "{stdout:?}");
        assert!(!stderr.contains(obeyed), "{stderr:?}");
    }
}

#[test]
fn an_error_that_ends_a_run_does_nothing_to_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s").display().to_string();
    let listener = UnixListener::bind(&socket).unwrap();
    let serving = thread::spawn(move || {
        // The program itself comes first, and then its client, who may not even roll back.
        for stream in listener.incoming().take(2) {
            let mut peer = Peer(stream.unwrap());
            peer.accept_login();
            while let asked = peer.receive()
                && asked.len() > 1
            {
                let error = b"\xff\x54\x9e#HY000x\x1b]52;c;aGk=\x07\r\ny";
                let begins = asked == b"\x03BEGIN";
                peer.say(1, if begins { b"\0\0\0\x03\0\0\0" } else { error });
            }
        }
    });
    let test = ["bench", "--workload=oltp_read_write", "--db-ps-mode=disable"];
    let output = program(&[&test, &["--socket", &socket][..]].concat()).output().unwrap();
    serving.join().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stdout = String::from_utf8(output.stdout).unwrap();
    let expected = "the result is partial: the server refused: x\\x1b]52;c;aGk=\\x07\\r\\ny (error";
    assert!(stdout.contains(expected), "{stdout:?}");
    assert!(!stdout.contains(['\x1b', '\x07', '\r']), "{stdout:?}");
}
