//! The wake path of futures: a loop that turns on one thread, and wakers, spawns and aborts on others. The models drive
//! the loop, the queue and the futures that ship. A lost wake shows as a deadlock, because the loop sleeps without a
//! limit.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::{self, ThreadId};

use crate::driver::TaskOnly;
use crate::event_loop::group::EventLoopGroup;
use crate::event_loop::manual::ManualEventLoop;
use crate::futures::LocalJoin;

/// A loop that this thread turns.
fn manual_loop() -> ManualEventLoop {
    EventLoopGroup::builder(TaskOnly).build_manual().unwrap()
}

/// The work that a future waits for, one word for each waking thread. Relaxed: only the wake orders it.
struct Work([AtomicUsize; 2]);

impl Work {
    fn new() -> Arc<Self> {
        Arc::new(Self([AtomicUsize::new(0), AtomicUsize::new(0)]))
    }

    fn finish(&self, part: usize) {
        self.0[part].store(1, Ordering::Relaxed);
    }

    fn finished(&self) -> usize {
        self.0.iter().map(|part| part.load(Ordering::Relaxed)).sum()
    }
}

/// A future that waits until `parts` parts of the work are finished, and checks where and when it is polled and dropped.
struct WaitsForWork {
    work: Arc<Work>,
    parts: usize,
    seen: Rc<Seen>,
}

/// The polls and the end of a future, as it has seen them.
struct Seen {
    loop_thread: ThreadId,
    waker: RefCell<Option<Waker>>,
    polls: Cell<usize>,
    has_ended: Cell<bool>,
}

impl Seen {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            loop_thread: thread::current().id(),
            waker: RefCell::default(),
            polls: Cell::new(0),
            has_ended: Cell::new(false),
        })
    }

    fn waker(&self) -> Waker {
        self.waker.borrow().clone().expect("the future was polled")
    }
}

impl Future for WaitsForWork {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        assert!(!self.seen.has_ended.get(), "no poll after the end");
        assert_eq!(thread::current().id(), self.seen.loop_thread);
        self.seen.polls.set(self.seen.polls.get() + 1);
        if self.seen.waker.borrow().is_none() {
            *self.seen.waker.borrow_mut() = Some(context.waker().clone());
        }
        if self.work.finished() < self.parts {
            return Poll::Pending;
        }
        self.seen.has_ended.set(true);
        Poll::Ready(())
    }
}

impl Drop for WaitsForWork {
    fn drop(&mut self) {
        assert_eq!(thread::current().id(), self.seen.loop_thread, "dropped on the loop");
        self.seen.has_ended.set(true);
    }
}

/// A future that has been polled once, on a loop that has nothing to do.
struct Waiting {
    manual: ManualEventLoop,
    work: Arc<Work>,
    seen: Rc<Seen>,
    join: LocalJoin<()>,
}

impl Waiting {
    fn for_parts(parts: usize) -> Self {
        let (mut manual, work, seen) = (manual_loop(), Work::new(), Seen::new());
        let future = WaitsForWork { work: work.clone(), parts, seen: seen.clone() };
        let join = manual.on_loop(|here| here.spawn_local(future)).unwrap();
        manual.turn(Some(Duration::ZERO));
        assert_eq!(seen.polls.get(), 1);
        Self { manual, work, seen, join }
    }

    /// Spawns a thread that finishes a part of the work, then wakes the future.
    fn wake_elsewhere(&self, part: usize) -> thread::JoinHandle<()> {
        let (work, waker) = (self.work.clone(), self.seen.waker());
        thread::spawn(move || {
            work.finish(part);
            waker.wake();
        })
    }

    /// Turns the loop, asleep whenever it has nothing to do, until the future has completed.
    fn turn_until_done(&mut self) {
        while !self.join.is_done() {
            self.manual.turn(None);
        }
    }

    fn queued_commands(&self) -> usize {
        self.manual.event_loop().metrics().queue_depth as usize
    }

    /// Checks that wakes after the end queue no command.
    fn assert_late_wake_does_nothing(&mut self) {
        while !self.manual.is_idle() {
            self.manual.turn(Some(Duration::ZERO));
        }
        self.manual.turn(Some(Duration::ZERO)); // Returns the admissions of the last commands.
        let (polls, waker) = (self.seen.polls.get(), self.seen.waker());
        thread::spawn(move || waker.wake()).join().unwrap();
        assert_eq!(self.queued_commands(), 0, "a wake after the end sends no command");
        assert!(self.manual.is_idle());
        assert_eq!(self.seen.polls.get(), polls);
    }
}

/// The wake meets the loop asleep, about to sleep, in the middle of a poll, or before it.
#[test]
fn l15_a_wake_from_another_thread_is_not_lost() {
    loom::model(|| {
        let mut waiting = Waiting::for_parts(1);
        let thread = waiting.wake_elsewhere(0);
        waiting.turn_until_done();
        thread.join().unwrap();
        assert_eq!(waiting.seen.polls.get(), 2, "one wake, one poll");
        waiting.assert_late_wake_does_nothing();
    });
}

