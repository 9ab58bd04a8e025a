//! Whatever the server does, a drive ends, reports why, and keeps its results.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use engine::{Arrivals, DriveResult, DriveSettings, End, Pacing, Warmup};
use protocol::ClientError;

use super::server::{Answer, OK, Server, TWO_ROWS, error};
use super::{drive, drive_stoppable, settings, stopped};

/// Drive against a server that gives this answer to the hundredth request of client 1; all other
/// requests succeed.
fn fails_with(answer: impl Fn() -> Answer + Send + Sync + 'static) -> (DriveResult, ClientError) {
    let server = Server::new(move |asked| match (asked.client, asked.number) {
        (1, 100) => answer(),
        _ => Answer::Bytes(OK.to_vec()),
    });
    let failed = drive(&settings(3, 2), &server).unwrap_err();
    (*failed.driven.unwrap(), failed.error)
}

fn assert_partial(driven: &DriveResult) {
    assert!(driven.partial && driven.duration_s < 1.0);
    assert!(driven.transactions[0].count >= 100);
    assert!(driven.partial_reason.is_some());
}

#[test]
fn a_lost_connection_and_bytes_against_the_protocol_end_the_drive() {
    let out_of_order = [&OK[..3], &[7], &OK[4..]].concat();
    for (bytes, closes) in [
        (&b""[..], true),
        (&TWO_ROWS[..2], true),
        (&TWO_ROWS[..TWO_ROWS.len() - 3], true),
        (&out_of_order, false),
        (b"\x01\0\0\x01\xfb", false),
        (b"\0\0\0\x01", false),
    ] {
        let bytes = bytes.to_vec();
        let answer = if closes { Answer::Close } else { Answer::Bytes };
        let (driven, error) = fails_with(move || answer(bytes.clone()));
        assert_partial(&driven);
        assert_eq!(error.kind(), if closes { "connection" } else { "protocol" }, "{error}");
        let lost = error.to_string().starts_with("lost the connection of client 1 to the server");
        assert_eq!(lost, closes, "{error}");
    }
}

#[test]
fn a_killed_connection_says_so() {
    // The error is an answer and is counted; the lost connection shows with the next request.
    let (driven, lost) = fails_with(|| Answer::Close(error(1927)));
    assert_partial(&driven);
    assert_eq!(driven.transactions[0].errors[&1927], 1);
    assert_eq!(lost.kind(), "connection");
}

#[test]
fn answers_that_were_not_asked_for_end_the_drive() {
    let (_, twice) = fails_with(|| Answer::Bytes([OK, OK].concat()));
    assert_eq!(twice.kind(), "protocol");
    let (_, shutdown) = fails_with(|| Answer::Bytes([OK, &error(1053)].concat()));
    let ClientError::Server(shutdown) = shutdown else {
        panic!("{shutdown}");
    };
    assert_eq!(shutdown.code, 1053);
}

#[test]
fn an_idle_connection_that_is_closed_ends_an_open_loop() {
    let server = Server::new(|asked| match asked.number {
        0 => Answer::Close(OK.to_vec()),
        _ => Answer::Nothing,
    });
    let pacing = Pacing::Open { rate: 2.0, arrivals: Arrivals::Constant, max_lateness: None };
    let failed = drive(&DriveSettings { pacing, ..settings(2, 1) }, &server).unwrap_err();
    assert_eq!(failed.error.kind(), "connection");
}

/// Drive against a server that answers ten requests on each connection and then falls silent.
fn mute(
    change: impl FnOnce(DriveSettings) -> DriveSettings,
    stop: &AtomicBool,
) -> (engine::Failed, Duration) {
    let server = Server::new(|asked| match asked.number {
        0..10 => Answer::Bytes(OK.to_vec()),
        _ => Answer::Nothing,
    });
    let started = Instant::now();
    let failed = drive_stoppable(&change(settings(4, 2)), &server, &|_| (), stop).unwrap_err();
    (failed, started.elapsed())
}

#[test]
fn a_request_to_stop_ends_it_with_what_there_is() {
    let (failed, _) = stopped(|stop| mute(|drive| drive, stop));
    assert!(matches!(failed.error, ClientError::Interrupted));
    let driven = failed.driven.unwrap();
    assert_eq!(driven.transactions[0].count, 40);
    assert!(driven.partial && driven.duration_s < 1.0);
    assert_eq!(driven.partial_reason.as_deref(), Some("interrupted"));
}

#[test]
fn the_limit_ends_a_server_that_never_answers() {
    let limit = Some(Duration::from_millis(1_300));
    let (failed, took) = mute(|drive| DriveSettings { limit, ..drive }, &AtomicBool::new(false));
    assert!(matches!(failed.error, ClientError::TimeLimit { .. }));
    let driven = failed.driven.unwrap();
    // The measured part was over; only answers were missing.
    assert!(driven.partial && (driven.duration_s - 1.0).abs() < 1e-9);
    assert!(took >= Duration::from_millis(1_300));
}

#[test]
fn a_server_that_falls_silent_is_given_up_whatever_was_to_end_the_drive() {
    let closed = |drive| drive;
    let by_work = |drive| DriveSettings { end: End::Operations(1_000_000), ..drive };
    let in_warmup =
        |drive| DriveSettings { warmup: Warmup::Time(Duration::from_secs(3_600)), ..drive };
    let open = |drive| DriveSettings {
        pacing: Pacing::Open { rate: 1_000.0, arrivals: Arrivals::Constant, max_lateness: None },
        ..by_work(drive)
    };
    let changes: [(&(dyn Fn(DriveSettings) -> DriveSettings + Sync), u64); 4] =
        [(&closed, 40), (&by_work, 40), (&in_warmup, 0), (&open, 40)];
    // Each drive only waits, so all run at the same time.
    thread::scope(|scope| {
        for (change, count) in changes {
            scope.spawn(move || {
                let patient =
                    |drive| DriveSettings { idle_timeout: Duration::from_secs(2), ..change(drive) };
                let (failed, _) = mute(patient, &AtomicBool::new(false));
                assert!(matches!(failed.error, ClientError::Silent { .. }));
                let driven = failed.driven.unwrap();
                assert_eq!((driven.transactions[0].count, driven.unanswered), (count, 4));
                let reason = driven.partial_reason.unwrap();
                assert!(driven.partial && reason.contains("unanswered for 2 s"), "{reason}");
            });
        }
    });
}

#[test]
fn a_server_that_is_asked_nothing_is_not_silent() {
    let rare = DriveSettings {
        pacing: Pacing::Open { rate: 0.45, arrivals: Arrivals::Constant, max_lateness: None },
        end: End::Operations(2),
        idle_timeout: Duration::from_secs(2),
        ..settings(2, 1)
    };
    let driven = drive(&rare, &Server::answering(OK)).unwrap();
    assert_eq!((driven.transactions[0].count, driven.unanswered), (2, 0));
}

#[test]
fn a_cpu_that_does_not_exist_is_an_error() {
    let pinned = DriveSettings { cpus: vec![1_000], ..settings(1, 1) };
    let failed = drive(&pinned, &Server::answering(OK)).unwrap_err();
    assert_eq!(failed.error.kind(), "system");
    assert!(failed.error.to_string().contains("CPU 1000"), "{}", failed.error);
}
