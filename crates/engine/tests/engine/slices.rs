//! Slices: only one server receives requests at a time, and each gets its share.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use engine::{DriveResult, DriveSettings, End, Failed, Slice, SliceSettings, Warmup};
use proptest::prelude::*;
use protocol::ClientError;

use super::server::{Answer, OK, SeenRequest, Server, StatementScript, error};
use super::{drive, drive_failing, drive_scripts, drive_stoppable, settings, stopped};

const AT_LEAST: Duration = Duration::from_millis(2);
const TRANSACTIONS: u64 = 5;

/// Return settings of a drive of half a second with this number of clients on each side.
fn in_slices(clients: u32, sides: u32) -> DriveSettings {
    DriveSettings {
        end: End::Time(Duration::from_millis(500)),
        slices: Some(slices(sides, AT_LEAST, TRANSACTIONS)),
        ..settings(clients, 0)
    }
}

fn slices(sides: u32, at_least: Duration, transactions: u64) -> SliceSettings {
    SliceSettings { sides, at_least, at_most: Duration::from_secs(10), transactions }
}

/// Assert that no slice is too short, that slices do not overlap, and that groups are mirrored.
fn assert_whole_groups(slices: &[Slice], sides: u32, settings: &SliceSettings) {
    assert!(slices.windows(2).all(|pair| pair[0].until_ns <= pair[1].from_ns));
    for slice in slices {
        let duration = Duration::from_nanos(slice.until_ns - slice.from_ns);
        assert!(duration >= settings.at_least, "{slice:?}");
    }
    assert_eq!(slices.len() % (2 * sides as usize), 0);
    for group in slices.chunks(2 * sides as usize) {
        let order: Vec<u32> = group.iter().map(|slice| slice.side).collect();
        assert!(order.iter().eq(order.iter().rev()), "{order:?}");
        let mut half = order[..sides as usize].to_vec();
        half.sort_unstable();
        assert!(half.into_iter().eq(0..sides), "{order:?}");
    }
}

/// Return the number of a side's transactions, successful and failed.
fn ended(driven: &DriveResult, side: usize) -> u64 {
    let record = &driven.sides.as_ref().unwrap()[side].transactions[0];
    record.count + record.errors.values().sum::<u64>()
}

#[test]
fn one_side_is_asked_at_a_time() {
    // This includes more clients than begin at once.
    for (clients, sides) in [(1, 2), (4, 2), (3, 3), (40, 2), (1, 8)] {
        let asked: Arc<[AtomicI64]> = (0..sides).map(|_| AtomicI64::new(0)).collect();
        let seen: Arc<[AtomicU64]> = (0..sides).map(|_| AtomicU64::new(0)).collect();
        let overlaps = Arc::new(AtomicU64::new(0));
        let (under_way, seen_by, overlapping) = (asked.clone(), seen.clone(), overlaps.clone());
        let server = Server::new(move |request: &SeenRequest<'_>| {
            let side = (request.client % sides) as usize;
            under_way[side].fetch_add(1, Ordering::SeqCst);
            let others = under_way.iter().enumerate().filter(|(other, _)| *other != side);
            let others: i64 = others.map(|(_, count)| count.load(Ordering::SeqCst)).sum();
            overlapping.fetch_add(u64::from(others != 0), Ordering::SeqCst);
            seen_by[side].fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_micros(50));
            under_way[side].fetch_sub(1, Ordering::SeqCst);
            Answer::Bytes(OK.to_vec())
        });
        let settings = in_slices(clients, sides);
        let driven = drive(&settings, &server).unwrap();
        assert_eq!(overlaps.load(Ordering::SeqCst), 0, "{clients} clients, {sides} sides");
        assert_eq!((driven.clients, driven.threads, driven.unanswered), (clients, 1, 0));
        assert!(!driven.partial);
        for side in 0..sides as usize {
            assert_eq!(ended(&driven, side), seen[side].load(Ordering::SeqCst));
        }
        let both: u64 = (0..sides as usize).map(|side| ended(&driven, side)).sum();
        assert_eq!(driven.transactions[0].count, both);
        assert_eq!(driven.statements[0].service.count(), both);
        let slices = driven.slices.unwrap();
        assert!(!slices.is_empty(), "{clients} clients, {sides} sides");
        assert_whole_groups(&slices, sides, &settings.slices.unwrap());
        assert!(slices.iter().all(|slice| slice.transactions >= TRANSACTIONS));
        assert!(slices.iter().map(|slice| slice.transactions).sum::<u64>() <= both);
    }
}

