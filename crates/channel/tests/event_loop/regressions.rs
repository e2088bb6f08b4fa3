//! Regressions: each case was once a hang, an abort or a lost value.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{
    EventLoop, EventLoopGroup, LocalLoop, ManualEventLoop, interval, sleep, yield_now,
};
use waterwheel_executor::ManualExecutor;

const PATIENCE: Duration = Duration::from_secs(20);

fn event_loop() -> EventLoop {
    EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap().next()
}

fn manual_loop() -> ManualEventLoop {
    EventLoopGroup::builder(TaskOnly).build_manual().unwrap()
}

/// Reads a number without a lock and publishes the last one it saw.
struct ObservesNumber {
    shared: Arc<Shared>,
    extra: u32,
    /// Wakes the future that is polled first and keeps the core busy storing.
    filler: Waker,
}

/// Fills the core's store buffer with lines that are in no cache: other cores see the loop's later stores
/// late.
struct FillsStoreBuffer {
    memory: Vec<AtomicU64>,
    random: u64,
    waker: Arc<OnceLock<Waker>>,
}

impl Future for FillsStoreBuffer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let _ = self.waker.set(context.waker().clone());
        for _ in 0..24 {
            self.random = next_random(self.random);
            let at = (self.random >> 20) as usize % self.memory.len();
            self.memory[at].store(self.random, Ordering::Relaxed);
        }
        Poll::Pending
    }
}

fn next_random(random: u64) -> u64 {
    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

fn wait_until_set(waker: &OnceLock<Waker>) -> &Waker {
    while waker.get().is_none() {
        std::thread::yield_now();
    }
    waker.get().expect("the waker is set")
}

#[derive(Default)]
struct Shared {
    number: AtomicU64,
    seen: AtomicU64,
    waker: OnceLock<Waker>,
    over: AtomicBool,
}

impl Future for ObservesNumber {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let number = self.shared.number.load(Ordering::SeqCst);
        if self.shared.waker.get().is_none() {
            let _ = self.shared.waker.set(context.waker().clone());
        }
        if number != self.shared.seen.load(Ordering::Relaxed) {
            self.shared.seen.store(number, Ordering::Release);
            self.extra = 2; // Two more polls, with which the next wake can race.
        }
        if self.extra > 0 {
            self.extra -= 1;
            self.filler.wake_by_ref();
            context.waker().wake_by_ref();
        }
        if self.shared.over.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[test]
fn l15_a_wake_that_races_with_a_poll_is_not_lost() {
    const ROUNDS: u64 = 100_000;
    let (event_loop, shared) = (event_loop(), Arc::new(Shared::default()));
    let filler = Arc::new(OnceLock::new());
    let memory = (0..8 << 20).map(|_| AtomicU64::new(0)).collect();
    drop(event_loop.spawn(FillsStoreBuffer { memory, random: 1, waker: filler.clone() }).unwrap());
    let filler = wait_until_set(&filler).clone();
    let looks =
        event_loop.spawn(ObservesNumber { shared: shared.clone(), extra: 0, filler }).unwrap();
    let waker = wait_until_set(&shared.waker);
    // One limit for all rounds: a busy machine may be slow, a lost wake waits for ever.
    let late = event_loop.schedule(6 * PATIENCE, || ()).unwrap();
    let mut random = 12_345;
    for round in 1..=ROUNDS {
        random = next_random(random);
        for _ in 0..(random >> 33) % 4_000 {
            std::hint::black_box(random);
        }
        shared.number.store(round, Ordering::Release);
        waker.wake_by_ref();
        while shared.seen.load(Ordering::Acquire) != round {
            assert!(!late.is_done(), "the wake of round {round} was lost");
            std::hint::spin_loop();
        }
    }
    shared.over.store(true, Ordering::SeqCst);
    waker.wake_by_ref();
    looks.wait_timeout(PATIENCE).unwrap();
}

#[test]
fn l15_due_sleeps_and_ticks_do_not_starve_tasks() {
    let event_loop = event_loop();
    let naps = event_loop.spawn(async {
        loop {
            sleep(Duration::ZERO).await;
        }
    });
    let ticks = event_loop.spawn(async {
        let mut every = interval(Duration::from_nanos(1));
        loop {
            every.tick().await;
        }
    });
    let yields = event_loop.spawn(async {
        loop {
            yield_now().await;
        }
    });
    for n in 0..100 {
        let task = event_loop.submit(move || n).unwrap();
        task.wait_timeout(PATIENCE).expect("the loop has time for a task");
    }
    assert!(naps.unwrap().cancel());
    assert!(ticks.unwrap().cancel());
    assert!(yields.unwrap().cancel());
}

#[test]
fn l15_a_sleep_dropped_off_its_loop_cancels_its_timer() {
    let event_loop = event_loop();
    let (give, given) = std::sync::mpsc::channel();
    let begin = async move {
        for _ in 0..100 {
            let mut nap = Box::pin(sleep(Duration::from_secs(3600)));
            let begun =
                poll_fn(|context| Poll::Ready(nap.as_mut().poll(context).is_pending())).await;
            assert!(begun);
            give.send(nap).unwrap();
        }
    };
    event_loop.spawn(begin).unwrap().wait_timeout(PATIENCE).unwrap();
    // Timers are counted at the end of a turn: several turns may be needed.
    let comes_to = |timers| {
        (0..1000).any(|_| {
            event_loop.submit(|| ()).unwrap().join().unwrap();
            event_loop.metrics().timers == timers
        })
    };
    assert!(comes_to(100));
    drop(given.iter().collect::<Vec<_>>());
    assert!(comes_to(0));
}

/// A future that panics when it is dropped after it has completed.
struct PanicsWhenDropped(bool);

impl Future for PanicsWhenDropped {
    type Output = u8;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u8> {
        self.0 = true;
        Poll::Ready(7)
    }
}

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        assert!(!self.0, "on purpose");
    }
}

