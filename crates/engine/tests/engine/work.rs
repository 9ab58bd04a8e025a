//! The engine's counts equal those of the server, and equal work is exact.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use engine::{DriveSettings, End, Mark, Part, PerClient, Report, Warmup};
use protocol::ClientError;

use super::server::{Answer, OK, Server, StatementScript, TWO_ROWS, error};
use super::{drive, drive_reporting, drive_scripts, drive_stoppable, settings};

pub fn until(transactions: u64, clients: u32, threads: u32) -> DriveSettings {
    DriveSettings { end: End::Operations(transactions), ..settings(clients, threads) }
}

#[test]
fn counts_are_what_the_server_saw() {
    let server = Server::answering(TWO_ROWS);
    let driven = drive(&settings(5, 2), &server).unwrap();
    let [record] = driven.statements.try_into().unwrap();
    assert!(record.count > 0);
    assert_eq!(record.count, server.seen());
    assert_eq!(record.service.count(), record.count);
    assert_eq!(record.tally.rows, 2 * record.count);
    assert_eq!(record.tally.bytes_received, record.count * TWO_ROWS.len() as u64);
    assert_eq!(record.tally.bytes_sent, record.count * (4 + "\x03SELECT 1".len() as u64));
    assert!(record.response.is_none());
    assert_eq!(driven.transactions[0].count, record.count);
    assert!(!driven.partial);
    let waited = Instant::now();
    while server.quits() < 5 && waited.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(1)); // the server's threads need time to notice
    }
    assert_eq!(server.quits(), 5);
}

#[test]
fn equal_work_is_exact_for_any_clients_and_threads() {
    for (transactions, clients, threads) in [(1, 4, 2), (1_000, 1, 1), (10_007, 7, 3), (3, 2, 2)] {
        let server = Server::answering(OK);
        let driven = drive_scripts(&until(transactions, clients, threads), &server, 3, &|_| {
            StatementScript::new(3)
        });
        assert_eq!(driven.transactions[0].count, transactions);
        assert_eq!(driven.transactions[0].tally.affected_rows, 3 * transactions);
        assert_eq!(server.seen(), 3 * transactions);
        assert!(driven.statements.iter().all(|record| record.count == transactions));
        assert!(!driven.partial && driven.duration_s > 0.0);
    }
}

#[test]
fn a_closed_loop_lasts_until_a_transaction_is_over() {
    for (clients, warmup_ms) in [(1, 50), (1, 0), (3, 50)] {
        let server = Server::answering_after(|_| Duration::from_millis(400));
        let short = DriveSettings {
            warmup: Warmup::Time(Duration::from_millis(warmup_ms)),
            end: End::Time(Duration::from_millis(100)),
            ..settings(clients, 0)
        };
        let driven = drive(&short, &server).unwrap();
        assert!(!driven.partial);
        let count = driven.transactions[0].count;
        assert_eq!(count, u64::from(clients));
        // Without a warm-up, the first transaction counts. The rate is that of the transactions,
        // and not of one or none in 0.1 s.
        assert_eq!(server.seen(), count * if warmup_ms > 0 { 2 } else { 1 });
        let mean_s = driven.transactions[0].service.sum_s() / count as f64;
        let rate = count as f64 / driven.duration_s;
        assert!((rate * mean_s / f64::from(clients) - 1.0).abs() < 0.01, "{rate} {mean_s}");
    }
}

#[test]
fn few_transactions_of_a_closed_loop_have_their_own_pace() {
    // 1 s at 0.3 s each: 3 or 4 transactions begin, which is 11 % above or below the pace.
    let server = Server::answering_after(|_| Duration::from_millis(300));
    let warmup = Warmup::Time(Duration::from_millis(100));
    let driven = drive(&DriveSettings { warmup, ..settings(2, 2) }, &server).unwrap();
    let record = &driven.transactions[0];
    let mean_s = record.service.sum_s() / record.count as f64;
    let rate = record.count as f64 / driven.duration_s;
    assert!((rate * mean_s / 2.0 - 1.0).abs() < 0.01, "{rate} {mean_s}");
}

