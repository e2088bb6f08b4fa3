//! Random traffic against a model that looks at every millisecond.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use waterwheel_handlers::IdleKind;

use crate::bench::{MS, Told, bench, idle};

#[derive(Clone, Copy, Debug)]
enum Op {
    /// So many milliseconds pass.
    Pass(u64),
    Read,
    Write,
    /// The network takes nothing from now on.
    Block,
    /// It takes everything, what has waited first.
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

/// One kind, and what its next event depends on.
struct Model {
    kind: IdleKind,
    limit: u64,
    /// When the last thing happened, and whether an event has told of it.
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

    fn look(&mut self, now: u64) -> Option<Told> {
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
    fn c14_events_come_exactly_when_nothing_has_happened_for_the_limit(
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
                        let mut found = bench.told();
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