#[test]
fn e12_a_future_whose_destructor_panics_still_delivers_its_value() {
    let event_loop = event_loop();
    assert_eq!(event_loop.spawn(PanicsWhenDropped(false)).unwrap().join().unwrap(), 7);
    event_loop.submit(|| ()).unwrap().join().unwrap();
}

/// Spawns itself again whenever it is dropped.
struct RespawnsWhenDropped(LocalLoop, Rc<Cell<u32>>);

impl Future for RespawnsWhenDropped {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Drop for RespawnsWhenDropped {
    fn drop(&mut self) {
        self.1.set(self.1.get() + 1);
        drop(self.0.spawn_local(RespawnsWhenDropped(self.0.clone(), self.1.clone())));
    }
}

#[test]
fn e16_a_future_that_spawns_itself_when_dropped_does_not_keep_a_loop_from_ending() {
    let mut manual = manual_loop();
    let deaths = Rc::new(Cell::new(0));
    let counted = deaths.clone();
    manual
        .on_loop(|here| drop(here.spawn_local(RespawnsWhenDropped(here.clone(), counted))))
        .unwrap();
    manual.turn(Some(Duration::ZERO));
    drop(manual);
    assert!((1..5_000).contains(&deaths.get()), "{}", deaths.get());
}

#[test]
fn l12_a_loop_kept_in_a_thread_local_ends_with_its_thread() {
    thread_local! {
        static LOOP: RefCell<Option<ManualEventLoop>> = const { RefCell::new(None) };
        static EXECUTOR: RefCell<Option<ManualExecutor>> = const { RefCell::new(None) };
    }
    let ends = std::thread::spawn(|| {
        let (mut manual, mut executor) = (manual_loop(), ManualExecutor::new());
        manual.turn(Some(Duration::ZERO));
        executor.run_now();
        let ends = [manual.event_loop().termination(), executor.executor().termination()];
        LOOP.set(Some(manual));
        EXECUTOR.set(Some(executor));
        ends
    });
    for end in ends.join().unwrap() {
        end.wait_timeout(PATIENCE).unwrap();
    }
}

#[test]
fn e06_the_current_loop_is_that_of_the_current_executor() {
    let seen = event_loop().submit(|| {
        let mut inner = ManualExecutor::new();
        let inside = inner.executor().submit(|| EventLoop::current().is_none()).unwrap();
        inner.run_now();
        (EventLoop::current().is_some(), inside.join())
    });
    let (outside, inside) = seen.unwrap().join().unwrap();
    assert!(outside && inside.unwrap());
}
