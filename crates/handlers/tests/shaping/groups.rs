//! Limits of groups: sums, turns, both limits together.

use waterwheel_handlers::{TrafficLimiter, TrafficRate};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{BURST, MS, SLOW, Shaped, numbered, shaping};

/// Moves the clocks of all channels by a millisecond at a time.
fn pass_all(channels: &mut [&mut Shaped], millis: u32) {
    for _ in 0..millis {
        channels.iter_mut().for_each(|channel| channel.advance(MS));
    }
}

#[test]
fn k08_channels_of_a_group_share_its_rate_in_turns() {
    let group = TrafficLimiter::new(SLOW);
    let mut a = Shaped::new(shaping().write_group(&group));
    let mut b = Shaped::new(shaping().write_group(&group));
    drop(a.write_outbound(numbered(100_000)));
    drop(b.write_outbound(numbered(100_000)));
    pass_all(&mut [&mut a, &mut b], 300);
    let (a, b) = (a.sent_len(), b.sent_len());
    assert!((31_000..=BURST + 30_000).contains(&(a + b)), "{a} + {b}");
    assert!(a.abs_diff(b) <= BURST + 1500, "{a} and {b}");
    assert_eq!(group.stats().held, 200_000 - (a + b) as u64);
}

#[test]
fn k08_a_greedy_channel_does_not_starve_others() {
    let group = TrafficLimiter::new(SLOW);
    let mut greedy = Shaped::new(shaping().write_group(&group).no_longest_delay());
    let mut modest = Shaped::new(shaping().write_group(&group).no_longest_delay());
    for _ in 0..1000 {
        drop(greedy.write_outbound(numbered(10_000)));
    }
    for _ in 0..20 {
        let small = modest.write_outbound(numbered(100));
        // One turn of the greedy channel, 15 ms, and the next wake-up.
        pass_all(&mut [&mut greedy, &mut modest], 18);
        assert!(small.is_done(), "after one turn of the other");
    }
    assert!(greedy.sent_len() > 20_000, "and it goes on");
}

#[test]
fn k08_a_write_has_to_pass_the_channels_and_the_groups_limit() {
    let group = TrafficLimiter::new(TrafficRate::per_second(150_000));
    let mut slow = Shaped::new(shaping().channel_write(SLOW).write_group(&group));
    drop(slow.write_outbound(numbered(200_000)));
    slow.pass(500);
    let alone = slow.sent_len();
    assert!((51_000..=BURST + 50_000).contains(&alone), "the channel's limit: {alone}");
    let mut other = Shaped::new(shaping().channel_write(SLOW).write_group(&group));
    other.advance(MS * 500);
    drop(other.write_outbound(numbered(200_000)));
    pass_all(&mut [&mut slow, &mut other], 500);
    let (slow, other) = (slow.sent_len(), other.sent_len());
    assert!((70_000..=79_000).contains(&(slow + other)), "the group's limit: {slow} + {other}");
    assert!(slow.max(other) <= BURST + 50_000, "{slow}, {other}");
}

#[test]
fn k08_a_channel_may_be_in_several_groups() {
    let tenant = TrafficLimiter::new(SLOW);
    let server = TrafficLimiter::new(TrafficRate::per_second(1_000_000));
    let mut channel = Shaped::new(shaping().write_group(&tenant).write_group(&server));
    drop(channel.write_outbound(numbered(50_000)));
    channel.pass(200);
    let sent = channel.sent_len();
    assert!((21_000..=BURST + 20_000).contains(&sent), "{sent}");
    assert_eq!((tenant.stats().bytes, server.stats().bytes), (sent as u64, sent as u64));
}

#[test]
fn k08_one_limiter_for_both_directions_limits_their_sum() {
    let line = TrafficLimiter::new(SLOW);
    let mut channel = Shaped::new(shaping().write_group(&line).read_group(&line));
    drop(channel.write_outbound(numbered(100_000)));
    for _ in 0..100 {
        channel.write_inbound(numbered(1000));
    }
    channel.pass(500);
    let (sent, read) = (channel.sent_len(), channel.read_len());
    assert!((50_000..=BURST + 53_000).contains(&(sent + read)), "{sent} + {read}");
    assert!(sent > 10_000 && read > 10_000, "{sent}, {read}");
}

