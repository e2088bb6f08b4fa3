//! Compares the wheel with a sorted map, over all distances.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::wheel::{TimerKey, TimerWheel};
use crate::clock::Nanos;

#[derive(Clone, Debug)]
enum Op {
    /// Schedules a timer this far from the present.
    Schedule(u64),
    /// Schedules a timer with the deadline of an earlier timer.
    ScheduleWith(usize),
    /// Cancels one of the timers scheduled so far, which may be gone.
    Cancel(usize),
    /// Cancels one of the timers scheduled so far as a loop does: recorded first, taken out later.
    CancelLater(usize),
    /// Cancels the earliest timer.
    CancelFirst,
    /// Lets time pass, and takes the timers that are due.
    Pass(u64),
    /// Lets time pass up to the wheel's next deadline, and takes the timers that are due.
    PassToNext,
    /// Lets time pass without a check for due timers.
    Late(u64),
    /// Refines the wheel, as a loop does before it sleeps.
    Refine,
}

/// Distances of every order of magnitude, from zero to the end of the clock's range.
fn distance() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0),
        8 => (0..64u32, any::<u64>()).prop_map(|(bits, any)| any >> bits),
        // Around the borders of ticks and lists.
        4 => (0..8u32, 1..70u64, -2..3i64)
            .prop_map(|(level, n, off)| (n << (20 + 6 * level.min(6))).saturating_add_signed(off)),
        1 => Just(u64::MAX),
    ]
}

/// Distances that do not reach the end of the clock's range at once.
fn pause() -> impl Strategy<Value = u64> {
    (8..64u32, any::<u64>()).prop_map(|(bits, any)| any >> bits)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => distance().prop_map(Op::Schedule),
        4 => any::<usize>().prop_map(Op::ScheduleWith),
        4 => any::<usize>().prop_map(Op::Cancel),
        4 => any::<usize>().prop_map(Op::CancelLater),
        1 => Just(Op::CancelFirst),
        2 => pause().prop_map(Op::Pass),
        3 => Just(Op::PassToNext),
        1 => pause().prop_map(Op::Late),
        2 => Just(Op::Refine),
    ]
}

/// The wheel, and a sorted map with the same timers.
struct Both {
    wheel: TimerWheel<u64>,
    map: BTreeMap<(u64, u64), TimerKey>,
    /// Cancelled timers that are still in the wheel.
    cancelled: Vec<u64>,
    all: Vec<(u64, u64, TimerKey)>,
    now: u64,
    /// The time that the caller of the wheel last read.
    known: u64,
}

impl Both {
    fn new(now: u64) -> Self {
        let (wheel, map) = (TimerWheel::new(), BTreeMap::new());
        Self { wheel, map, cancelled: Vec::new(), all: Vec::new(), now, known: now }
    }

    fn perform(&mut self, op: &Op) {
        match *op {
            Op::Schedule(distance) => self.schedule(self.now.saturating_add(distance)),
            Op::ScheduleWith(which) => {
                if let Some(at) = which.checked_rem(self.all.len()) {
                    self.schedule(self.all[at].0);
                }
            }
            Op::Cancel(which) => {
                if let Some(at) = which.checked_rem(self.all.len()) {
                    self.cancel(self.all[at]);
                }
            }
            Op::CancelLater(which) => {
                if let Some(at) = which.checked_rem(self.all.len()) {
                    self.cancel_later(self.all[at]);
                }
            }
            Op::CancelFirst => {
                if let Some((&(deadline, id), &key)) = self.map.first_key_value() {
                    self.cancel((deadline, id, key));
                }
            }
            Op::Pass(pause) => self.pass_to(self.now.saturating_add(pause)),
            Op::PassToNext => {
                self.refine();
                self.pass_to(self.wheel.next().0.max(self.now));
            }
            Op::Late(pause) => self.now = self.now.saturating_add(pause).min(u64::MAX - 1),
            Op::Refine => self.refine(),
        }
        let first = self.map.first_key_value().map_or(u64::MAX, |((deadline, _), _)| *deadline);
        assert_eq!(self.wheel.len(), self.map.len());
        assert!(self.wheel.next().0 <= first, "{:?} is beyond {first}", self.wheel.next());
        // With so few timers in a list, `refine` finds the exact deadline.
        if matches!(op, Op::Refine) && self.map.len() <= 32 {
            assert_eq!(self.wheel.next().0, first);
        }
    }

