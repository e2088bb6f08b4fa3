//! Random traffic, compared with a model that checks every millisecond.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use waterwheel_handlers::IdleKind;

use crate::support::{MS, RecordedEvent, bench, idle};

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Advances the clock by this many milliseconds.
    Pass(u64),
    Read,
    Write,
    /// The transport accepts no more bytes.
    Block,
    /// The transport accepts everything, pending writes first.
    Unblock,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..8u64).prop_map(Op::Pass),
        2 => Just(Op::Read),
        2 => Just(Op::Write),
        1 => Just(Op::Block),
        1 => Just(Op::Unblock),
    ]
}

/// The model of one kind of idleness.
struct Model {
    kind: IdleKind,
    limit: u64,
    /// The time of the last activity, and whether an event has reported it.
    last: u64,
    told: bool,
    last_event: u64,
}

impl Model {
    fn happens(&mut self, now: u64, kind: IdleKind) {
        if self.kind == kind || self.kind == IdleKind::All {
            (self.last, self.told) = (now, false);
        }
    }

    fn look(&mut self, now: u64) -> Option<RecordedEvent> {
        if now < self.last.max(self.last_event) + self.limit {
            return None;
        }
        self.last_event = now;
        let first = !std::mem::replace(&mut self.told, true);
        Some((now.into(), self.kind, first))
    }
}

proptest! {
    #[test]
    fn c14_events_fire_exactly_after_the_limit_without_activity(
        limits in [1..12u64, 1..12, 1..12],
        ops in vec(op(), 0..60),
    ) {
        let [reader, writer, all] = limits.map(Duration::from_millis);
        let mut bench = bench(idle().reader(reader).writer(writer).all(all));
        let kinds = [IdleKind::Reader, IdleKind::Writer, IdleKind::All];
        let mut models: Vec<_> = kinds.into_iter().zip(limits).map(|(kind, limit)| {
            Model { kind, limit, last: 0, told: false, last_event: 0 }
        }).collect();
        let (mut now, mut blocked, mut waiting) = (0, false, false);
        for op in ops {
            let mut happens = |kind| models.iter_mut().for_each(|it| it.happens(now, kind));
            match op {
                Op::Pass(time) => {
                    for _ in 0..time {
                        now += 1;
                        bench.advance(MS);
                        let mut found = bench.events();
                        found.sort_by_key(|(_, kind, _)| *kind as u32);
                        let expected: Vec<_> =
                            models.iter_mut().filter_map(|it| it.look(now)).collect();
                        prop_assert_eq!(found, expected);
                    }
                }
                Op::Read => {
                    bench.read();
                    happens(IdleKind::Reader);
                }
                Op::Write => {
                    bench.write();
                    waiting = blocked;
                    if !blocked {
                        happens(IdleKind::Writer);
                    }
                }
                Op::Block => {
                    bench.set_room(0);
                    blocked = true;
                }
                Op::Unblock => {
                    bench.clear_faults();
                    if std::mem::take(&mut waiting) {
                        happens(IdleKind::Writer);
                    }
                    blocked = false;
                }
            }
        }
    }
}
