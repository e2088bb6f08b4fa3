//! The cost of waking futures, counted: one command per future, no allocation, and at most one wake-up per sleep of the
//! loop (L15, A05).

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use waterwheel_channel::driver::{Driver, TaskOnly, WaitSummary};
use waterwheel_channel::{EventLoopGroup, ManualEventLoop};
use waterwheel_executor::{Nanos, Unpark};
use waterwheel_testkit::driver_wrapper::{DriverWrapper, WrappingFactory};

use crate::counting_allocator::allocations_in;

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);
const TIMEOUT: Duration = Duration::from_secs(20);

/// Few enough that the commands of a round fit into the blocks that the queue keeps.
const FUTURES: usize = 8;
const THREADS: usize = 3;
/// How often each thread wakes each future in a round.
const WAKES: usize = 5;
const ROUNDS: usize = 100;

fn manual_loop() -> ManualEventLoop {
    EventLoopGroup::builder(TaskOnly).build_manual().unwrap()
}

/// Spawns futures that never complete, polls each once, and returns their wakers.
fn waiting_futures(event_loop: &mut ManualEventLoop, count: usize) -> Vec<Waker> {
    let wakers: Rc<RefCell<Vec<Waker>>> = Rc::default();
    for _ in 0..count {
        let (wakers, mut is_known) = (wakers.clone(), false);
        let waits = poll_fn(move |context| {
            if !std::mem::replace(&mut is_known, true) {
                wakers.borrow_mut().push(context.waker().clone());
            }
            Poll::<()>::Pending
        });
        event_loop.on_loop(|here| drop(here.spawn_local(waits))).unwrap();
    }
    event_loop.turn(AT_ONCE);
    event_loop.turn(AT_ONCE); // Returns the admissions of the first turn.
    wakers.take()
}

#[test]
fn a05_wakes_by_many_threads_of_a_busy_loop_cost_a_command_per_future_and_nothing_else() {
    let mut event_loop = manual_loop();
    let wakers: Arc<[Waker]> = waiting_futures(&mut event_loop, FUTURES).into();
    // Twice per round: the threads wake while the loop makes no turn, and wait while it does.
    let barrier = Arc::new(Barrier::new(THREADS + 1));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (wakers, barrier) = (wakers.clone(), barrier.clone());
            thread::spawn(move || {
                let mut allocated = 0;
                for round in 0..2 * ROUNDS {
                    barrier.wait();
                    let (count, ()) = allocations_in(|| {
                        (0..WAKES).for_each(|_| wakers.iter().for_each(Waker::wake_by_ref));
                    });
                    allocated += if round < ROUNDS { 0 } else { count };
                    barrier.wait();
                }
                allocated
            })
        })
        .collect();
    let before = event_loop.event_loop().stats();
    let polled_before = event_loop.event_loop().metrics().futures_polled;
    let mut allocated = 0;
    for round in 0..2 * ROUNDS {
        barrier.wait();
        barrier.wait();
        assert_eq!(event_loop.event_loop().stats().queue_depth, FUTURES, "a command per future");
        let (count, _) = allocations_in(|| event_loop.turn(AT_ONCE));
        allocated += if round < ROUNDS { 0 } else { count };
        event_loop.turn(AT_ONCE);
    }
    allocated += threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>();
    assert_eq!(allocated, 0, "after the queue has grown to its size");
    let after = event_loop.event_loop().stats();
    assert_eq!(after.wake_ups, before.wake_ups, "an awake loop is not woken");
    let polled = event_loop.event_loop().metrics().futures_polled - polled_before;
    assert_eq!(polled, (2 * ROUNDS * FUTURES) as u64, "a poll per future and round");
}

/// A driver that tells the test when the loop sleeps, and ends the sleep when the test allows it: every wake in between
/// meets a loop that is asleep.
struct HeldSleep {
    inner: Box<dyn Driver>,
    asleep: mpsc::Sender<()>,
    may_wake: Arc<Mutex<mpsc::Receiver<()>>>,
    unparks: Arc<AtomicU64>,
}

struct CountsUnparks(Arc<AtomicU64>);

