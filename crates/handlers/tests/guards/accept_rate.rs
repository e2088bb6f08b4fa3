//! The limit of new connections per time and address.

use std::time::Duration;

use waterwheel_handlers::{AcceptRate, AcceptRateBuilder, InvalidGuard, PrefixLengths};

use crate::support::{check, connection_at, ip, is_admitted, nth, without_ip};

const SECOND: Duration = Duration::from_secs(1);

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn rate(builder: AcceptRateBuilder) -> AcceptRate {
    builder.build().unwrap()
}

#[test]
fn k10_an_address_may_open_a_burst_and_then_connections_at_the_rate() {
    let rate = rate(AcceptRate::builder(4, SECOND).burst(3));
    let admitted = |at: u64| is_admitted(&rate, &connection_at(nth(1), millis(at)));
    for _ in 0..3 {
        assert!(admitted(1000));
    }
    for _ in 0..100 {
        assert!(!admitted(1000) && !admitted(1249), "refused connections take no token");
    }
    assert!(admitted(1250) && !admitted(1250));
    assert!(admitted(1750) && admitted(1750) && !admitted(1750), "two in half a second");
    let other = connection_at(nth(2), millis(1750));
    assert!(is_admitted(&rate, &other), "another address");
    let later = (0..10).filter(|_| admitted(60_000)).count();
    assert_eq!(later, 3, "never more than the burst at once");
    let reason = check(&rate, &connection_at(nth(1), millis(60_000))).unwrap_err();
    assert_eq!(reason, AcceptRate::TOO_FAST);
}

#[test]
fn k10_the_default_burst_is_one_period_and_the_rate_is_never_exceeded() {
    let rate = rate(AcceptRate::builder(3, SECOND));
    let mut at = Duration::ZERO;
    let mut admitted = 0;
    while at <= 10 * SECOND {
        admitted += usize::from(is_admitted(&rate, &connection_at(nth(1), at)));
        at += Duration::from_micros(500);
    }
    assert_eq!(admitted, 3 + 29, "an interval of a third of a second is rounded up");
}

#[test]
fn k10_new_connections_of_a_network_are_counted_together() {
    let one = || AcceptRate::builder(1, SECOND);
    let default = rate(one());
    let admits =
        |rate: &AcceptRate, address: &str| is_admitted(rate, &connection_at(ip(address), SECOND));
    assert!(admits(&default, "2001:db8::1") && !admits(&default, "2001:db8::2"), "a /64");
    assert!(admits(&default, "2001:db8:0:1::1") && admits(&default, "192.0.2.1"));
    assert!(!admits(&default, "::ffff:192.0.2.1"), "mapped");
    let wide = rate(one().prefixes(PrefixLengths::new(24, 32).unwrap()));
    assert!(admits(&wide, "192.0.2.1") && !admits(&wide, "192.0.2.2"));
    assert!(admits(&wide, "2001:db8:1::1") && !admits(&wide, "2001:db8:2::1"));
}

#[test]
fn k10_a_quiet_address_is_forgotten_without_a_timer() {
    let rate = rate(AcceptRate::builder(1, SECOND).burst(2));
    for n in 0..100 {
        assert!(is_admitted(&rate, &connection_at(nth(n), SECOND)));
    }
    assert_eq!(rate.tracked_addresses(), 100);
    for n in 0..100 {
        let again = connection_at(nth(1_000), 2 * SECOND + n * SECOND);
        assert!(is_admitted(&rate, &again));
    }
    assert_eq!(rate.tracked_addresses(), 1, "two are removed with each call");
    assert_eq!(format!("{rate:?}"), "AcceptRate(1 addresses)");
}

/// An address that has used up its burst, a good client once in two seconds, and 40,000 others of one connection each,
/// with a table of 1,000.
#[test]
fn k10_an_address_flood_neither_resets_a_bucket_nor_keeps_others_out() {
    const TRACKED: usize = 1_000;
    let rate = rate(AcceptRate::builder(1, SECOND).burst(10).max_addresses(TRACKED));
    let (attacker, good) = (nth(1), nth(2));
    let mut attacks = 0;
    for n in 0..40_000 {
        let at = SECOND + Duration::from_micros(250) * n; // Ten seconds in all.
        assert!(is_admitted(&rate, &connection_at(nth(100 + n), at)), "each is within its rate");
        attacks += usize::from(is_admitted(&rate, &connection_at(attacker, at)));
        if n % 8_000 == 0 {
            assert!(is_admitted(&rate, &connection_at(good, at)));
        }
        assert!(rate.tracked_addresses() <= TRACKED);
    }
    assert_eq!(attacks, 10 + 9, "the burst, and one a second");
}

