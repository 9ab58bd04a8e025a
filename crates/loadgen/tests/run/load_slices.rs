//! Servers that load the same rows in turns.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use super::*;

const ROWS: u64 = 20_500;
const SLICE_ROWS: u64 = 1_000;

/// An OK message with warnings.
const WARNED: &[u8] = b"\0\0\0\x02\0\x07\0";

/// Load into servers that follow these scripts.
fn load_into<S>(scripts: Vec<S>, limit_s: f64) -> Ended
where
    S: FnOnce(Peer) + Send + 'static,
{
    let directory = tempfile::tempdir().unwrap();
    let sockets: Vec<PathBuf> =
        (0..scripts.len()).map(|side| directory.path().join(side.to_string())).collect();
    let servers: Vec<JoinHandle<()>> =
        sockets.iter().zip(scripts).map(|(socket, script)| server(socket, script)).collect();
    let mut phase = load();
    phase["source"]["generate"]["rows"] = json!(ROWS);
    phase["slices"] = json!({"rows": SLICE_ROWS});
    phase["limit_s"] = json!(limit_s);
    let result = run_spec(&spec_against(&sockets, &phase));
    for server in servers {
        server.join().unwrap();
    }
    result
}

/// A specification of a phase for several servers.
fn spec_against(sockets: &[PathBuf], phase: &Value) -> Value {
    let mut spec = spec(&sockets[0], &[phase]);
    let others = sockets[1..].iter().map(|socket| json!({"socket": socket, "user": "u"}));
    spec["against"] = others.collect();
    spec
}

/// Take `packets` of a file, with a pause after each; return the text and the next packet's number.
pub fn take(peer: &mut Peer, pause: Duration, packets: usize) -> (Vec<u8>, u8) {
    peer.first_request();
    peer.say(1, b"\xfbnodes");
    let mut text = Vec::new();
    let mut next: u8 = 2;
    for _ in 0..packets {
        let part = peer.receive();
        next = next.wrapping_add(1);
        if part.is_empty() {
            break;
        }
        text.extend(part);
        sleep(pause);
    }
    (text, next)
}

fn taker(pause_ms: u64, end_ms: u64) -> impl FnOnce(Peer) + Send {
    move |mut peer| {
        let (_, next) = take(&mut peer, Duration::from_millis(pause_ms), usize::MAX);
        sleep(Duration::from_millis(end_ms));
        peer.say(next, WARNED);
    }
}

fn slices_of(phase: &Value) -> Vec<(u64, u64, u64, u64, u64)> {
    serde_json::from_value(phase["slices"].clone()).unwrap()
}

#[test]
fn each_server_gets_the_whole_file_in_its_turns() {
    let (sender, receiver) = channel();
    let scripts = (0..3)
        .map(|_| {
            let sender = sender.clone();
            move |mut peer: Peer| {
                let (text, next) = take(&mut peer, Duration::ZERO, usize::MAX);
                peer.say(next, WARNED);
                sender.send(text).unwrap();
            }
        })
        .collect();
    let (status, events, said) = load_into(scripts, 20.0);
    assert_eq!((status, said.as_str()), (0, ""));
    let direct = data::nodes(&["--rows", &ROWS.to_string(), "--seed", "1"]);
    for _ in 0..3 {
        assert!(receiver.recv().unwrap() == direct);
    }
    assert_eq!(types(&events), ["start", "phase", "phase", "phase", "summary"]);
    assert_eq!(events[4]["statements"][0]["count"], 3);
    let mut all = Vec::new();
    for (side, phase) in events[1..4].iter().enumerate() {
        assert_eq!((&phase["side"], &phase["warnings"]), (&json!(side), &json!(7)));
        assert_eq!(phase["rows_sent"], ROWS);
        assert_eq!(phase["bytes_sent"], direct.len());
        assert!(phase["round_s"].as_f64() > phase["duration_s"].as_f64());
        let slices = slices_of(phase);
        assert_eq!(slices.iter().map(|slice| slice.3).sum::<u64>(), ROWS);
        assert!(slices.iter().all(|slice| (900..=SLICE_ROWS).contains(&slice.3)), "{slices:?}");
        all.extend(slices);
    }
    all.sort_unstable_by_key(|slice| slice.1);
    assert!(all.windows(2).all(|pair| pair[0].2 <= pair[1].1), "one at a time");
    assert_eq!(all.len(), 3 * 22);
    let mut orders = BTreeSet::new();
    for group in all.chunks(6) {
        let order: Vec<u64> = group.iter().map(|slice| slice.0).collect();
        assert!(order.iter().eq(order.iter().rev()), "{order:?}");
        orders.insert(order);
    }
    assert!(orders.len() > 1);
}

