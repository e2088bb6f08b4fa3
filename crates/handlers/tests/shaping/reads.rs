//! Reads: passed on at once, paused until they are paid.

use std::time::Duration;

use waterwheel_channel::{ChannelOptions, Msg};
use waterwheel_handlers::TrafficRate;

use crate::support::{BURST, MS, SLOW, Shaped, numbered, shaping};

#[test]
fn k08_reads_pause_when_the_rate_is_used_up_and_resume_by_a_timer() {
    let mut channel = Shaped::new(shaping().channel_read(SLOW));
    for _ in 0..10 {
        channel.write_inbound(numbered(1000));
    }
    assert_eq!((channel.read_len(), channel.unread(), channel.timers()), (BURST, 7, 1));
    // Each turn is 1,500 bytes: 15 ms, woken at 16 ms; two messages overdraw it by 500 bytes.
    channel.pass(14);
    assert_eq!(channel.read_len(), 0);
    channel.pass(2);
    assert_eq!(channel.read_len(), 2000);
    channel.pass(200);
    assert_eq!((channel.read_len(), channel.unread()), (5000, 0));
}

#[test]
fn k08_the_rate_holds_over_time() {
    let mut channel = Shaped::new(shaping().channel_read(SLOW));
    for _ in 0..300 {
        channel.write_inbound_all((0..10).map(|_| Msg::from(numbered(100))));
    }
    channel.pass(1000);
    let read = channel.read_len();
    assert!((98_000..=BURST + 100_000 + 1500).contains(&read), "{read}");
    let stats = channel.traffic.read().stats_at(channel.now());
    assert_eq!(stats.bytes, read as u64);
    assert!((95_000..=105_000).contains(&stats.bytes_per_second), "{stats:?}");
}

#[test]
fn k08_a_read_that_exceeds_the_rate_is_passed_on_and_paid_by_the_pause() {
    let mut channel = Shaped::new(shaping().channel_read(SLOW));
    channel.write_inbound(numbered(23_000));
    channel.write_inbound(numbered(100));
    assert_eq!((channel.read_len(), channel.unread()), (23_000, 1), "nothing is held");
    channel.pass(428);
    assert_eq!(channel.unread(), 1, "20,000 bytes of debt, and 23,000 in advance");
    channel.pass(4);
    assert_eq!(channel.unread(), 0);
}

#[test]
fn k08_reads_pause_for_the_longest_delay_at_most_and_the_debt_is_forgiven() {
    let slow = TrafficRate::per_second(10);
    let mut channel = Shaped::new(shaping().channel_read(slow).longest_delay(100 * MS));
    for _ in 0..3 {
        channel.write_inbound(numbered(10_000));
    }
    for unread in [2, 1, 0] {
        assert_eq!(channel.unread(), unread);
        channel.pass(99);
        assert_eq!(channel.unread(), unread);
        channel.pass(1);
    }
    channel.traffic.read().set_rate(TrafficRate::per_second(1_000_000));
    channel.pass(20);
    channel.write_inbound(numbered(100));
    channel.write_inbound(numbered(100));
    assert_eq!((channel.unread(), channel.read_len()), (0, 30_200), "no debt is left");
}

#[test]
fn k08_a_pause_does_not_fight_with_the_users_own_settings() {
    let manual = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let mut channel = Shaped::with_options(shaping().channel_read(SLOW), manual);
    channel.write_inbound(numbered(BURST));
    channel.write_inbound(numbered(10));
    channel.write_inbound(numbered(10));
    channel.read();
    assert_eq!(channel.unread(), 2);
    channel.pass(1000);
    assert_eq!(channel.unread(), 2, "the end of the pause requests no read");
    channel.read();
    assert_eq!(channel.unread(), 0, "one round");

    let mut channel = Shaped::new(shaping().channel_read(SLOW));
    channel.write_inbound(numbered(BURST));
    channel.write_inbound(numbered(10));
    channel.on_loop(|channel| channel.set_auto_read(false));
    channel.pass(1000);
    assert_eq!(channel.unread(), 1, "auto-read was turned off in the pause");
    channel.on_loop(|channel| channel.set_auto_read(true));
    channel.settle();
    assert_eq!(channel.unread(), 0);
}

#[test]
fn k08_a_new_rate_ends_a_pause_at_once() {
    let mut channel = Shaped::new(shaping().channel_read(TrafficRate::per_second(1)));
    channel.write_inbound(numbered(100));
    channel.write_inbound(numbered(100));
    channel.pass(10);
    assert_eq!(channel.unread(), 1);
    channel.traffic.read().set_rate(None);
    channel.settle();
    assert_eq!((channel.unread(), channel.timers()), (0, 0));
}

#[test]
fn k08_what_was_paid_in_advance_expires() {
    let mut channel = Shaped::new(shaping().channel_read(SLOW));
    channel.write_inbound(numbered(50_000));
    channel.advance(Duration::from_secs(10));
    channel.advance(Duration::from_secs(10));
    for _ in 0..10 {
        channel.write_inbound(numbered(1000));
    }
    assert_eq!((channel.read_len(), channel.unread()), (50_000 + BURST, 7), "a burst, no more");
}

#[test]
fn k08_the_end_of_the_peers_data_comes_after_the_pause() {
    let half = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let mut channel = Shaped::with_options(shaping().channel_read(SLOW), half);
    channel.write_inbound(numbered(BURST));
    channel.write_inbound(numbered(500));
    channel.finish_inbound();
    assert_eq!(channel.unread(), 1);
    channel.pass(40);
    assert_eq!((channel.read_len(), channel.channel().is_open()), (BURST + 500, true));
}
