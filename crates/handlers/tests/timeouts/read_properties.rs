//! `ReadTimeout` under random traffic and pauses, compared with a model that looks every millisecond.

use proptest::collection::vec;
use proptest::prelude::*;
use waterwheel_handlers::ReadTimeout;

use crate::support::{MS, receive, stream_with, timeouts};

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Advances the clock by this many milliseconds.
    Pass(u64),
    /// The peer sends something.
    Receive,
    /// Turns auto-read on or off.
    AutoRead(bool),
    /// Leaves the loop, or comes back.
    Registered(bool),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..8u64).prop_map(Op::Pass),
        2 => Just(Op::Receive),
        1 => any::<bool>().prop_map(Op::AutoRead),
        1 => any::<bool>().prop_map(Op::Registered),
    ]
}

proptest! {
    #[test]
    fn k07_the_timeout_comes_exactly_after_the_limit_without_a_message_while_reading(
        limit in 1..12u64,
        ops in vec(op(), 0..60),
    ) {
        let mut channel = stream_with(ReadTimeout::new(MS * limit as u32).unwrap());
        // Milliseconds of silence; messages on the wire that wait for the channel to read.
        let (mut silent, mut unread, mut auto, mut registered) = (0, false, true, true);
        for op in ops {
            match op {
                Op::Pass(time) => {
                    for _ in 0..time {
                        channel.advance(MS);
                        if auto && registered {
                            silent += 1;
                        }
                        let fired = timeouts(&mut channel).len();
                        prop_assert_eq!(fired, usize::from(silent == limit));
                        prop_assert_eq!(channel.channel().is_open(), fired == 0);
                        if fired == 1 {
                            return Ok(());
                        }
                    }
                }
                Op::Receive => {
                    receive(&mut channel);
                    unread = true;
                }
                Op::AutoRead(on) => {
                    channel.on_loop(|channel| channel.set_auto_read(on));
                    auto = on;
                }
                Op::Registered(on) => {
                    channel.on_loop(|channel| {
                        drop(if on { channel.register() } else { channel.deregister() });
                    });
                    registered = on;
                }
            }
            channel.run();
            while channel.read_inbound_any().is_some() {}
            if !(auto && registered && !std::mem::take(&mut unread)) {
                silent = 0;
            }
        }
    }
}