#[test]
fn a_slower_side_rests_for_its_share_of_its_slices_and_no_other_does() {
    for clients in [1, 3] {
        let settings = DriveSettings { slowdowns: vec![0.0, 1.0, 0.01], ..in_slices(clients, 3) };
        let slices = drive(&settings, &Server::answering(OK)).unwrap().slices.unwrap();
        assert!(!slices.is_empty());
        assert_whole_groups(&slices, 3, &settings.slices.unwrap());
        for (side, share) in settings.slowdowns.iter().enumerate() {
            let own = slices.iter().filter(|slice| slice.side as usize == side);
            let (rested_ns, whole_ns) = own.fold((0, 0), |(rested_ns, whole_ns), slice| {
                assert!(slice.rested_ns <= slice.until_ns - slice.from_ns, "{slice:?}");
                (rested_ns + slice.rested_ns, whole_ns + slice.until_ns - slice.from_ns)
            });
            // A rest may be shorter if the one before was too long.
            assert!(rested_ns as f64 >= 0.5 * share * (whole_ns - rested_ns) as f64);
            assert_eq!(rested_ns > 0, *share > 0.0);
        }
    }
}

#[test]
fn all_sides_pause_for_as_long_as_the_slowest_one_rests() {
    let settings = DriveSettings { slowdowns: vec![0.0, 0.5, 0.01], ..in_slices(1, 3) };
    let slices = drive(&settings, &Server::answering(OK)).unwrap().slices.unwrap();
    assert!(!slices.is_empty());
    for pair in slices.windows(2) {
        let answered_ns = pair[0].until_ns - pair[0].rested_ns;
        let pause_ns = pair[1].from_ns - answered_ns;
        assert!(pause_ns as f64 >= 0.5 * (answered_ns - pair[0].from_ns) as f64 - 1.0, "{pair:?}");
    }
}

#[test]
fn a_warm_up_has_slices_that_do_not_count() {
    let warm = DriveSettings {
        warmup: Warmup::Time(Duration::from_millis(200)),
        end: End::Time(Duration::from_millis(300)),
        ..in_slices(2, 2)
    };
    let seen: Arc<[AtomicU64]> = (0..2).map(|_| AtomicU64::new(0)).collect();
    let seen_by = seen.clone();
    let server = Server::new(move |asked| {
        seen_by[asked.client as usize % 2].fetch_add(1, Ordering::SeqCst);
        Answer::Bytes(OK.to_vec())
    });
    let driven = drive(&warm, &server).unwrap();
    for (side, seen) in seen.iter().enumerate() {
        let seen = seen.load(Ordering::SeqCst);
        assert!(0 < ended(&driven, side) && ended(&driven, side) < seen, "side {side}: {seen}");
        let found = &driven.sides.as_ref().unwrap()[side];
        assert_eq!(found.before + ended(&driven, side), seen);
        assert!(found.before_s > 0.0);
    }
    let slices = driven.slices.unwrap();
    assert_whole_groups(&slices, 2, &warm.slices.unwrap());
    let begins = (driven.connect_s + 0.2) * 1e9;
    assert!(slices[0].from_ns as f64 >= begins);
}

#[test]
fn the_turn_of_others_is_no_gap_of_a_client() {
    let long = slices(2, Duration::from_millis(40), 1);
    let settings = DriveSettings { slices: Some(long), ..in_slices(1, 2) };
    let driven = drive(&settings, &Server::answering(OK)).unwrap();
    for side in driven.sides.unwrap() {
        // With a server that answers at once, 12 turns of others would add up to 0.5 s of gaps.
        assert!(side.mean_gap_s * (side.transactions[0].count as f64) < 0.4);
    }
}

#[test]
fn slices_of_a_transaction_each_do_not_nest() {
    let short = slices(2, Duration::from_nanos(1), 1);
    let settings = DriveSettings { slices: Some(short), ..in_slices(1, 2) };
    let driven = drive(&settings, &Server::answering(OK)).unwrap();
    let slices = driven.slices.unwrap();
    assert!(slices.len() > 1_000, "{}", slices.len());
    assert_whole_groups(&slices, 2, &short);
    assert!(slices.iter().all(|slice| slice.transactions == 1));
}