    fn schedule(&mut self, deadline: u64) {
        let id = self.all.len() as u64;
        let key = self.wheel.insert(Nanos(self.known), Nanos(deadline), id);
        self.map.insert((deadline, id), key);
        self.all.push((deadline, id, key));
    }

    fn cancel(&mut self, (deadline, id, key): (u64, u64, TimerKey)) {
        if self.cancelled.contains(&id) {
            return; // Its key is not in use any more.
        }
        let expected = self.map.remove(&(deadline, id)).map(|_| id);
        assert_eq!(self.wheel.get(key).copied(), expected);
        assert_eq!(self.wheel.remove(key), expected);
        assert_eq!(self.wheel.remove(key), None, "twice");
    }

    fn cancel_later(&mut self, (deadline, id, key): (u64, u64, TimerKey)) {
        if self.map.remove(&(deadline, id)).is_some() {
            self.cancelled.push(id);
            if self.wheel.cancel(key) {
                self.take_cancelled();
            }
        }
    }

    fn take_cancelled(&mut self) {
        let mut taken = Vec::new();
        self.wheel.take_cancelled(&mut taken);
        assert_eq!(taken, std::mem::take(&mut self.cancelled));
    }

    fn refine(&mut self) {
        self.take_cancelled();
        self.wheel.refine();
    }

    fn pass_to(&mut self, now: u64) {
        self.take_cancelled();
        self.now = now.min(u64::MAX - 1);
        self.known = self.now;
        while let Some(id) = self.wheel.pop_due(Nanos(self.now)) {
            let ((deadline, expected), _) =
                self.map.pop_first().expect("a timer that is due is in the map");
            assert!(deadline <= self.now, "early");
            assert_eq!(id, expected, "out of order");
        }
        let next = self.map.first_key_value();
        assert!(next.is_none_or(|((deadline, _), _)| *deadline > self.now), "late");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: if cfg!(miri) { 3 } else { 256 },
        ..ProptestConfig::default()
    })]

    #[test]
    fn e13_the_wheel_behaves_like_a_sorted_map(
        begin in pause(),
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let mut both = Both::new(begin);
        ops.iter().for_each(|op| both.perform(op));
        both.take_cancelled();
        while let Some(any) = both.wheel.pop_any() {
            both.map.retain(|(_, id), _| *id != any);
        }
        prop_assert!(both.map.is_empty() && both.wheel.len() == 0);
    }
}

/// Returns numbers that look random and are the same in each run (xorshift).
fn dice(state: &mut u64, limit: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % limit
}

#[test]
fn e13_many_timers_grow_and_shrink_the_wheel_and_it_behaves_like_a_sorted_map() {
    let (mut both, mut state) = (Both::new(1 << 50), 0x5EED_CAFE);
    for round in 0..if cfg!(miri) { 2 } else { 6u64 } {
        for _ in 0..if cfg!(miri) { 50 } else { 5000 } {
            // Seconds, as on a server, with few distinct deadlines.
            both.perform(&Op::Schedule(dice(&mut state, 60_000) * 1_000_000));
        }
        let (rarely, steps) = (round % 2 == 0, if cfg!(miri) { 60 } else { 6000 });
        for _ in 0..steps {
            match dice(&mut state, 16) {
                0 if rarely => both.perform(&Op::Pass(dice(&mut state, 50_000_000))),
                1 => both.perform(&Op::PassToNext),
                2 => both.perform(&Op::Refine),
                3..6 => both.perform(&Op::Cancel(dice(&mut state, u64::MAX) as usize)),
                _ => both.perform(&Op::CancelLater(dice(&mut state, u64::MAX) as usize)),
            }
        }
    }
    both.pass_to(u64::MAX);
    assert_eq!(both.wheel.len(), 0);
}

#[test]
fn e13_equal_deadlines_keep_the_order_of_scheduling_from_every_distance() {
    let mut wheel = TimerWheel::new();
    let deadline = Nanos(1 << 45 | 12_345);
    // Ever closer: into each of the levels, and at last into the heap.
    for value in 0..100u64 {
        let distance = (1 << 45) >> (value / 2);
        wheel.insert(Nanos(deadline.0 - distance), deadline, value);
    }
    assert_eq!(wheel.pop_due(Nanos(deadline.0 - 1)), None);
    let fired: Vec<_> = std::iter::from_fn(|| wheel.pop_due(deadline)).collect();
    assert_eq!(fired, (0..100).collect::<Vec<_>>());
}

