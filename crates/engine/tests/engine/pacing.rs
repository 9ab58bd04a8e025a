//! Open loops: the schedule does not depend on the server, and stalls show in the latencies.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use engine::{Arrivals, DriveSettings, End, Pacing, PacingResult};
use protocol::script::{Request, Script};

use super::server::{Answer, OK, Server, StatementScript};
use super::{drive, drive_scripts, settings};

fn open(rate: f64, arrivals: Arrivals, clients: u32, threads: u32) -> DriveSettings {
    DriveSettings {
        pacing: Pacing::Open { rate, arrivals, max_lateness: None },
        ..settings(clients, threads)
    }
}

/// Return the numbers of scheduled, late and skipped arrivals.
pub fn fate(pacing: &PacingResult) -> (u64, u64, u64) {
    match *pacing {
        PacingResult::Open { punctuality: all, .. } => (all.scheduled, all.late, all.skipped),
        PacingResult::Closed => panic!("a closed loop has no schedule"),
    }
}

#[test]
fn a_stall_shows_in_response_time_and_once_a_connection_in_service_time() {
    const STALL: Duration = Duration::from_millis(500);
    const CLIENTS: u32 = 8;
    let first = OnceLock::new();
    let server = Server::new(move |_| {
        let first = *first.get_or_init(Instant::now);
        let (from, until) = (first + 2 * STALL, first + 3 * STALL);
        let now = Instant::now();
        if now >= from {
            thread::sleep(until.saturating_duration_since(now));
        }
        Answer::Bytes(OK.to_vec())
    });
    let stalled =
        DriveSettings { end: End::Time(6 * STALL), ..open(400.0, Arrivals::Constant, CLIENTS, 1) };
    let driven = drive(&stalled, &server).unwrap();
    let record = &driven.transactions[0];
    assert_eq!(record.count, server.seen());
    let response = record.response.as_ref().unwrap();
    let p99 = response.percentile_s(99.0).unwrap() / STALL.as_secs_f64();
    assert!((0.85..1.1).contains(&p99), "{p99} of the stall");
    let limit_ns = STALL.as_nanos() as u64 / 2;
    let slow = record.service.histogram().count_between(limit_ns, u64::MAX);
    assert_eq!(slow, u64::from(CLIENTS));
    let (scheduled, late, skipped) = fate(&driven.pacing);
    assert_eq!(scheduled, 1_200);
    assert!(skipped < 10, "{skipped}"); // at the very end, on a busy host
    assert!(late > 150, "{late}");
}

#[test]
fn the_schedule_is_kept_where_the_server_can_serve_it() {
    for (arrivals, threads) in [(Arrivals::Constant, 1), (Arrivals::Poisson, 2)] {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let times = Arc::clone(&asked);
        let server = Server::new(move |_| {
            times.lock().unwrap().push(Instant::now());
            Answer::Bytes(OK.to_vec())
        });
        let driven = drive(&open(2_000.0, arrivals, 16, threads), &server).unwrap();
        let (scheduled, _, skipped) = fate(&driven.pacing);
        let count = driven.transactions[0].count;
        assert_eq!(count + skipped, scheduled);
        assert_eq!(count, server.seen());
        assert!(skipped as f64 <= 0.005 * scheduled as f64, "{skipped} of {scheduled}");
        let expected = if arrivals == Arrivals::Constant { 0 } else { 5 * 45 }; // 5 sigma
        assert!(scheduled.abs_diff(2_000) <= expected);
        let record = &driven.statements[0];
        let (service, response) = (&record.service, record.response.as_ref().unwrap());
        assert_eq!(service.count(), response.count());
        // If all arrivals came at the end, they would wait for half of the drive on average.
        let waited_s = (response.sum_s() - service.sum_s()) / count as f64;
        assert!((0.0..0.05).contains(&waited_s), "{waited_s}");
        assert_evenly_spread(&mut asked.lock().unwrap(), driven.duration_s);
        assert!(driven.mean_gap_s.is_none());
    }
}

/// Assert that, by the server's own clock, each quarter of the requests took about a quarter of the
/// time.
fn assert_evenly_spread(asked: &mut [Instant], duration_s: f64) {
    asked.sort_unstable();
    let last = asked.len() - 1;
    for quarter in 1..=4 {
        let place = asked[last * quarter / 4] - asked[0];
        let off = place.as_secs_f64() / duration_s - quarter as f64 / 4.0;
        assert!(off.abs() < 0.15, "quarter {quarter} is off by {off}");
    }
}

/// One connection with 10 ms per request, and ten times the arrivals that it can serve.
fn overloaded(max_lateness: Option<Duration>) -> (DriveSettings, Server) {
    let server = Server::answering_after(|_| Duration::from_millis(10));
    let pacing = Pacing::Open { rate: 1_000.0, arrivals: Arrivals::Constant, max_lateness };
    (DriveSettings { pacing, ..settings(1, 1) }, server)
}

