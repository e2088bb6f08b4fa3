//! Random writes, flushes, times and rates against what has to hold for any of them.

use proptest::prelude::*;
use waterwheel_handlers::{TrafficLimiter, TrafficRate};

use crate::support::{Shaped, shaping};

#[derive(Clone, Debug)]
enum Action {
    Write(usize),
    Flush,
    Pass(u32),
    SetRate(Option<u64>),
    SetGroupRate(Option<u64>),
}

fn action() -> impl Strategy<Value = Action> {
    let rate = || prop::option::of(prop_oneof![Just(0), 1u64..2_000, 1_000u64..500_000]);
    prop_oneof![
        4 => (0usize..6_000).prop_map(Action::Write),
        3 => Just(Action::Flush),
        4 => (1u32..40).prop_map(Action::Pass),
        1 => rate().prop_map(Action::SetRate),
        1 => rate().prop_map(Action::SetGroupRate),
    ]
}

fn byte_at(offset: usize) -> u8 {
    (offset * 7 / 3) as u8
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..Default::default() })]

    #[test]
    fn k08_bytes_keep_their_order_and_every_flushed_one_is_sent(
        actions in prop::collection::vec(action(), 1..60), is_removed in any::<bool>(),
    ) {
        let group = TrafficLimiter::new(TrafficRate::per_second(150_000));
        let own = TrafficRate::per_second(100_000);
        let mut channel = Shaped::new(shaping().channel_write(own).write_group(&group));
        let (mut written, mut flushed, mut sent) = (0, 0, 0);
        let mut futures = Vec::new();
        for action in actions {
            match action {
                Action::Write(len) => {
                    let data: Vec<u8> = (written..written + len).map(byte_at).collect();
                    futures.push(channel.write(bytes::Bytes::from(data)));
                    written += len;
                }
                Action::Flush => {
                    channel.flush();
                    flushed = written;
                }
                Action::Pass(millis) => channel.pass(millis),
                Action::SetRate(rate) => {
                    channel.write_limiter().set_rate(rate.map(TrafficRate::per_second));
                    channel.settle();
                }
                Action::SetGroupRate(rate) => {
                    group.set_rate(rate.map(TrafficRate::per_second));
                    channel.settle();
                }
            }
            for byte in channel.sent() {
                prop_assert_eq!(byte, byte_at(sent));
                sent += 1;
            }
            prop_assert!(sent <= flushed, "{} sent, {} flushed", sent, flushed);
            prop_assert!(channel.timers() <= 1);
        }
        if is_removed {
            channel.with_pipeline(|pipeline| pipeline.remove("shaping")).unwrap().unwrap();
            sent += channel.sent_len();
            prop_assert_eq!(sent, flushed, "a removed handler passes on what was flushed");
        }
        channel.flush();
        let closed = channel.on_loop(|channel| channel.close());
        channel.advance(std::time::Duration::from_secs(15));
        prop_assert!(closed.is_done(), "after the longest delay at most");
        for byte in channel.sent() {
            prop_assert!(is_removed || byte == byte_at(sent));
            sent += 1;
        }
        prop_assert_eq!(sent, written);
        for future in futures {
            prop_assert!(future.join().is_ok());
        }
        prop_assert_eq!((group.stats().held, channel.write_limiter().stats().held), (0, 0));
    }

    #[test]
    fn k08_no_more_is_sent_than_the_burst_and_the_rate_over_time(
        rate in 100u64..1_000_000,
        burst in 0u64..50_000,
        steps in prop::collection::vec((1usize..20_000, 0u32..60), 1..40),
    ) {
        let rate = TrafficRate::per_second(rate).with_burst(burst);
        let mut channel = Shaped::new(shaping().channel_write(rate).no_longest_delay());
        let (mut sent, mut millis) = (0, 0);
        for (len, pause) in steps {
            drop(channel.write_outbound(bytes::Bytes::from(vec![0; len])));
            channel.pass(pause);
            millis += u64::from(pause);
            sent += channel.sent_len() as u64;
            let granted = rate.burst() + rate.bytes_per_second() * millis / 1000;
            prop_assert!(sent <= granted, "{} of {} after {} ms", sent, granted, millis);
        }
    }
}
