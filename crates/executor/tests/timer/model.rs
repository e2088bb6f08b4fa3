//! E13: timers compared with a simple model, and thousands of timers at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use proptest::prelude::*;
use waterwheel_executor::{Canceller, EventExecutor, ManualExecutor, PromiseFuture, VirtualClock};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// An operation on timers, performed by the test or by a timer.
#[derive(Clone, Debug)]
enum TimerOp {
    Schedule {
        delay: u64,
        period: Option<u64>,
        then: Vec<TimerOp>,
    },
    /// Cancels one of the timers scheduled so far.
    Cancel {
        which: usize,
    },
}

/// Operations at one instant, on the loop or off it, followed by the passing of time.
#[derive(Clone, Debug)]
struct ModelStep {
    on_loop: bool,
    ops: Vec<TimerOp>,
    time: u64,
}

fn schedule(
    then: impl Strategy<Value = Vec<TimerOp>>,
    least: u64,
) -> impl Strategy<Value = TimerOp> {
    let period = prop_oneof![2 => Just(None), 1 => (1..20u64).prop_map(Some)];
    // Few deadlines and many timers, so that equal deadlines are common.
    let make = |(delay, period, then)| TimerOp::Schedule { delay, period, then };
    (least..30u64, period, then).prop_map(make)
}

fn cancel() -> impl Strategy<Value = TimerOp> {
    any::<usize>().prop_map(|which| TimerOp::Cancel { which })
}

fn ops() -> impl Strategy<Value = Vec<TimerOp>> {
    let grandchild = schedule(Just(Vec::new()), 1);
    let by_a_timer = prop_oneof![1 => grandchild, 2 => cancel()];
    let then = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(by_a_timer, 1..3)];
    prop::collection::vec(prop_oneof![3 => schedule(then, 0), 1 => cancel()], 0..12)
}

fn steps() -> impl Strategy<Value = Vec<ModelStep>> {
    let step = (any::<bool>(), ops(), 1..25u64);
    let step = step.prop_map(|(on_loop, ops, time)| ModelStep { on_loop, ops, time });
    prop::collection::vec(step, 1..20)
}

/// An observable effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimerEffect {
    Fired { at: u64, id: usize },
    Cancelled { id: usize, won: bool },
}

/// The model: a sorted map and a `now` that the test advances.
#[derive(Default)]
struct Model {
    now: u64,
    waiting: BTreeMap<(u64, u64), usize>,
    order: u64,
    timers: Vec<ModelTimer>,
    seen: Vec<TimerEffect>,
}

#[derive(Clone)]
struct ModelTimer {
    period: Option<u64>,
    then: Vec<TimerOp>,
    state: ModelState,
}

#[derive(Clone, Copy, PartialEq)]
enum ModelState {
    Waiting(u64, u64),
    Running,
    Over,
}

impl Model {
    fn perform(&mut self, op: &TimerOp) {
        match op {
            TimerOp::Schedule { delay, period, then } => {
                let id = self.timers.len();
                let state = ModelState::Over;
                self.timers.push(ModelTimer { period: *period, then: then.clone(), state });
                self.wait(id, self.now + delay);
            }
            TimerOp::Cancel { which } if !self.timers.is_empty() => {
                let id = which % self.timers.len();
                let won = match self.timers[id].state {
                    ModelState::Waiting(deadline, order) => {
                        self.waiting.remove(&(deadline, order)).is_some()
                    }
                    // A one-shot that runs cannot be cancelled, a periodic one can.
                    ModelState::Running => self.timers[id].period.is_some(),
                    ModelState::Over => false,
                };
                if won {
                    self.timers[id].state = ModelState::Over;
                }
                self.seen.push(TimerEffect::Cancelled { id, won });
            }
            TimerOp::Cancel { .. } => {}
        }
    }

    fn wait(&mut self, id: usize, deadline: u64) {
        self.waiting.insert((deadline, self.order), id);
        self.timers[id].state = ModelState::Waiting(deadline, self.order);
        self.order += 1;
    }

    fn run_for(&mut self, time: u64) {
        let end = self.now + time;
        while let Some(first) = self.waiting.first_entry() {
            let deadline = first.key().0;
            if deadline > end {
                break;
            }
            let id = first.remove();
            self.now = self.now.max(deadline);
            self.timers[id].state = ModelState::Running;
            self.seen.push(TimerEffect::Fired { at: self.now, id });
            let timer = self.timers[id].clone();
            timer.then.iter().for_each(|op| self.perform(op));
            match timer.period {
                Some(period) if self.timers[id].state == ModelState::Running => {
                    self.wait(id, deadline + period);
                }
                _ => self.timers[id].state = ModelState::Over,
            }
        }
        self.now = end;
    }
}

/// The real executor, which performs the same operations.
#[derive(Clone)]
struct RealTimers {
    clock: VirtualClock,
    executor: EventExecutor,
    record: Arc<Mutex<TimerRecord>>,
}

#[derive(Default)]
struct TimerRecord {
    cancellers: Vec<Canceller>,
    /// The futures are kept because a canceller does not keep its future alive.
    futures: Vec<PromiseFuture<()>>,
    seen: Vec<TimerEffect>,
}

