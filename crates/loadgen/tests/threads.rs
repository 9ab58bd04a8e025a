//! `millrace-load threads` against a process whose threads are known.

use std::env;
use std::fs::File;
use std::hint;
use std::io::{self, BufRead, BufReader, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use engine::statement_activity::{ActivitySlot, StatementActivity};
use libc::c_long;
use protocol::PeerAddress;
use serde_json::Value;

/// Names the directory in which a process of this test program acts as the sampled one.
const PLACE: &str = "MILLRACE_TEST_PLACE";

/// The system call of the C library's `poll`.
#[cfg(target_arch = "x86_64")]
const POLL: c_long = libc::SYS_poll;
#[cfg(not(target_arch = "x86_64"))]
const POLL: c_long = libc::SYS_ppoll;

fn begin(name: &str, act: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name(name.to_owned()).spawn(act).unwrap();
}

fn sync_for_ever(path: &Path) {
    let mut file = File::create(path).unwrap();
    loop {
        file.write_all(b"x").unwrap();
        file.sync_all().unwrap();
    }
}

/// Wait until any of the descriptors can be read; none of them ever can.
fn poll_for_ever(sockets: &[UnixStream]) {
    let mut list: Vec<libc::pollfd> = sockets
        .iter()
        .map(|socket| libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    // SAFETY: the list is as long as it says, and outlives the call.
    unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, -1) };
}

/// A process of the kind above; it ends with its input.
struct ThreadedProcess {
    process: Child,
    _place: tempfile::TempDir,
}

impl ThreadedProcess {
    fn start() -> Self {
        // Not in a file system in memory, where there is nothing to sync.
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", "the_process_that_is_looked_at", "--nocapture"])
            .env(PLACE, place.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let is_acting = |line: io::Result<String>| line.unwrap().ends_with("acting");
        assert!({ lines }.any(is_acting));
        Self { process, _place: place }
    }

    fn end(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for ThreadedProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// Not a test: the sampled process, where the environment variable asks for it.
#[test]
fn the_process_that_is_looked_at() {
    let Some(place) = env::var_os(PLACE) else {
        return;
    };
    let place = Path::new(&place).to_owned();
    let pair = || UnixStream::pair().unwrap();
    let ((receiving, _one), (polled, _two), (many, _three)) = (pair(), pair(), pair());
    let (mut reading, _writing) = pipe().unwrap();
    begin("spins", || {
        loop {
            hint::spin_loop();
        }
    });
    begin("sleeps", || thread::sleep(Duration::from_secs(3_600)));
    begin("waits", || {
        loop {
            thread::park();
        }
    });
    begin("receives", move || {
        let _ = (&receiving).read(&mut [0]);
    });
    begin("reads", move || {
        let _ = reading.read(&mut [0]);
    });
    begin("polls", || poll_for_ever(&[polled]));
    begin("polls many", || {
        poll_for_ever(&[many.try_clone().unwrap(), many]);
    });
    begin("polls none", || poll_for_ever(&[]));
    let log = place.join("ib_logfile0");
    begin("syncs log", move || sync_for_ever(&log));
    let data = place.join("t.ibd");
    begin("syncs data", move || sync_for_ever(&data));
    thread::sleep(Duration::from_millis(500)); // until each is where it is to stay
    println!("acting");
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    std::process::exit(0);
}

/// The program, ready to begin.
struct Sampling {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Sampling {
    fn start(pid: u32, options: &[&str]) -> Self {
        let mut process = program(pid, options).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        let mut sampling = Self { process, lines };
        assert_eq!(sampling.read(), serde_json::json!({"type": "ready"}));
        sampling
    }

    fn order(&mut self, line: &str) {
        let input = self.process.stdin.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Sample for so long.
    fn sample(mut self, time: Duration) -> Value {
        self.order("begin\n");
        thread::sleep(time);
        self.order("end\n");
        let report = self.read();
        assert!(self.finish().0.success());
        report
    }

    /// The exit status, and what else was said.
    fn finish(mut self) -> (std::process::ExitStatus, String, String) {
        let (mut rest, mut said) = (String::new(), String::new());
        self.lines.read_to_string(&mut rest).unwrap();
        let mut errors = self.process.stderr.take().unwrap();
        errors.read_to_string(&mut said).unwrap();
        (self.process.wait().unwrap(), rest, said)
    }
}

fn program(pid: u32, options: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("millrace-load"));
    command
        .args(["--die-with-parent", "threads", "--pid", &pid.to_string()])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn thread_named<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut threads = report["threads"].as_array().unwrap().iter();
    threads.find(|thread| thread["name"] == name).unwrap_or_else(|| panic!("{name} in {report}"))
}

fn states<'a>(report: &'a Value, name: &str) -> &'a [Value] {
    thread_named(report, name)["states"].as_array().unwrap()
}

fn sum(states: &[Value], key: &str) -> u64 {
    states.iter().map(|state| state[key].as_u64().unwrap()).sum()
}

/// The state that a thread always was in.
fn only<'a>(report: &'a Value, name: &str) -> &'a Value {
    let [state] = states(report, name) else {
        panic!("{name} in {report}");
    };
    assert_eq!(state["count"], thread_named(report, name)["ticks"]);
    state
}