#[test]
fn what_an_overloaded_server_could_not_begin_is_skipped() {
    let (drive_settings, server) = overloaded(None);
    let driven = drive(&drive_settings, &server).unwrap();
    let (scheduled, late, skipped) = fate(&driven.pacing);
    let record = &driven.transactions[0];
    assert_eq!(scheduled, 1_000);
    assert_eq!(record.count + skipped, scheduled);
    assert_eq!(record.count, server.seen());
    assert!(skipped > 800 && late + 2 >= record.count);
    // The last transaction that began had waited for most of the second.
    assert!(record.response.as_ref().unwrap().max_s().unwrap() > 0.5);
    assert!(record.service.max_s() < record.response.as_ref().unwrap().max_s());
}

#[test]
fn no_arrival_waits_for_a_busy_client_while_another_is_idle() {
    let server = Server::new(|asked| {
        // The first request of one client takes as long as the whole drive.
        let stalls = asked.client == 0 && asked.number == 0;
        thread::sleep(Duration::from_millis(if stalls { 1_000 } else { 0 }));
        Answer::Bytes(OK.to_vec())
    });
    let driven = drive(&open(200.0, Arrivals::Constant, 2, 0), &server).unwrap();
    let record = &driven.transactions[0];
    let (scheduled, _, skipped) = fate(&driven.pacing);
    assert_eq!((record.count + skipped, driven.threads), (scheduled, 1));
    let response = record.response.as_ref().unwrap();
    assert!(response.percentile_s(99.0).unwrap() < 0.5);
    assert!(response.max_s().unwrap() >= 1.0);
}

#[test]
fn what_comes_too_late_is_skipped() {
    let (drive_settings, server) = overloaded(Some(Duration::from_millis(50)));
    let driven = drive(&drive_settings, &server).unwrap();
    let (scheduled, _, skipped) = fate(&driven.pacing);
    let record = &driven.transactions[0];
    assert_eq!(record.count + skipped, scheduled);
    let (service, response) = (&record.service, record.response.as_ref().unwrap());
    let waited_s = response.max_s().unwrap() - service.max_s().unwrap();
    // The host may suspend the thread between the decision and the request. Without a limit,
    // arrivals wait for most of the second.
    assert!(waited_s < 0.4, "{waited_s}");
}

#[test]
fn equal_work_holds_in_an_open_loop() {
    let server = Server::answering(OK);
    let work =
        DriveSettings { end: End::Operations(777), ..open(3_000.0, Arrivals::Poisson, 5, 2) };
    let driven = drive(&work, &server).unwrap();
    assert_eq!(driven.transactions[0].count, 777);
    assert_eq!((server.seen(), fate(&driven.pacing).0), (777, 777));
}

#[test]
fn arrivals_go_on_while_some_scripts_are_used_up_and_end_with_the_last() {
    let server = Server::answering(OK);
    let script =
        |client| StatementScript::new(2).with_transactions(if client == 0 { 0 } else { 20 });
    let driven = drive_scripts(&open(1_000.0, Arrivals::Constant, 3, 1), &server, 2, &script);
    assert_eq!((driven.transactions[0].count, server.seen()), (40, 80));
    assert!(driven.partial_reason.unwrap().contains("used up"));
}

#[test]
fn a_spinning_thread_keeps_the_schedule_too() {
    let server = Server::answering(OK);
    let spinning = DriveSettings { busy_poll: true, ..open(1_000.0, Arrivals::Constant, 2, 1) };
    let driven = drive(&spinning, &server).unwrap();
    assert!(driven.busy_poll);
    assert_eq!(driven.transactions[0].count + fate(&driven.pacing).2, 1_000);
}

/// A script that records its client with each request, after the server has answered all earlier
/// requests.
struct Patient {
    asker: StatementScript,
    client: u32,
    server: Server,
    asked: Arc<Mutex<Vec<u32>>>,
}

impl Script for Patient {
    fn next(&mut self, out: &mut Vec<u8>) -> Option<Request> {
        let mut asked = self.asked.lock().unwrap();
        while self.server.answered() < asked.len() as u64 {
            thread::yield_now();
        }
        asked.push(self.client);
        self.asker.next(out)
    }

    fn rollback_needed(&self) -> bool {
        self.asker.rollback_needed()
    }

    fn again(&mut self) {
        self.asker.again();
    }

    fn abandon(&mut self) {
        self.asker.abandon();
    }
}

#[test]
fn first_answers_do_not_wait_until_all_that_arrived_is_sent() {
    const CLIENTS: u32 = 100;
    let server = Server::answering(OK);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let crowded =
        DriveSettings { end: End::Operations(400), ..open(1e9, Arrivals::Constant, CLIENTS, 1) };
    engine::drive(
        &crowded,
        &StatementScript::names(1),
        |client| {
            let script = Patient {
                asker: StatementScript::new(1),
                client,
                server: server.clone(),
                asked: Arc::clone(&asked),
            };
            Ok((server.connect(client), script))
        },
        None,
        &|_| {},
        &AtomicBool::new(false),
    )
    .unwrap();
    let asked = asked.lock().unwrap();
    let place = |client| asked.iter().position(|&other| other == client).unwrap();
    let again = asked.iter().skip(1).position(|&other| other == 0).unwrap();
    assert!(again < place(CLIENTS - 1), "{asked:?}");
}
