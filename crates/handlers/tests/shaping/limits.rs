//! Builders, rates that change, rates of zero and huge ones.

use std::thread;
use std::time::Duration;

use waterwheel_handlers::{ChannelTraffic, InvalidShaping, TrafficLimiter, TrafficRate};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{BURST, MS, SLOW, Shaped, numbered, shaping};

#[test]
fn k08_the_builder_names_what_is_wrong() {
    let zero = shaping().longest_delay(Duration::ZERO).build().unwrap_err();
    assert_eq!(zero, InvalidShaping::ZeroDelay);
    assert!(zero.to_string().contains("no_longest_delay"));
    let group = TrafficLimiter::new(SLOW);
    let twice = shaping().write_group(&group).write_group(&group.clone()).build().unwrap_err();
    assert_eq!(twice, InvalidShaping::RepeatedGroup { direction: "write" });
    assert!(twice.to_string().contains("write_group"), "{twice}");
    assert!(shaping().write_group(&group).read_group(&group).build().is_ok());
}

#[test]
fn k08_a_new_rate_takes_effect_at_once_for_messages_that_wait() {
    let mut channel = Shaped::new(shaping().channel_write(TrafficRate::per_second(100)));
    drop(channel.write_outbound(numbered(40_200)));
    assert_eq!(channel.sent_len(), 200);
    channel.pass(100);
    assert_eq!(channel.sent_len(), 0, "a turn takes a second");
    let limiter = channel.write_limiter().clone();
    thread::spawn(move || limiter.set_rate(SLOW)).join().unwrap();
    channel.settle();
    channel.pass(200);
    let sent = channel.sent_len();
    assert!((18_000..=21_000).contains(&sent), "{sent}");
    channel.write_limiter().set_rate(TrafficRate::per_second(10));
    channel.settle();
    channel.pass(200);
    assert!(channel.sent_len() <= 2);
    channel.write_limiter().set_rate(None);
    channel.settle();
    let left = channel.sent_len();
    assert_eq!((channel.write_limiter().stats().held, channel.timers()), (0, 0), "{left} at once");
}

#[test]
fn k08_a_rate_changed_by_a_handler_of_the_same_channel_reaches_waiting_messages() {
    let mut channel = Shaped::new(shaping().channel_write(TrafficRate::per_second(0)));
    drop(channel.write_outbound(numbered(5000)));
    channel.pass(50);
    assert_eq!((channel.sent_len(), channel.timers()), (2, 1), "the burst of a rate of zero");
    let limiter = channel.write_limiter().clone();
    channel.on_loop(|_| limiter.set_rate(None));
    channel.settle();
    assert_eq!((channel.sent_len(), channel.timers()), (4998, 0));
}

#[test]
fn k08_a_rate_of_zero_without_a_longest_delay_holds_for_ever() {
    let zero = TrafficRate::per_second(0);
    let mut channel = Shaped::new(shaping().channel_write(zero).no_longest_delay());
    drop(channel.write_outbound(numbered(100)));
    channel.advance(Duration::from_secs(1_000_000));
    assert_eq!((channel.sent_len(), channel.timers()), (2, 0), "and no timer");
    channel.write_limiter().set_rate(SLOW);
    channel.settle();
    channel.pass(4);
    assert_eq!(channel.sent_len(), 98);
}

#[test]
fn k08_huge_rates_and_messages_pass() {
    let huge = TrafficRate::per_second(u64::MAX).with_burst(u64::MAX);
    let mut channel = Shaped::new(shaping().channel_write(huge).channel_read(huge));
    channel.write_outbound(numbered(1 << 20)).join().unwrap();
    channel.write_inbound(numbered(1 << 16));
    assert_eq!((channel.sent_len(), channel.read_len()), (1 << 20, 1 << 16));
}

#[test]
fn k08_rates_of_all_channels_change_together() {
    let shaping = shaping().channel_write(SLOW).channel_read(SLOW).build().unwrap();
    let mut channels: Vec<_> =
        (0..3).map(|_| Shaped::with(Embedded::builder().stream(), &shaping)).collect();
    for channel in &mut channels {
        drop(channel.write_outbound(numbered(50_000)));
        assert_eq!(channel.sent_len(), BURST);
    }
    let fast = TrafficRate::per_second(10_000_000);
    shaping.set_channel_write_rate(fast);
    shaping.set_channel_read_rate(None);
    for channel in &mut channels {
        channel.settle();
        channel.pass(6);
        assert_eq!(channel.sent_len(), 50_000 - BURST);
        let traffic = ChannelTraffic::of(channel.channel()).unwrap();
        assert_eq!((traffic.write().rate(), traffic.read().rate()), (Some(fast), None));
    }
    let new = Shaped::with(Embedded::builder().stream(), &shaping);
    assert_eq!(new.write_limiter().rate(), Some(fast));
}

#[test]
fn k08_the_rate_of_one_channel_does_not_change_another() {
    let shaping = shaping().channel_write(SLOW).build().unwrap();
    let mut one = Shaped::with(Embedded::builder().stream(), &shaping);
    let mut other = Shaped::with(Embedded::builder().stream(), &shaping);
    ChannelTraffic::of(one.channel()).unwrap().write().set_rate(None);
    drop(one.write_outbound(numbered(10_000)));
    drop(other.write_outbound(numbered(10_000)));
    assert_eq!((one.sent_len(), other.sent_len()), (10_000, BURST));
}

#[test]
fn k08_a_clock_that_jumps_sends_what_waits_and_one_burst() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW).no_longest_delay());
    drop(channel.write_outbound(numbered(100_000)));
    assert_eq!(channel.sent_len(), BURST);
    channel.advance(Duration::from_secs(86_400));
    let sent = channel.sent_len();
    assert!(sent <= BURST + 1500, "{sent}");
    channel.advance(MS * 100);
    assert!(channel.sent_len() <= 10_000 + BURST);
}