/// The call that a thread always was in, and what is behind its descriptor.
fn call<'a>(report: &'a Value, name: &str) -> (c_long, Option<&'a str>) {
    let state = only(report, name);
    assert_eq!((&state["state"], &state["wchan"]), (&"S".into(), &Value::Null));
    (state["syscall"].as_i64().unwrap(), state["target"].as_str())
}

#[test]
fn threads_are_seen_where_they_are() {
    let acting = ThreadedProcess::start();
    let sampling = Sampling::start(acting.process.id(), &["--rate", "200", "--budget", "1"]);
    let report = sampling.sample(Duration::from_secs(2));
    let ticks = report["ticks"].as_u64().unwrap();
    assert!(ticks >= 20, "{report}");
    assert_eq!(report["ended"], false);

    let spinning = only(&report, "spins");
    assert_eq!((&spinning["state"], &spinning["syscall"]), (&"R".into(), &Value::Null));
    assert_eq!(call(&report, "sleeps"), (libc::SYS_clock_nanosleep, None));
    assert_eq!(call(&report, "waits"), (libc::SYS_futex, None));
    for (name, number, target) in [
        ("receives", libc::SYS_recvfrom, "socket:["),
        ("reads", libc::SYS_read, "pipe:["),
        ("polls", POLL, "socket:["),
        ("polls none", POLL, "[no descriptors]"),
    ] {
        let (called, behind) = call(&report, name);
        assert_eq!(called, number, "{name}");
        assert!(behind.unwrap().starts_with(target), "{name}: {behind:?}");
    }
    assert_eq!(call(&report, "polls many"), (POLL, None));

    // Where the kernel reports stacks, they end in the function in which the thread is blocked.
    for state in ["syncs log", "syncs data"].map(|name| states(&report, name)).concat() {
        if let Some(stack) = state["stack"].as_str() {
            let innermost = stack.rsplit(';').next();
            assert_eq!(innermost, state["wchan"].as_str(), "{stack}");
        }
    }

    // Whoever waits does so while the log is synced whenever it is; data does not count.
    let synced = |name: &str, file: &str| {
        let syncs = states(&report, name).iter().filter(|state| {
            let is_of_file = |target: &str| target.ends_with(file);
            state["syscall"] == libc::SYS_fsync && state["target"].as_str().is_some_and(is_of_file)
        });
        syncs.map(|state| state["count"].as_u64().unwrap()).sum::<u64>()
    };
    let logs = synced("syncs log", "/ib_logfile0");
    assert!(logs > 0 && synced("syncs data", "/t.ibd") > 0, "{report}");
    let ticks = |name: &str| thread_named(&report, name)["ticks"].as_u64().unwrap();
    let share = |count: u64, name: &str| count as f64 / ticks(name) as f64;
    let expected = share(logs, "syncs log");
    for name in ["waits", "spins", "syncs data"] {
        let found = share(sum(states(&report, name), "during_sync"), name);
        // Each thread is sampled at ticks of its own.
        let error = (0.25 / ticks(name) as f64 + 0.25 / ticks("syncs log") as f64).sqrt();
        assert!((found - expected).abs() < 5.0 * error, "{name}: {found}, {expected}");
    }
    assert_eq!(sum(states(&report, "syncs log"), "during_sync"), 0);
}