#[test]
fn l15_wakes_by_two_threads_are_not_lost() {
    loom::model(|| {
        let mut waiting = Waiting::for_parts(2);
        let threads = [waiting.wake_elsewhere(0), waiting.wake_elsewhere(1)];
        waiting.turn_until_done();
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(waiting.seen.polls.get() <= 3, "at most one poll for each wake");
        let stats = waiting.manual.event_loop().stats();
        assert!(stats.wake_ups <= stats.sleeps, "{stats:?}");
    });
}

/// The loop is busy elsewhere: whichever thread is first, one command waits for the loop.
#[test]
fn l15_wakes_of_a_busy_loop_queue_one_command() {
    loom::model(|| {
        let mut waiting = Waiting::for_parts(2);
        let threads = [waiting.wake_elsewhere(0), waiting.wake_elsewhere(1)];
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(waiting.queued_commands(), 1);
        waiting.turn_until_done();
        assert_eq!(waiting.seen.polls.get(), 2);
        assert_eq!(waiting.manual.event_loop().stats().wake_ups, 0, "the loop was awake");
    });
}

/// The future is polled at once on the loop while wakes come from another thread.
#[test]
fn l15_a_poll_at_once_loses_no_wake_and_adds_no_command() {
    loom::model(|| {
        let mut waiting = Waiting::for_parts(2);
        let (work, waker) = (waiting.work.clone(), waiting.seen.waker());
        let thread = thread::spawn(move || {
            for part in 0..2 {
                work.finish(part);
                waker.wake_by_ref();
            }
        });
        let join = &waiting.join;
        waiting.manual.on_loop(|here| join.poll_now(here)).unwrap();
        assert!(waiting.queued_commands() <= 1, "at most one command is under way");
        waiting.turn_until_done();
        thread.join().unwrap();
        assert!(waiting.seen.polls.get() <= 4, "at once, and for each wake");
    });
}

#[test]
fn l15_a_wake_that_races_with_an_abort_does_nothing_after_it() {
    loom::model(|| {
        let mut waiting = Waiting::for_parts(2); // Never completes.
        let thread = waiting.wake_elsewhere(0);
        waiting.join.abort();
        waiting.turn_until_done();
        assert!(waiting.seen.has_ended.get());
        thread.join().unwrap();
        waiting.assert_late_wake_does_nothing();
    });
}

/// The loop ends while another thread wakes: the future is dropped on the loop, and not polled after that.
#[test]
fn l15_a_wake_that_races_with_the_loops_end_is_harmless() {
    loom::model(|| {
        let waiting = Waiting::for_parts(1);
        let thread = waiting.wake_elsewhere(0);
        let (late, seen) = (waiting.seen.waker(), waiting.seen.clone());
        drop(waiting);
        assert!(seen.has_ended.get(), "dropped with the loop");
        thread.join().unwrap();
        thread::spawn(move || late.wake()).join().unwrap();
    });
}

/// A future that is spawned and cancelled by another thread, whether it has arrived on the loop or not, ends once.
#[test]
fn l15_a_spawn_that_is_cancelled_on_its_way_ends_on_the_loop() {
    struct Spawned(ThreadId, Arc<AtomicUsize>);
    impl Future for Spawned {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            assert_eq!(self.1.load(Ordering::Relaxed), 0, "no poll after the end");
            Poll::Pending
        }
    }
    impl Drop for Spawned {
        fn drop(&mut self) {
            assert_eq!(thread::current().id(), self.0, "dropped on the loop");
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    loom::model(|| {
        let mut manual = manual_loop();
        let (drops, event_loop) = (Arc::new(AtomicUsize::new(0)), manual.event_loop());
        let spawned = Spawned(thread::current().id(), drops.clone());
        let thread = thread::spawn(move || {
            let outcome = event_loop.spawn(spawned).unwrap();
            assert!(outcome.cancel());
        });
        while drops.load(Ordering::Relaxed) == 0 {
            manual.turn(None);
        }
        thread.join().unwrap();
        drop(manual);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    });
}

/// A future that arrives from another thread gets its first poll, and the wakes of its own waker.
#[test]
fn l15_a_spawn_from_another_thread_is_polled() {
    loom::model(|| {
        let mut manual = manual_loop();
        let (polls, event_loop) = (Arc::new(AtomicUsize::new(0)), manual.event_loop());
        // Joined before the loop is dropped: loom does not see the order that the last drop of a std `Arc` gives.
        let wakes: std::sync::Arc<std::sync::Mutex<Vec<thread::JoinHandle<()>>>> =
            Default::default();
        let (counts, wake_threads) = (polls.clone(), wakes.clone());
        let thread = thread::spawn(move || {
            let twice = std::future::poll_fn(move |context| {
                if counts.fetch_add(1, Ordering::Relaxed) == 1 {
                    return Poll::Ready(());
                }
                let waker = context.waker().clone();
                wake_threads.lock().unwrap().push(thread::spawn(move || waker.wake()));
                Poll::Pending
            });
            drop(event_loop.spawn(twice).unwrap());
        });
        while polls.load(Ordering::Relaxed) < 2 {
            manual.turn(None);
        }
        thread.join().unwrap();
        for wake in wakes.lock().unwrap().drain(..) {
            wake.join().unwrap();
        }
    });
}