#[test]
fn e13_nothing_is_due_early() {
    let mut wheel = TimerWheel::new();
    wheel.insert(Nanos(0), Nanos(10), ());
    assert_eq!(wheel.pop_due(Nanos(9)), None);
    assert_eq!(wheel.next(), Nanos(10));
    assert_eq!(wheel.pop_due(Nanos(10)), Some(()));
    wheel.refine();
    assert_eq!((wheel.len(), wheel.next()), (0, Nanos::MAX));
}

#[test]
fn e13_a_key_that_outlived_its_timer_finds_nothing() {
    let mut wheel = TimerWheel::new();
    let first = wheel.insert(Nanos(0), Nanos(1 << 40), 'a');
    assert_eq!(wheel.remove(first), Some('a'));
    assert_eq!(wheel.remove(first), None, "twice");
    let second = wheel.insert(Nanos(0), Nanos(1 << 40), 'b');
    assert_eq!(second.to_bits() as u32, first.to_bits() as u32, "slots are reused");
    assert_eq!(wheel.remove(first), None, "an old key of a slot in use again");
    assert_eq!(wheel.remove(second), Some('b'));
}

/// Counts how often a loop wakes up for its timers: whenever the wheel says so, until none is left.
fn wake_ups(wheel: &mut TimerWheel<u64>) -> (usize, usize) {
    let (mut turns, mut fired) = (0, 0);
    while wheel.len() > 0 {
        wheel.refine();
        let now = wheel.next();
        turns += 1;
        fired += std::iter::from_fn(|| wheel.pop_due(now)).count();
    }
    (turns, fired)
}

#[test]
fn e13_a_loop_with_few_timers_wakes_up_for_each_of_them_and_no_more() {
    let mut wheel = TimerWheel::new();
    for n in 0..30u64 {
        wheel.insert(Nanos(0), Nanos((1 << (n + 20)) + 7), n);
    }
    assert_eq!(wake_ups(&mut wheel), (30, 30));
}

/// More timers than a scan reads; fewer under Miri, which is slow.
const LONG: u64 = if cfg!(miri) { 80 } else { 1000 };

/// A wheel with many timers in one list of the third level, a microsecond apart.
fn long_list() -> (TimerWheel<u64>, Vec<TimerKey>) {
    let mut wheel = TimerWheel::new();
    let insert = |n: u64| wheel.insert(Nanos(0), Nanos((3 << 32) + 700 + n * 1000), n);
    let keys = (0..LONG).map(insert).collect();
    (wheel, keys)
}

#[test]
fn e13_a_long_list_costs_no_extra_wake_up() {
    let all = LONG as usize;
    assert_eq!(wake_ups(&mut long_list().0), (all, all));
}

#[test]
fn e13_cancelled_timers_at_the_front_of_a_long_list_cost_one_wake_up_together() {
    let (mut wheel, keys) = long_list();
    let half = keys.len() / 2;
    let mut cancelled = Vec::new();
    for key in &keys[..half] {
        if wheel.cancel(*key) {
            wheel.take_cancelled(&mut cancelled);
        }
    }
    wheel.take_cancelled(&mut cancelled);
    assert_eq!(cancelled.len(), half);
    assert_eq!(wake_ups(&mut wheel), (half + 1, half));
}

#[test]
fn e13_cancelled_timers_in_a_short_list_cost_no_wake_up() {
    let mut wheel = TimerWheel::new();
    let keys: Vec<_> =
        (0..30).map(|n| wheel.insert(Nanos(0), Nanos((3 << 32) + n * 1000), n)).collect();
    let mut cancelled = Vec::new();
    assert!(!keys[..20].iter().any(|key| wheel.cancel(*key)), "a batch is not complete");
    assert_eq!(wheel.len(), 10, "cancelled timers do not count");
    wheel.take_cancelled(&mut cancelled);
    assert_eq!(cancelled, (0..20).collect::<Vec<_>>());
    assert_eq!(wake_ups(&mut wheel), (10, 10));
}