#[test]
fn a_closed_loop_of_errors_alone_ends_in_time() {
    let server = Server::new(|_| Answer::Bytes(error(1064)));
    let short = DriveSettings { end: End::Time(Duration::from_millis(100)), ..settings(1, 1) };
    let driven = drive(&short, &server).unwrap();
    assert_eq!(driven.transactions[0].count, 0);
    assert!(driven.transactions[0].errors[&1064] > 0);
}

#[test]
fn in_a_closed_loop_clients_are_throughput_times_latency_and_gap() {
    for (clients, threads) in [(1, 1), (8, 1), (8, 2), (64, 2)] {
        let server = Server::answering_after(|_| Duration::from_micros(300));
        let warm = DriveSettings {
            warmup: Warmup::Time(Duration::from_millis(100)),
            ..settings(clients, threads)
        };
        // A request under way at either end of the measured part counts completely or not at all,
        // so each client may deviate by two of the longest latency. A gap at an end has the same
        // effect; it is long if the host suspends the thread just then, but not in every attempt.
        let mut ratios = Vec::new();
        let is_right = (0..5).any(|_| {
            let driven = drive(&warm, &server).unwrap();
            let record = &driven.statements[0];
            let gaps_s = record.count as f64 * driven.mean_gap_s.unwrap();
            let concurrency = (record.service.sum_s() + gaps_s) / driven.duration_s;
            let ratio = concurrency / f64::from(clients);
            ratios.push(ratio);
            (ratio - 1.0).abs() < 0.01 + 2.0 * record.service.max_s().unwrap() / driven.duration_s
        });
        assert!(is_right, "{clients} clients: {ratios:?}");
    }
}

#[test]
fn the_warm_up_is_not_measured_and_the_marks_are_in_order() {
    let server = Server::answering(OK);
    let warm = DriveSettings {
        warmup: Warmup::Time(Duration::from_millis(1_500)),
        end: End::Time(Duration::from_millis(1_200)),
        ..settings(3, 1)
    };
    let (driven, reports) = drive_reporting(&warm, &server, 1, &|_| StatementScript::new(1));
    let driven = driven.unwrap();
    assert!((driven.warmup_s - 1.5).abs() < 1e-6 && (driven.duration_s - 1.2).abs() < 1e-6);
    let mut marks = Vec::new();
    let mut parts = Vec::new();
    for report in &reports {
        match report {
            Report::Mark { mark, .. } => marks.push(*mark),
            Report::Interval(interval) => parts.push(interval),
        }
    }
    assert_eq!(
        marks,
        [Mark::Connected, Mark::WarmupStarted, Mark::MeasureStarted, Mark::MeasureEnded]
    );
    let durations: Vec<(Part, u32)> = parts
        .iter()
        .map(|interval| (interval.part, (interval.duration_s * 1e3).round() as u32))
        .collect();
    assert_eq!(
        durations,
        [(Part::Warmup, 1000), (Part::Warmup, 500), (Part::Measure, 1000), (Part::Measure, 200)]
    );
    assert!(
        parts.iter().all(|interval| interval.totals.transactions > 0 && interval.max_us.is_some())
    );
    // Each client may have had one request under way at the end.
    let ended: u64 = parts.iter().map(|interval| interval.totals.transactions).sum();
    assert!((server.seen() - 3..=server.seen()).contains(&ended));
    assert!(driven.transactions[0].count < server.seen());
}

/// Longer than any test.
const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn clients_linger_until_they_are_stopped() {
    for end in [End::Time(Duration::from_millis(200)), End::Operations(50)] {
        let server = Server::answering(OK);
        let lingering = DriveSettings { end, linger: HOUR, limit: None, ..settings(4, 2) };
        let stop = AtomicBool::new(false);
        let (ended, at_the_end) = channel();
        let (server, stop) = (&server, &stop);
        let driven = thread::scope(|scope| {
            scope.spawn(move || {
                at_the_end.recv().unwrap();
                let asked = server.seen();
                thread::sleep(Duration::from_millis(100));
                assert_eq!(server.quits(), 0);
                assert!(server.seen() <= asked + 4); // requests that were under way
                stop.store(true, Ordering::Relaxed);
            });
            let report = |report: &Report| {
                let mark = Mark::MeasureEnded;
                if matches!(report, Report::Mark { mark: found, .. } if *found == mark) {
                    ended.send(()).unwrap();
                }
            };
            drive_stoppable(&lingering, server, &report, stop)
        });
        assert!(!driven.unwrap().partial);
        while server.quits() < 4 {
            thread::yield_now();
        }
    }
}

