//! `FlowControl` under random reads, batches and switches of auto-read, compared with two lists.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;
use waterwheel_channel::ChannelOptions;

use crate::support::{Bench, bench_with};

#[derive(Clone, Copy, Debug)]
enum Op {
    /// The peer sends this many messages, to be decoded from one read.
    Send(usize),
    Read,
    AutoRead(bool),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..5usize).prop_map(Op::Send),
        4 => Just(Op::Read),
        1 => any::<bool>().prop_map(Op::AutoRead),
    ]
}

/// Batches on the wire, messages that were read and wait, and whether a read is unanswered.
#[derive(Default)]
struct Model {
    wire: VecDeque<Vec<u32>>,
    waiting: VecDeque<u32>,
    is_wanted: bool,
    is_auto: bool,
    seen: Vec<u32>,
}

impl Model {
    /// Does what can be done, one step after the other.
    fn settle(&mut self) {
        loop {
            if self.is_auto || self.is_wanted {
                if let Some(next) = self.waiting.pop_front() {
                    self.seen.push(next);
                    self.is_wanted = false;
                    continue;
                }
                if let Some(batch) = self.wire.pop_front() {
                    self.waiting.extend(batch);
                    continue;
                }
            }
            return;
        }
    }
}

/// Takes the messages that the application got since the last time.
fn numbers(bench: &Bench) -> Vec<u32> {
    let seen = bench.app.seen.take();
    seen.iter().filter(|line| *line != "/").map(|line| line.parse().unwrap()).collect()
}

proptest! {
    #[test]
    fn k11_messages_keep_their_order_and_come_one_per_read(ops in vec(op(), 0..80)) {
        let options = ChannelOptions { auto_read: false, reads_per_round: 1, ..Default::default() };
        let mut bench = bench_with(options);
        let (mut model, mut sent, mut seen) = (Model::default(), 0, Vec::<u32>::new());
        for op in ops {
            match op {
                Op::Send(count) => {
                    let batch: Vec<_> = (0..count as u32).map(|at| sent + at + 1).collect();
                    sent += count as u32;
                    bench.send(batch.iter().copied());
                    model.wire.push_back(batch);
                }
                Op::Read => {
                    bench.read();
                    model.is_wanted = !model.is_auto;
                }
                Op::AutoRead(on) => {
                    bench.set_auto_read(on);
                    if on {
                        model.is_wanted = false;
                    }
                    model.is_auto = on;
                }
            }
            model.settle();
            seen.extend(numbers(&bench));
            prop_assert_eq!(&seen, &model.seen);
            prop_assert_eq!(bench.unread(), model.wire.len());
        }
        bench.with_pipeline(|pipeline| pipeline.remove("flow").unwrap());
        prop_assert_eq!(numbers(&bench), Vec::from(model.waiting));
    }
}