#[test]
fn what_fails_on_one_side_is_counted_there_and_ends_slices_too() {
    // On side 1 the second statement fails: alternately its transaction is restarted or fails.
    let server = Server::new(|asked| match (asked.client % 2, asked.number % 4) {
        (1, 1) => Answer::Bytes(error(1213)),
        (1, 3) => Answer::Bytes(error(1205)),
        _ => Answer::Bytes(OK.to_vec()),
    });
    let settings = in_slices(2, 2);
    let driven = drive_scripts(&settings, &server, 3, &|_| StatementScript::new(3));
    let [right, wrong] = driven.sides.unwrap().try_into().unwrap();
    assert!(right.transactions[0].count > 0);
    assert!(right.transactions[0].errors.is_empty());
    assert_eq!((right.rollbacks, right.transactions[0].tally.retries), (0, 0));
    let (failed, retries) =
        (wrong.transactions[0].errors[&1205], wrong.transactions[0].tally.retries);
    assert_eq!(wrong.transactions[0].count, 0);
    assert_eq!(wrong.rollbacks, failed + retries);
    assert_eq!((driven.rollbacks, server.rollbacks()), (wrong.rollbacks, wrong.rollbacks));
    let slices = driven.slices.unwrap();
    assert!(!slices.is_empty());
    assert_whole_groups(&slices, 2, &settings.slices.unwrap());
    for slice in slices {
        assert_eq!(slice.transactions > 0, slice.side == 0, "{slice:?}");
    }
}

#[test]
fn a_client_with_nothing_left_to_ask_ends_the_drive() {
    for short_of in [1, 3] {
        let end = End::Time(Duration::from_secs(20));
        let settings = DriveSettings { end, ..in_slices(2, 2) };
        let driven = drive_scripts(&settings, &Server::answering(OK), 1, &|client| {
            let script = StatementScript::new(1);
            if client == short_of { script.with_transactions(50) } else { script }
        });
        let reason = driven.partial_reason.as_deref();
        assert_eq!(reason, Some("1 of 4 clients used up what they had to ask"));
        assert!(driven.duration_s < 15.0, "{}", driven.duration_s);
        assert_whole_groups(&driven.slices.unwrap(), 2, &settings.slices.unwrap());
    }
    // No side has any request.
    let driven = drive_scripts(&in_slices(1, 2), &Server::answering(OK), 1, &|_| {
        StatementScript::new(1).with_transactions(0)
    });
    assert!(driven.partial);
    assert!(driven.slices.unwrap().is_empty());
}

/// Drive a server whose side 1 reacts like this from its hundredth request on.
fn side_1_fails(
    settings: &DriveSettings,
    answer: impl Fn() -> Answer + Send + Sync + 'static,
) -> (DriveResult, ClientError) {
    let server = Server::new(move |asked| match (asked.client % 2, asked.number) {
        (1, 100..) => answer(),
        _ => Answer::Bytes(OK.to_vec()),
    });
    let Failed { driven, error } = drive(settings, &server).unwrap_err();
    (*driven.unwrap(), error)
}

#[test]
fn an_error_names_the_side() {
    let settings = DriveSettings { end: End::Time(Duration::from_secs(20)), ..in_slices(2, 2) };
    let (driven, lost) = side_1_fails(&settings, || Answer::Close(Vec::new()));
    assert_eq!(lost.kind(), "connection");
    let message = lost.to_string();
    let expected = "side 1: lost the connection of client ";
    assert!(message.starts_with(expected), "{message}");
    assert!(message[expected.len()..].starts_with(['0', '1']), "{message}");
    assert!(driven.partial && driven.partial_reason == Some(message));
    // Between two turns of side 1, the server reports its shutdown to a waiting client.
    let (_, shutdown) = side_1_fails(&settings, || Answer::Bytes([OK, &error(1053)].concat()));
    assert_eq!(shutdown.kind(), "server");
    assert!(shutdown.to_string().starts_with("side 1: the server refused"), "{shutdown}");
    let (_, nonsense) = side_1_fails(&settings, || Answer::Bytes(b"\0\0\0\x01".to_vec()));
    assert_eq!(nonsense.kind(), "protocol");
    assert!(nonsense.to_string().starts_with("side 1: "), "{nonsense}");
}

#[test]
fn a_side_that_falls_silent_is_given_up_and_named() {
    let idle_timeout = Duration::from_secs(2);
    let settings =
        DriveSettings { idle_timeout, end: End::Time(Duration::from_secs(20)), ..in_slices(2, 2) };
    let (driven, silent) = side_1_fails(&settings, || Answer::Nothing);
    assert_eq!(silent.kind(), "silent");
    assert!(silent.to_string().starts_with("side 1: the server left requests"), "{silent}");
    // One client may have ended its turn before; those of side 0 had no request under way.
    assert!((1..=2).contains(&driven.unanswered), "{}", driven.unanswered);
    assert_whole_groups(&driven.slices.unwrap(), 2, &settings.slices.unwrap());
}

#[test]
fn a_side_that_waits_for_its_turn_is_not_silent() {
    let long = slices(2, Duration::from_millis(2_200), 1);
    let settings = DriveSettings {
        idle_timeout: Duration::from_secs(2),
        slices: Some(long),
        ..in_slices(2, 2)
    };
    let server = Server::answering_after(|_| Duration::from_millis(5));
    let driven = drive(&settings, &server).unwrap();
    assert!(!driven.partial);
    assert_eq!(driven.slices.unwrap().len(), 4);
}