impl RealTimers {
    fn record<R>(&self, f: impl FnOnce(&mut TimerRecord) -> R) -> R {
        f(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn perform(&self, op: &TimerOp) {
        match op {
            TimerOp::Schedule { delay, period, then } => {
                let id = self.record(|record| record.futures.len());
                let (real, then) = (self.clone(), then.clone());
                let fires = move || {
                    let at = real.clock.now().0 / 1_000_000;
                    real.record(|record| record.seen.push(TimerEffect::Fired { at, id }));
                    then.iter().for_each(|op| real.perform(op));
                };
                let future = match period {
                    None => self.executor.schedule(ms(*delay), fires).unwrap(),
                    Some(period) => self
                        .executor
                        .schedule_at_fixed_rate(ms(*delay), ms(*period), fires)
                        .unwrap(),
                };
                self.record(|record| {
                    record.cancellers.push(future.canceller());
                    record.futures.push(future);
                });
            }
            TimerOp::Cancel { which } => {
                let chosen = self.record(|record| {
                    let id = which.checked_rem(record.cancellers.len())?;
                    Some((id, record.cancellers[id].clone()))
                });
                let Some((id, canceller)) = chosen else { return };
                let won = canceller.cancel();
                self.record(|record| record.seen.push(TimerEffect::Cancelled { id, won }));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn e13_timers_fire_as_the_model_says(steps in steps()) {
        let clock = VirtualClock::new();
        let mut manual = ManualExecutor::with_virtual_clock(clock.clone());
        let executor = manual.executor().clone();
        let (mut model, real) = (Model::default(), RealTimers { clock, executor, record: Arc::default() });
        for ModelStep { on_loop, ops, time } in steps {
            ops.iter().for_each(|op| model.perform(op));
            if on_loop {
                let inner = real.clone();
                let on_loop = move || ops.iter().for_each(|op| inner.perform(op));
                real.executor.execute(on_loop).unwrap();
            } else {
                ops.iter().for_each(|op| real.perform(op));
            }
            model.run_for(time);
            manual.run_for(ms(time));
            prop_assert_eq!(&real.record(|record| record.seen.clone()), &model.seen);
            prop_assert_eq!(manual.executor().stats().timers, model.waiting.len());
        }
        // The futures in the record and the timer closures refer to each other: break the cycle.
        for future in real.record(|record| std::mem::take(&mut record.futures)) {
            future.cancel();
        }
    }
}

/// A deterministic random number generator (xorshift).
struct XorShift(u64);

impl XorShift {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// One of thousands of periodic timers: first due at `first`, then every `period`.
struct PeriodicTimer {
    first: u64,
    period: u64,
    ticked: Arc<AtomicU64>,
    future: PromiseFuture<()>,
}

impl PeriodicTimer {
    fn new(manual: &ManualExecutor, clock: &VirtualClock, random: &mut XorShift) -> Self {
        let (delay, period) = (1 + random.below(60), 1 + random.below(50));
        let ticked = Arc::<AtomicU64>::default();
        let count = ticked.clone();
        let tick = move || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        let future = manual.executor().schedule_at_fixed_rate(ms(delay), ms(period), tick).unwrap();
        let first = clock.now().plus(ms(delay)).0 / 1_000_000;
        Self { first, period, ticked, future }
    }

    /// Returns how often the timer must have ticked if it lived until `end`.
    fn due_by(&self, end: u64) -> u64 {
        if end < self.first { 0 } else { 1 + (end - self.first) / self.period }
    }
}

#[test]
fn e13_thousands_of_periodic_timers_tick_exactly_while_others_come_and_go() {
    let (clock, mut random) = (VirtualClock::new(), XorShift(0x5EED_CAFE));
    let mut manual = ManualExecutor::with_virtual_clock(clock.clone());
    let mut living: BTreeMap<u64, PeriodicTimer> =
        (0..5000).map(|id| (id, PeriodicTimer::new(&manual, &clock, &mut random))).collect();
    let (mut gone, mut next, mut now) = (Vec::new(), 5000, 0);
    for _ in 0..60 {
        let step = 1 + random.below(20);
        manual.run_for(ms(step));
        now += step;
        for _ in 0..80 {
            let from = random.below(next);
            let chosen = living.range(from..).next().or(living.first_key_value());
            let id = *chosen.expect("thousands live").0;
            let timer = living.remove(&id).expect("it was chosen from them");
            assert!(timer.future.cancel());
            gone.push((timer.due_by(now), timer.ticked));
            living.insert(next, PeriodicTimer::new(&manual, &clock, &mut random));
            next += 1;
        }
    }
    manual.run_for(ms(100));
    now += 100;
    assert_eq!((living.len(), manual.executor().stats().timers), (5000, 5000));
    let living = living.into_values().map(|timer| (timer.due_by(now), timer.ticked));
    let mut total = 0;
    for (due, ticked) in gone.into_iter().chain(living) {
        assert_eq!(ticked.load(Ordering::Relaxed), due);
        total += due;
    }
    assert!(total > 100_000, "{total} ticks are a test");
}