#[test]
fn k08_a_new_rate_of_the_group_reaches_all_waiting_channels() {
    let group = TrafficLimiter::new(TrafficRate::per_second(10));
    let mut channels: Vec<_> =
        (0..5).map(|_| Shaped::new(shaping().write_group(&group).read_group(&group))).collect();
    for channel in &mut channels {
        drop(channel.write_outbound(numbered(10_000)));
        channel.pass(10);
    }
    group.set_rate(None);
    for channel in &mut channels {
        channel.settle();
        assert_eq!(channel.timers(), 0);
    }
    assert_eq!(channels.iter_mut().map(Shaped::sent_len).sum::<usize>(), 50_000);
    assert_eq!((group.stats().bytes, group.stats().held), (50_000, 0));
}

#[test]
fn k08_readers_of_a_group_exceed_its_rate_by_their_first_reads_only() {
    let group = TrafficLimiter::new(TrafficRate::per_second(1_000_000));
    let shaping = shaping().read_group(&group).build().unwrap();
    let mut channels: Vec<_> =
        (0..20).map(|_| Shaped::with(Embedded::builder().stream(), &shaping)).collect();
    for channel in &mut channels {
        for _ in 0..100 {
            channel.write_inbound(numbered(5_000));
        }
    }
    for _ in 0..1000 {
        channels.iter_mut().for_each(|channel| channel.advance(MS));
    }
    let read: Vec<_> = channels.iter_mut().map(Shaped::read_len).collect();
    let sum: usize = read.iter().sum();
    assert!((950_000..=1_050_000).contains(&sum), "{sum}");
    assert!(read.iter().all(|read| *read >= 25_000), "each had its turns: {read:?}");
}

#[test]
fn k08_a_message_that_its_own_limit_held_for_too_long_is_charged_to_the_group() {
    let group = TrafficLimiter::new(SLOW);
    let slow = shaping().channel_write(TrafficRate::per_second(10)).longest_delay(160 * MS);
    let mut held = Shaped::new(slow.write_group(&group));
    let mut other = Shaped::new(shaping().write_group(&group));
    drop(held.write_outbound(numbered(20_020)));
    pass_all(&mut [&mut held, &mut other], 160);
    assert_eq!(held.sent_len(), 20_020);
    assert_eq!((held.write_limiter().stats().overdue, group.stats().overdue), (20_000, 0));
    drop(other.write_outbound(numbered(100)));
    pass_all(&mut [&mut held, &mut other], 170);
    assert_eq!(other.sent_len(), 0, "17,000 bytes of the group's rate were used");
    pass_all(&mut [&mut held, &mut other], 4);
    assert_eq!(other.sent_len(), 100);
}

#[test]
fn k08_a_channel_held_by_its_own_limit_takes_no_turn_of_the_group() {
    let group = TrafficLimiter::new(SLOW);
    let stopped = TrafficRate::per_second(0);
    let mut held = Shaped::new(shaping().channel_write(stopped).write_group(&group));
    let mut free = Shaped::new(shaping().write_group(&group));
    drop(held.write_outbound(numbered(10_000)));
    drop(free.write_outbound(numbered(10_000)));
    pass_all(&mut [&mut held, &mut free], 72);
    assert_eq!(free.sent_len(), 10_000);
}

#[test]
fn k08_a_channel_does_not_wait_for_the_tickets_of_channels_that_died() {
    let group = TrafficLimiter::new(SLOW);
    let mut many: Vec<_> =
        (0..100).map(|_| Shaped::new(shaping().write_group(&group).no_longest_delay())).collect();
    many.iter_mut().for_each(|channel| drop(channel.write_outbound(numbered(100_000))));
    let mut last = many.pop().unwrap();
    for channel in &mut many {
        channel.fail(waterwheel_executor::Error::new("reset"));
    }
    last.pass(252);
    assert!(last.sent_len() > 0, "its turn would have come after 1.5 seconds");
}