#[test]
fn clients_linger_no_longer_than_the_limit_or_after_an_error() {
    let answering = Server::answering(OK);
    let failing = Server::new(|asked| match asked.number {
        100 => Answer::Close(Vec::new()),
        _ => Answer::Bytes(OK.to_vec()),
    });
    let lingering = DriveSettings {
        end: End::Time(Duration::from_millis(500)),
        linger: HOUR,
        ..settings(2, 1)
    };
    let limited = DriveSettings { limit: Some(Duration::from_secs(1)), ..lingering.clone() };
    assert!(!drive(&limited, &answering).unwrap().partial);
    assert!(drive(&lingering, &failing).unwrap_err().driven.is_some());
}

#[test]
fn a_steady_server_ends_the_warm_up() {
    let server = Server::answering_after(|_| Duration::from_millis(5));
    let steady = DriveSettings {
        warmup: Warmup::Steady { limit: Duration::from_secs(9) },
        end: End::Time(Duration::from_millis(1_200)),
        ..settings(2, 1)
    };
    let (driven, reports) = drive_reporting(&steady, &server, 1, &|_| StatementScript::new(1));
    let driven = driven.unwrap();
    assert!(driven.warmup_s >= 6.0);
    assert!(driven.warmup_steady.is_some());
    assert!(driven.transactions[0].count >= 100);
    // Every interval is complete and belongs to only one part.
    let durations = |part| {
        let intervals = reports.iter().filter_map(|report| match report {
            Report::Interval(interval) if interval.part == part => Some(interval.duration_s),
            _ => None,
        });
        intervals.collect::<Vec<_>>()
    };
    let warmup = durations(Part::Warmup);
    assert!((warmup.len() as f64 - driven.warmup_s).abs() < 1e-6);
    assert!(warmup.iter().all(|duration_s| (duration_s - 1.0).abs() < 1e-6));
    let measured = durations(Part::Measure);
    assert!((measured[0] - 1.0).abs() < 1e-6, "{measured:?}");
    assert!((measured.iter().sum::<f64>() - driven.duration_s).abs() < 1e-6);
}

#[test]
fn scripts_that_are_used_up_end_the_drive_early() {
    let server = Server::answering(OK);
    let driven = drive_scripts(&settings(4, 2), &server, 2, &|client| {
        StatementScript::new(2).with_transactions(u64::from(client) * 10)
    });
    assert_eq!(driven.transactions[0].count, 60);
    let per_client = PerClient { least: 0, most: 30 };
    assert_eq!(driven.transactions_per_client, per_client);
    assert_eq!(server.seen(), 120);
    assert!(driven.partial && driven.duration_s < 1.0);
    assert!(driven.partial_reason.unwrap().contains("used up"));
}

#[test]
fn a_time_in_which_some_scripts_were_used_up_is_not_whole() {
    let server = Server::answering(OK);
    let short = DriveSettings { end: End::Time(Duration::from_millis(200)), ..settings(3, 1) };
    let script = |client: u32| match client {
        0 => StatementScript::new(1).with_transactions(2),
        _ => StatementScript::new(1),
    };
    let driven = drive_scripts(&short, &server, 1, &script);
    let reason = driven.partial_reason.unwrap();
    assert!(reason.starts_with("1 of 3 clients used up"), "{reason}");
    // Transactions that one client leaves are done by others.
    let driven = drive_scripts(&until(500, 3, 1), &server, 1, &script);
    assert_eq!((driven.transactions[0].count, driven.partial), (500, false));
}