/// With a burst of one all missing tokens are equal, so the oldest goes first: an attacker needs as many other addresses
/// as the table holds, within the interval, for one more connection.
#[test]
fn k10_resetting_a_bucket_of_one_token_takes_as_many_addresses_as_the_table_holds() {
    const TRACKED: usize = 1_000;
    let rate = rate(AcceptRate::builder(1, SECOND).max_addresses(TRACKED));
    let admitted = |n: u32, nanos: u64| {
        is_admitted(&rate, &connection_at(nth(n), SECOND + Duration::from_nanos(nanos)))
    };
    assert!(admitted(1, 0));
    for n in 0..TRACKED as u32 - 1 {
        assert!(admitted(100 + n, 1 + u64::from(n)));
        assert!(!admitted(1, 1 + u64::from(n)));
    }
    assert!(admitted(99_999, 5_000) && admitted(1, 5_001), "now it was evicted");
    assert_eq!(rate.tracked_addresses(), TRACKED);
}

/// The price of a bounded table that keeps no stranger out.
#[test]
fn k10_beside_a_table_of_addresses_that_miss_two_tokens_others_are_not_limited() {
    const TRACKED: u32 = 100;
    let rate = rate(AcceptRate::builder(1, SECOND).burst(10).max_addresses(TRACKED as usize));
    let admitted = |n: u32, at: Duration| is_admitted(&rate, &connection_at(nth(n), SECOND + at));
    let count_turns =
        |first: u32, at: Duration| (0..1000).filter(|turn| admitted(first + turn % 2, at)).count();
    for n in 0..TRACKED {
        assert!(admitted(n, Duration::ZERO));
    }
    assert_eq!(count_turns(1000, Duration::ZERO), 20, "two bursts: both are tracked");
    for n in 0..TRACKED {
        let _ = admitted(n, Duration::ZERO) && admitted(n, Duration::ZERO);
    }
    assert_eq!(count_turns(2000, Duration::ZERO), 1000);
    assert_eq!(count_turns(3000, 2 * SECOND), 20, "until two of the table miss as few tokens");
}

#[test]
fn k10_a_peer_without_an_ip_address_has_no_rate() {
    let rate = rate(AcceptRate::builder(1, SECOND));
    for connection in [without_ip(), without_ip()].concat() {
        assert!(check(&rate, &connection).unwrap().is_none());
    }
    assert_eq!(rate.tracked_addresses(), 0);
}

#[test]
fn k10_a_loop_that_read_the_clock_earlier_than_another_gets_the_same_tokens() {
    let rate = rate(AcceptRate::builder(1, SECOND).burst(2));
    let admitted = |at: u64| is_admitted(&rate, &connection_at(nth(1), millis(at)));
    assert!(admitted(10_000) && admitted(9_999), "the second token");
    assert!(!admitted(9_998) && !admitted(10_999) && admitted(11_000) && !admitted(10_999));
}

#[test]
fn k10_a_rate_that_makes_no_sense_is_an_error_with_its_values() {
    let error = |builder: AcceptRateBuilder| builder.build().unwrap_err();
    let nothing = error(AcceptRate::builder(0, SECOND));
    assert_eq!(
        nothing.to_string(),
        "0 connections per 1s with a burst of 0 admits none: each must be above 0"
    );
    let nothing = error(AcceptRate::builder(5, SECOND).burst(0));
    let (connections, period, burst) = (5, SECOND, 0);
    assert_eq!(nothing, InvalidGuard::NothingAdmitted { connections, period, burst });
    assert_eq!(
        error(AcceptRate::builder(1_001, Duration::from_micros(1))).to_string(),
        "1001 connections per 1µs is beyond the resolution of one per nanosecond"
    );
    assert!(AcceptRate::builder(1_000, Duration::from_micros(1)).build().is_ok());
    let zero = error(AcceptRate::builder(1, Duration::ZERO));
    assert!(matches!(zero, InvalidGuard::RateTooHigh { .. }));
    let low = error(AcceptRate::builder(1, Duration::MAX));
    assert!(matches!(low, InvalidGuard::RateTooLow { .. }));
    let low = error(AcceptRate::builder(1, Duration::from_secs(1 << 33)).burst(u32::MAX));
    assert!(low.to_string().contains("refills in more than 500 years"), "{low}");
    let none = error(AcceptRate::builder(1, SECOND).max_addresses(0));
    assert_eq!(none, InvalidGuard::NoAddresses);
}
