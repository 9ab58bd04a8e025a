//! With any settings, a drive ends and its counts add up.

use std::time::Duration;

use engine::{Arrivals, DriveSettings, End, Pacing, PacingResult, Punctuality, Warmup};
use proptest::prelude::*;

use super::{drive_failing, settings};

fn pacings() -> impl Strategy<Value = Pacing> {
    let arrivals = prop_oneof![Just(Arrivals::Poisson), Just(Arrivals::Constant)];
    let limits = prop::option::of((0u64..10).prop_map(Duration::from_millis));
    let open = (100.0..20_000.0, arrivals, limits)
        .prop_map(|(rate, arrivals, max_lateness)| Pacing::Open { rate, arrivals, max_lateness });
    prop_oneof![Just(Pacing::Closed), open]
}

fn ends() -> impl Strategy<Value = End> {
    prop_oneof![
        (0u64..60).prop_map(|ms| End::Time(Duration::from_millis(ms))),
        (0u64..300).prop_map(End::Operations),
        (0u64..60, 0u64..300).prop_map(|(ms, all)| End::Either(Duration::from_millis(ms), all)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_drive_ends_and_adds_up(
        (clients, threads) in (1u32..8, 0u32..4),
        pacing in pacings(),
        end in ends(),
        warmup_ms in prop_oneof![Just(0u64), 1u64..30],
        statements in 1u16..4,
        used_up_after in prop::option::of(0u64..40),
        busy_poll: bool,
        failing in prop_oneof![Just(u64::MAX), 2u64..20],
    ) {
        let settings = DriveSettings {
            pacing,
            end,
            warmup: Warmup::Time(Duration::from_millis(warmup_ms)),
            busy_poll,
            ..settings(clients, threads)
        };
        let driven = drive_failing(&settings, failing, statements, used_up_after);
        let transaction = &driven.transactions[0];
        let begun = transaction.count + transaction.errors.values().sum::<u64>();
        if let PacingResult::Open { punctuality: Punctuality { scheduled, skipped, .. }, .. } = driven.pacing {
            prop_assert_eq!(begun + skipped, scheduled);
        }
        if let (End::Operations(all), false, Pacing::Closed) = (end, driven.partial, pacing) {
            prop_assert_eq!(begun, all);
        }
        prop_assert_eq!(transaction.count, transaction.service.count());
    }
}