#[test]
fn whichever_comes_first_ends_a_drive_by_time_and_work() {
    let server = Server::answering(OK);
    let ended = |time_ms, transactions| {
        let end = End::Either(Duration::from_millis(time_ms), transactions);
        let driven = drive(&DriveSettings { end, ..settings(2, 2) }, &server).unwrap();
        assert!(!driven.partial);
        (driven.transactions[0].count, driven.duration_s)
    };
    let (count, duration_s) = ended(20_000, 100);
    assert!(count == 100 && duration_s < 10.0);
    let (count, duration_s) = ended(100, 1_000_000_000);
    assert!(count < 1_000_000_000 && (duration_s - 0.1).abs() < 1e-6);
}

#[test]
fn work_that_uses_the_scripts_up_exactly_is_whole() {
    let server = Server::answering(OK);
    let script = |_| StatementScript::new(1).with_transactions(25);
    let driven = drive_scripts(&until(100, 4, 1), &server, 1, &script);
    assert_eq!((driven.transactions[0].count, driven.partial), (100, false));
}

#[test]
fn requests_larger_than_the_socket_takes_arrive_whole() {
    let server = Server::new(|asked| {
        assert_eq!(asked.payload.len(), 3_000_000);
        Answer::Bytes(OK.to_vec())
    });
    let script = |_| StatementScript::new(1).with_length(3_000_000);
    let driven = drive_scripts(&until(20, 3, 1), &server, 1, &script);
    assert_eq!(driven.transactions[0].count, 20);
    assert_eq!(server.seen(), 20);
}

#[test]
fn answers_larger_than_the_buffer_are_followed() {
    let mut answer = TWO_ROWS[..TWO_ROWS.len() - 9].to_vec();
    let mut sequence = 6u8;
    for _ in 0..400 {
        answer.extend_from_slice(&[0xec, 0x03, 0, sequence, 0xfc, 0xe9, 0x03]);
        answer.extend_from_slice(&[b'x'; 1001]);
        sequence = sequence.wrapping_add(1);
    }
    answer.extend_from_slice(&[5, 0, 0, sequence, 0xfe, 0, 0, 2, 0]);
    let length = answer.len() as u64;
    let server = Server::new(move |_| Answer::Bytes(answer.clone()));
    let driven = drive(&until(50, 2, 1), &server).unwrap();
    let record = &driven.statements[0];
    assert_eq!((record.count, record.tally.rows), (50, 50 * 402));
    assert_eq!(record.tally.bytes_received, 50 * length);
}

#[test]
fn many_connections_share_a_thread() {
    let server = Server::answering(OK);
    let driven = drive(&until(5_000, 500, 1), &server).unwrap();
    assert_eq!((driven.threads, server.seen()), (1, 5_000));
}

#[test]
fn threads_may_spin_and_be_pinned() {
    let server = Server::answering(OK);
    let pinned = DriveSettings { busy_poll: true, cpus: vec![0], ..until(300, 2, 1) };
    let driven = drive(&pinned, &server).unwrap();
    assert!(driven.busy_poll);
    assert_eq!((driven.cpus, server.seen()), (Some(vec![0]), 300));
}

#[test]
fn a_drive_is_written_as_the_contract_says() {
    let server = Server::answering(OK);
    let value = serde_json::to_value(drive(&until(10, 1, 1), &server).unwrap()).unwrap();
    assert_eq!(value["pacing"], serde_json::json!({"kind": "closed"}));
    assert_eq!(value["transactions"][0]["service"]["count"], 10);
    assert!(value["client"]["user_s"].is_number() && value["cpus"].is_null());
    assert!(value["mean_gap_s"].as_f64().unwrap() > 0.0);
    assert!(value["sides"].is_null() && value["slices"].is_null());
}

#[test]
fn a_connection_that_cannot_be_opened_ends_it_before_anything_is_asked() {
    let server = Server::answering(OK);
    let failed = engine::drive(
        &settings(40, 2),
        &StatementScript::names(1),
        |client| match client {
            17 => Err(ClientError::Authentication("no".to_owned())),
            _ => Ok((server.connect(client), StatementScript::new(1))),
        },
        None,
        &|_| panic!("nothing is to be reported"),
        &AtomicBool::new(false),
    )
    .unwrap_err();
    assert!(failed.driven.is_none());
    assert_eq!(failed.error.kind(), "authentication");
    assert_eq!(server.seen(), 0);
}
