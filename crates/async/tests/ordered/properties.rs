//! Ordered answers under random requests, completions and room, compared with a list.

use proptest::collection::vec;
use proptest::prelude::*;
use waterwheel_channel::{ChannelOptions, WaterMarks};

use crate::support::{Bench, bench_with};

#[derive(Clone, Copy, Debug)]
enum Op {
    /// The peer sends this many requests, to be decoded from one read; the calls of some are ready at once.
    Send(usize, bool),
    /// The call completes that is this far, in percent, in the list of running ones.
    Finish(usize),
    /// Two calls complete in one turn.
    FinishTwo(usize, usize),
    /// The peer has room for this many more answers.
    Room(usize),
    Unlimited,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..6usize, any::<bool>()).prop_map(|(count, ready)| Op::Send(count, ready)),
        5 => (0..100usize).prop_map(Op::Finish),
        2 => (0..100usize, 0..100usize).prop_map(|(a, b)| Op::FinishTwo(a, b)),
        1 => (0..4usize).prop_map(Op::Room),
        2 => Just(Op::Unlimited),
    ]
}

/// The peer, and what it may rely on.
struct Reference {
    max_concurrent: usize,
    sent: u32,
    /// The calls that run.
    running: Vec<u32>,
    /// The number of the last request whose call began.
    begun: u32,
    answered: u32,
}

impl Reference {
    /// Checks what has happened since the last operation.
    fn observe(&mut self, bench: &mut Bench, ready: impl Fn(u32) -> bool) {
        for number in bench.calls.begun() {
            assert_eq!(number, self.begun + 1, "calls begin in order");
            self.begun = number;
            if !ready(number) {
                self.running.push(number);
            }
        }
        for answer in bench.answers() {
            self.answered += 1;
            assert_eq!(answer, format!("a{}", self.answered), "answers come in order");
        }
        assert!(self.running.len() <= self.max_concurrent);
        let missing = self.running.first().map_or(self.begun, |first| first - 1);
        assert!(self.answered <= missing, "an answer before its call was done");
        let under_way = (self.begun - missing) as usize;
        assert!(under_way <= self.max_concurrent, "{under_way} requests under way");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn c19_ordered_answers_follow_the_requests_whatever_the_order_of_completion(
        max_concurrent in 1..5usize,
        ops in vec(op(), 0..80),
    ) {
        let options = ChannelOptions {
            water_marks: WaterMarks::new(4, 12).unwrap(),
            ..ChannelOptions::default()
        };
        let mut bench = bench_with(options, |builder| builder.max_concurrent(max_concurrent));
        let mut reference =
            Reference { max_concurrent, sent: 0, running: Vec::new(), begun: 0, answered: 0 };
        let mut ready = Vec::new();
        for op in ops {
            match op {
                Op::Send(count, is_ready) => {
                    let first = reference.sent + 1;
                    reference.sent += count as u32;
                    for number in first..=reference.sent {
                        ready.push(is_ready);
                        if is_ready {
                            bench.calls.finish(number);
                        }
                    }
                    bench.send(first..=reference.sent);
                }
                Op::Finish(at) if !reference.running.is_empty() => {
                    let at = at * reference.running.len() / 100;
                    bench.finish(reference.running.remove(at));
                }
                Op::FinishTwo(a, b) if reference.running.len() > 1 => {
                    let first = reference.running.remove(a * reference.running.len() / 100);
                    let second = reference.running.remove(b * reference.running.len() / 100);
                    bench.finish_together([first, second]);
                }
                Op::Room(room) => bench.set_room(room),
                Op::Unlimited => bench.clear_faults(),
                Op::Finish(_) | Op::FinishTwo(..) => {}
            }
            reference.observe(&mut bench, |number| ready[number as usize - 1]);
        }
        // In the end everything is answered.
        bench.clear_faults();
        reference.observe(&mut bench, |number| ready[number as usize - 1]);
        while let Some(number) = reference.running.pop() {
            bench.finish(number);
            reference.observe(&mut bench, |number| ready[number as usize - 1]);
        }
        prop_assert_eq!(reference.answered, reference.sent);
        prop_assert_eq!(bench.unread(), 0);
        prop_assert!(bench.reports().is_empty());
    }
}