#[test]
fn looks_are_of_the_statements_that_clients_show() {
    let acting = ThreadedProcess::start();
    let pid = acting.process.id();
    let options = ["--rate", "500", "--budget", "1"];
    let report = Sampling::start(pid, &options).sample(Duration::from_millis(500));
    let link = only(&report, "receives")["target"].as_str().unwrap();
    let inode = link.trim_matches(|letter: char| !letter.is_ascii_digit());

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("activity");
    let names = ["first".to_owned(), "second".to_owned()];
    let activity = Arc::new(
        StatementActivity::create(&path, &[PeerAddress::Tcp { port: 1 }], &names).unwrap(),
    );
    let place = ActivitySlot::new(&activity, 0);
    let mut sampling = Sampling::start(pid, &options);
    let order = serde_json::json!({"path": path, "slots": {inode: 0}});
    sampling.order(&format!("statement_activity {order}\nbegin\n"));
    thread::sleep(Duration::from_millis(300));
    place.show(1);
    thread::sleep(Duration::from_millis(500));
    place.clear();
    thread::sleep(Duration::from_millis(200));
    sampling.order("end\n");
    let report = sampling.read();
    assert!(sampling.finish().0.success());

    let thread = thread_named(&report, "receives");
    let statements = thread["statements"].as_array().unwrap();
    let counts = |name: Option<&str>| {
        let of = statements.iter().find(|each| each["statement"].as_str() == name);
        let states = of.unwrap()["states"].as_array().unwrap();
        let [state] = states.as_slice() else {
            panic!("{report}");
        };
        assert_eq!(state["syscall"], libc::SYS_recvfrom);
        assert_eq!(state["wchan"], Value::Null);
        state["count"].as_u64().unwrap()
    };
    let (second, none) = (counts(Some("second")), counts(None));
    assert_eq!(statements.len(), 2, "{report}");
    // It waited for its client when the activity was announced.
    assert_eq!(second + none, only(&report, "receives")["count"].as_u64().unwrap());
    for other in ["polls", "spins"] {
        let statements = thread_named(&report, other)["statements"].as_array();
        assert!(statements.unwrap().is_empty(), "{other}");
    }
}

#[test]
fn neither_the_rate_nor_the_budget_is_exceeded() {
    let acting = ThreadedProcess::start();
    let sample = |rate, budget| {
        let options = ["--rate", rate, "--budget", budget];
        let sampling = Sampling::start(acting.process.id(), &options);
        let report = sampling.sample(Duration::from_secs(2));
        let figure = |name: &str| report[name].as_f64().unwrap();
        assert!(figure("ticks") > 0.0 && figure("window_s") >= 2.0, "{report}");
        let rate_hz = figure("ticks") / figure("window_s");
        assert!((figure("rate_hz") / rate_hz - 1.0).abs() < 1e-9, "{report}");
        (rate_hz, figure("cpu_s") / figure("window_s"))
    };
    let (rate_hz, _) = sample("50", "1");
    assert!(rate_hz <= 1.2 * 50.0, "{rate_hz}");
    let (rate_hz, share) = sample("10000", "0.005");
    assert!(share <= 3.0 * 0.005, "{share} of a CPU at {rate_hz} Hz");
}

#[test]
fn a_process_that_ends_is_told_as_far_as_it_was_seen() {
    let mut acting = ThreadedProcess::start();
    let mut sampling = Sampling::start(acting.process.id(), &[]);
    sampling.order("begin\n");
    thread::sleep(Duration::from_millis(300));
    acting.end();
    let report = sampling.read(); // nobody has said `end`
    assert_eq!(report["ended"], true);
    assert!(thread_named(&report, "waits")["ticks"].as_u64().unwrap() > 0);
    let (status, rest, said) = sampling.finish();
    assert!(status.success());
    assert_eq!((rest.as_str(), said.as_str()), ("", ""));
}

#[test]
fn a_process_that_is_not_there_is_named() {
    let mut acting = ThreadedProcess::start();
    let pid = acting.process.id();
    let mut sampling = Sampling::start(pid, &[]);
    acting.end();
    let output = program(pid, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(said(&output), format!("millrace-load: process {pid} does not exist\n"));
    // The same when it has gone before anything was counted.
    sampling.order("begin\n");
    let (status, rest, said) = sampling.finish();
    assert_eq!((status.code(), rest.as_str()), (Some(1), ""));
    assert!(said.contains("does not exist"), "{said}");
}

#[test]
fn the_end_of_the_orders_is_the_end() {
    let acting = ThreadedProcess::start();
    for orders in ["", "begin\n"] {
        let mut sampling = Sampling::start(acting.process.id(), &[]);
        sampling.order(orders);
        drop(sampling.process.stdin.take());
        let (status, rest, said) = sampling.finish();
        assert!(status.success());
        assert_eq!((rest.as_str(), said.as_str()), ("", ""));
    }
}

#[test]
fn other_orders_are_mistakes() {
    let acting = ThreadedProcess::start();
    for (orders, expected) in [
        ("end\n", "\"end\" came where begin was due"),
        ("begin\nbegin\n", "\"begin\" came where end was due"),
        ("start\n", "\"start\" came where begin was due"),
        (
            "statement_activity {}\n",
            "came where the file of a statement activity and its slots was due",
        ),
    ] {
        let mut sampling = Sampling::start(acting.process.id(), &[]);
        sampling.order(orders);
        let (status, rest, said) = sampling.finish();
        assert_eq!((status.code(), rest.as_str()), (Some(2), ""));
        assert!(said.contains(expected), "{said}");
    }
    for option in [["--rate", "0"], ["--rate", "nan"], ["--budget", "1.1"], ["--pid", "0"]] {
        let output = program(1, &option).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{option:?}");
        assert!(said(&output).contains(option[0]), "{}", said(&output));
    }
}
