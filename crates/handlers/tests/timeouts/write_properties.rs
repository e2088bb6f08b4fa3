//! `WriteTimeout` under random writes and progress, compared with a list that is searched every millisecond.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use waterwheel_channel::ChannelFuture;
use waterwheel_handlers::WriteTimeout;

use crate::support::{MS, stream_with, timeout_of};

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Advances the clock by this many milliseconds.
    Pass(u64),
    /// Writes and flushes this many bytes.
    Write(usize),
    /// The peer reads this many bytes.
    PeerReads(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (1..6u64).prop_map(Op::Pass),
        3 => (1..5usize).prop_map(Op::Write),
        2 => (1..9usize).prop_map(Op::PeerReads),
    ]
}

/// A write in progress: its deadline, the position of its last byte in the stream, and its result.
struct SlowWrite {
    deadline: u64,
    end: usize,
    result: ChannelFuture,
}

proptest! {
    #[test]
    fn k07_each_write_has_the_limit_for_itself(limit in 1..12u64, ops in vec(op(), 0..80)) {
        let mut channel = stream_with(WriteTimeout::new(MS * limit as u32).unwrap());
        channel.set_room(0);
        let (mut now, mut written, mut sent, mut room) = (0, 0, 0, 0);
        let mut pending: Vec<SlowWrite> = Vec::new();
        for op in ops {
            match op {
                Op::Write(size) => {
                    written += size;
                    let result = channel.write_outbound(Bytes::from(vec![b'x'; size]));
                    pending.push(SlowWrite { deadline: now + limit, end: written, result });
                }
                Op::PeerReads(size) => {
                    room += size;
                    channel.set_room(room);
                }
                Op::Pass(time) => {
                    for _ in 0..time {
                        now += 1;
                        channel.advance(MS);
                        let late: Vec<_> = pending.iter().filter(|it| it.deadline <= now).collect();
                        prop_assert_eq!(channel.channel().is_open(), late.is_empty());
                        if late.is_empty() {
                            continue;
                        }
                        for write in pending {
                            let error = write.result.join().unwrap_err();
                            prop_assert!(timeout_of(&error).is_some());
                            prop_assert_eq!(error.is_closed(), write.deadline > now);
                        }
                        return Ok(());
                    }
                }
            }
            let taken = room.min(written - sent);
            (sent, room) = (sent + taken, room - taken);
            pending.retain(|write| {
                let done = write.end <= sent;
                assert_eq!(write.result.is_done(), done);
                !done
            });
        }
    }
}