#[test]
fn a_drive_lasts_until_a_whole_group_is_over() {
    // A group takes 0.6 s of the 0.5 s: two transactions of side 1.
    let server =
        Server::answering_after(|asked| Duration::from_millis(300 * u64::from(asked.client % 2)));
    for warmup_ms in [0, 100] {
        let warmup = Warmup::Time(Duration::from_millis(warmup_ms));
        let short = slices(2, AT_LEAST, 1);
        let settings = DriveSettings { warmup, slices: Some(short), ..in_slices(1, 2) };
        let driven = drive(&settings, &server).unwrap();
        assert!(!driven.partial);
        let slices = driven.slices.unwrap();
        assert_eq!(slices.len(), 4);
        assert_whole_groups(&slices, 2, &short);
        for slice in slices.iter().filter(|slice| slice.side == 1) {
            assert_eq!(slice.transactions, 1);
        }
        let until_s = slices[3].until_ns as f64 / 1e9 - driven.connect_s - driven.warmup_s;
        assert!(driven.duration_s >= 0.6 && driven.duration_s <= until_s, "{}", driven.duration_s);
    }
}

#[test]
fn slow_transactions_of_several_clients_end_a_slice_before_it_has_all() {
    let server =
        Server::answering_after(|asked| Duration::from_millis(30 * u64::from(asked.client % 2)));
    let at_most = Duration::from_millis(20);
    let few = SliceSettings { at_most, ..slices(2, AT_LEAST, 40) };
    let driven = drive(&DriveSettings { slices: Some(few), ..in_slices(2, 2) }, &server).unwrap();
    let slices = driven.slices.unwrap();
    assert!(!slices.is_empty());
    assert_whole_groups(&slices, 2, &few);
    for slice in slices {
        // One transaction of each client; on side 0 there may be time for more.
        assert!(slice.transactions >= 2, "{slice:?}");
        assert!(slice.side == 0 || slice.transactions == 2, "{slice:?}");
    }
}

#[test]
fn the_limit_and_a_request_to_stop_end_a_slice() {
    let limit = Some(Duration::from_millis(600));
    let settings = DriveSettings { limit, ..in_slices(1, 2) };
    let (driven, error) = side_1_fails(&settings, || Answer::Nothing);
    assert_eq!((error.kind(), driven.unanswered), ("time_limit", 1));
    assert!(error.to_string().starts_with("side 1: "), "{error}");
    assert!(0.0 < driven.unanswered_s && driven.unanswered_s < 0.7, "{}", driven.unanswered_s);
    assert!(driven.sides.unwrap().iter().all(|side| side.before == 0));

    let settings = DriveSettings { end: End::Time(Duration::from_secs(20)), ..in_slices(2, 2) };
    let server = Server::answering(OK);
    let failed = stopped(|stop| drive_stoppable(&settings, &server, &|_| (), stop).unwrap_err());
    assert_eq!(failed.error.kind(), "interrupted");
    let driven = failed.driven.unwrap();
    assert!(driven.partial && driven.duration_s < 1.0);
    let slices = driven.slices.unwrap();
    assert!(!slices.is_empty());
    assert_whole_groups(&slices, 2, &settings.slices.unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_drive_in_slices_ends_and_adds_up(
        (clients, sides) in (1u32..6, 2u32..5),
        (at_least_us, transactions) in (1u64..4_000, 1u64..20),
        (warmup_ms, end_ms) in (0u64..20, 0u64..60),
        statements in 1u16..4,
        used_up_after in prop::option::of(0u64..40),
        busy_poll: bool,
        failing in prop_oneof![Just(u64::MAX), 2u64..20],
    ) {
        let at_least = Duration::from_micros(at_least_us);
        let slices = slices(sides, at_least, transactions);
        let settings = DriveSettings {
            warmup: Warmup::Time(Duration::from_millis(warmup_ms)),
            end: End::Time(Duration::from_millis(end_ms)),
            busy_poll,
            slices: Some(slices),
            ..settings(clients, 0)
        };
        let driven = drive_failing(&settings, failing, statements, used_up_after);
        assert_whole_groups(driven.slices.as_ref().unwrap(), sides, &slices);
        let by_side = driven.sides.as_ref().unwrap();
        prop_assert_eq!(by_side.len(), sides as usize);
        let all: u64 = (0..by_side.len()).map(|side| ended(&driven, side)).sum();
        let record = &driven.transactions[0];
        prop_assert_eq!(all, record.count + record.errors.values().sum::<u64>());
    }
}