#[test]
fn a_slice_lasts_until_its_rows_are_read_and_a_load_until_its_answer() {
    // Of two packets a slice, which are about 80 kB, and of the end.
    let (status, events, _) = load_into(vec![taker(0, 0), taker(5, 300)], 20.0);
    assert_eq!(status, 0);
    let took = |phase: &Value| -> f64 {
        let slices = slices_of(phase);
        let all = slices.iter().map(|slice| Duration::from_nanos(slice.2 - slice.1));
        all.sum::<Duration>().as_secs_f64()
    };
    // A busy host may report an interval before.
    let phases: Vec<&Value> = events.iter().filter(|event| event["type"] == "phase").collect();
    let [fast, slow] = phases[..] else { panic!("{events:?}") };
    // The server rests after a packet that it has read: all but the last rest of a slice is waited for.
    assert!(took(slow) > 22.0 * 0.005, "{}", took(slow));
    assert!(took(fast) < took(slow) / 2.0, "{} {}", took(fast), took(slow));
    assert!(slow["duration_s"].as_f64().unwrap() > took(slow) + 0.3);
    assert!(fast["duration_s"].as_f64().unwrap() < took(fast) + 0.3);
}

/// Load into one server that takes everything and one that follows this script.
fn with_trouble(trouble: impl FnOnce(Peer) + Send + 'static, limit_s: f64) -> (i32, Value) {
    let fine: Box<dyn FnOnce(Peer) + Send> = Box::new(taker(0, 0));
    let (status, events, said) = load_into(vec![fine, Box::new(trouble)], limit_s);
    let error = events.into_iter().find(|event| event["type"] == "error").unwrap();
    assert!(said.contains("side 1: "), "{said}");
    assert_eq!((&error["side"], &error["phase"]), (&json!(1), &json!("load")), "{error}");
    (status, error)
}

/// Trouble of a server, and a key of the error with its value.
type Trouble = (fn(&mut Peer), &'static str, &'static str);

#[test]
fn the_side_that_fails_is_named() {
    let troubles: [Trouble; 5] = [
        (
            |peer| {
                take(peer, Duration::ZERO, 5);
                peer.say(9, b"\xff\xfd\x03#HY000disk full");
                // It neither reads on nor goes.
                peer.0.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                sleep(Duration::from_millis(500));
            },
            "code",
            "1021",
        ),
        (|peer| _ = take(peer, Duration::ZERO, 5), "kind", "connection"),
        (
            |peer| {
                take(peer, Duration::ZERO, 5);
                peer.say(9, OK);
                sleep(Duration::from_millis(500));
            },
            "kind",
            "protocol",
        ),
        (
            |peer| {
                let (_, next) = take(peer, Duration::ZERO, usize::MAX);
                peer.say(next, b"\xff\x26\x04#23000Duplicate entry");
            },
            "code",
            "1062",
        ),
        (
            |peer| {
                peer.first_request();
                peer.say(1, b"\xff\x24\x05#42000not allowed");
            },
            "code",
            "1316",
        ),
    ];
    for (trouble, key, expected) in troubles {
        let (status, error) = with_trouble(move |mut peer| trouble(&mut peer), 20.0);
        assert_eq!((status, &error[key]), (1, &json!(expected)), "{error}");
    }
}

#[test]
fn a_side_that_hangs_is_named() {
    let began = Instant::now();
    let (status, error) = with_trouble(
        |mut peer| {
            take(&mut peer, Duration::ZERO, 5);
            sleep(Duration::from_millis(1_500));
        },
        1.0,
    );
    assert_eq!((status, &error["kind"]), (1, &json!("time_limit")));
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn statements_run_on_each_server() {
    let directory = tempfile::tempdir().unwrap();
    let sockets = [directory.path().join("a"), directory.path().join("b")];
    let servers = [("1", &sockets[0]), ("2", &sockets[1])].map(|(rows, socket)| {
        server(socket, move |mut peer| {
            peer.first_request();
            peer.say_rows(1, &[format!("\x01{rows}").as_bytes()]);
        })
    });
    let (status, events, _) = run_spec(&spec_against(&sockets, &statement()));
    for server in servers {
        server.join().unwrap();
    }
    assert_eq!(status, 0);
    assert_eq!(types(&events), ["start", "phase", "phase", "summary"]);
    for (side, phase) in events[1..3].iter().enumerate() {
        assert_eq!(phase["side"], side);
        assert_eq!(phase["result"], json!([[(side + 1).to_string()]]));
    }
}