impl Unpark for CountsUnparks {
    fn unpark(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl DriverWrapper for HeldSleep {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Driver {
        &mut *self.inner
    }

    fn waker(&self) -> Arc<dyn Unpark> {
        Arc::new(CountsUnparks(self.unparks.clone()))
    }

    fn wait(&mut self, until: Option<Nanos>) -> io::Result<WaitSummary> {
        if until.is_none() {
            let _ = self.asleep.send(());
            let _ = self.may_wake.lock().unwrap().recv();
        }
        Ok(WaitSummary { ready: 0, woken: until.is_none() })
    }
}

/// A loop on its own thread whose sleeps end when the test says so.
struct HeldLoop {
    group: EventLoopGroup,
    asleep: mpsc::Receiver<()>,
    wake: mpsc::Sender<()>,
    unparks: Arc<AtomicU64>,
}

impl HeldLoop {
    fn new() -> Self {
        let (fall_asleep, asleep) = mpsc::channel();
        let (wake, may_wake) = mpsc::channel();
        let (may_wake, unparks) = (Arc::new(Mutex::new(may_wake)), Arc::new(AtomicU64::new(0)));
        let counted = unparks.clone();
        let drivers = WrappingFactory::new(TaskOnly, move |inner| HeldSleep {
            inner,
            asleep: fall_asleep.clone(),
            may_wake: may_wake.clone(),
            unparks: counted.clone(),
        });
        let group = EventLoopGroup::builder(drivers).threads(1).build().unwrap();
        Self { group, asleep, wake, unparks }
    }

    fn wait_until_asleep(&self) {
        self.asleep.recv_timeout(TIMEOUT).unwrap();
    }

    fn unparks(&self) -> u64 {
        self.unparks.load(Ordering::SeqCst)
    }
}

/// A future that passes its waker on at the first poll and never completes.
fn passes_waker(to: mpsc::Sender<Waker>) -> impl Future<Output = ()> + Send {
    let mut to = Some(to);
    poll_fn(move |context| {
        if let Some(to) = to.take() {
            to.send(context.waker().clone()).unwrap();
        }
        Poll::Pending
    })
}

#[test]
fn a05_wakes_by_many_threads_of_a_sleeping_loop_wake_it_once() {
    let held = HeldLoop::new();
    let (give, wakers) = mpsc::channel();
    // The first task finds the loop awake or asleep, depending on its thread's start.
    held.group.execute(|| ()).unwrap();
    held.wait_until_asleep();
    for _ in 0..FUTURES {
        drop(held.group.spawn(passes_waker(give.clone())).unwrap());
    }
    held.wake.send(()).unwrap();
    held.wait_until_asleep();
    let wakers: Arc<[Waker]> = wakers.try_iter().collect();
    assert_eq!(wakers.len(), FUTURES);
    let event_loop = held.group.next();
    for _ in 0..ROUNDS {
        let (unparks, polled) = (held.unparks(), event_loop.metrics().futures_polled);
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let wakers = wakers.clone();
                thread::spawn(move || {
                    (0..WAKES).for_each(|_| wakers.iter().for_each(Waker::wake_by_ref));
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(held.unparks(), unparks + 1, "one wake-up for the whole sleep");
        assert_eq!(event_loop.stats().queue_depth, FUTURES, "a command per future");
        held.wake.send(()).unwrap();
        held.wait_until_asleep();
        assert_eq!(held.unparks(), unparks + 1);
        assert_eq!(event_loop.metrics().futures_polled, polled + FUTURES as u64);
    }
    drop(held.wake); // Later sleeps end at once.
}

#[test]
fn l15_a_wake_after_the_end_neither_queues_nor_wakes() {
    let held = HeldLoop::new();
    let (give, wakers) = mpsc::channel();
    held.group.execute(|| ()).unwrap();
    held.wait_until_asleep();
    let outcome = held.group.spawn(passes_waker(give)).unwrap();
    held.wake.send(()).unwrap();
    held.wait_until_asleep();
    let waker = wakers.recv_timeout(TIMEOUT).unwrap();
    assert!(outcome.cancel());
    held.wake.send(()).unwrap();
    held.wait_until_asleep();
    let unparks = held.unparks();
    let (allocated, ()) = allocations_in(|| (0..WAKES).for_each(|_| waker.wake_by_ref()));
    let stats = held.group.next().stats();
    assert_eq!((allocated, stats.queue_depth, held.unparks()), (0, 0, unparks));
    drop(held.wake);
}

/// Futures in such numbers as a server has connections: every buffer that a wake needs was made when the futures were spawned.
#[test]
fn l15_a_thousand_wakes_in_a_turn_allocate_nothing() {
    const MANY: usize = 1000;
    let mut event_loop = manual_loop();
    let wakers = waiting_futures(&mut event_loop, MANY);
    let mut round = || {
        event_loop.on_loop(|_| wakers.iter().for_each(Waker::wake_by_ref)).unwrap();
        event_loop.turn(AT_ONCE);
    };
    round();
    let (allocated, ()) = allocations_in(|| (0..10).for_each(|_| round()));
    assert_eq!(allocated, 0);
}

/// A future that is polled at once for each of its wakes, as futures of channels are, stays in the ready list once.
#[test]
fn l15_polls_at_once_do_not_lengthen_the_ready_list() {
    let mut event_loop = manual_loop();
    let waker: Rc<RefCell<Option<Waker>>> = Rc::default();
    let keeps = waker.clone();
    let waits = poll_fn(move |context| {
        keeps.borrow_mut().get_or_insert_with(|| context.waker().clone());
        Poll::<()>::Pending
    });
    let join = event_loop.on_loop(|here| here.spawn_local(waits)).unwrap();
    event_loop.turn(AT_ONCE);
    let waker = waker.take().unwrap();
    let (allocated, _) = allocations_in(|| {
        event_loop.on_loop(|here| {
            for _ in 0..10_000 {
                waker.wake_by_ref();
                assert!(join.poll_now(here));
            }
        })
    });
    assert_eq!(allocated, 0, "the list does not grow");
    let polled = event_loop.event_loop().metrics().futures_polled;
    event_loop.turn(AT_ONCE);
    assert_eq!(event_loop.event_loop().metrics().futures_polled, polled, "nothing is left to poll");
    assert!(event_loop.is_idle());
}
