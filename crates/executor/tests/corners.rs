//! P04, P06, P07, E10, E13, E19: what a review found where promises, timers and loops meet.

mod support;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use support::watched::Watched;
use support::{Faults, SOON, blow, end, lock, within};
use waterwheel_executor::{
    EventExecutor, EventExecutorGroup, GlobalExecutor, ImmediateExecutor, ManualExecutor, Nanos,
    PromiseFuture, State, UserCode, VirtualClock, WaitError,
};

const HOUR: Duration = Duration::from_secs(3600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn executor() -> EventExecutor {
    EventExecutor::builder().name("cornered").build().unwrap()
}

#[track_caller]
fn get<T: Send + 'static>(future: PromiseFuture<T>) -> T {
    future.wait_timeout(SOON).expect("completed in time");
    future.join().unwrap()
}

/// A waker that panics.
struct Broken;

impl Wake for Broken {
    fn wake(self: Arc<Self>) {
        blow("the waker is broken")
    }
}

/// A waker that says that it was woken.
struct Bell(mpsc::SyncSender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _ = self.0.try_send(()); // Full: it has rung already.
    }
}

fn bell() -> (Waker, Receiver<()>) {
    let (ring, rung) = mpsc::sync_channel(1);
    (Waker::from(Arc::new(Bell(ring))), rung)
}

/// Panics when it is dropped.
struct Thorn;

impl Drop for Thorn {
    fn drop(&mut self) {
        blow("the thorn")
    }
}

#[test]
fn p04_a_completed_future_is_joined_inside_an_immediate_task() {
    let joined = within(|| {
        let (tell, told) = mpsc::channel();
        ImmediateExecutor.execute(move || {
            let (promise, mut future) = ImmediateExecutor.new_promise();
            future.add_listener(|_| ());
            promise.set_success(7);
            tell.send((future.is_done(), future.join().unwrap())).unwrap();
        });
        told.try_recv().unwrap()
    });
    assert_eq!(joined, (true, 7));
}

#[test]
fn p04_a_loop_inside_a_task_refuses_to_block_for_the_loop_outside() {
    for builder in [EventExecutor::builder(), EventExecutor::builder().never_block()] {
        let executor = builder.name("outer").build().unwrap();
        let outer = executor.clone();
        let nested = executor.submit(move || {
            let mut manual = ManualExecutor::new();
            let never = outer.submit(|| ()).unwrap();
            let waits = move || never.wait_timeout(ms(50));
            let refused = manual.executor().submit(waits).unwrap();
            manual.run_now();
            refused.join().unwrap()
        });
        match get(nested.unwrap()) {
            Err(WaitError::WouldDeadlock(refused)) => assert_eq!(refused.executor, "outer"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn p04_a_loop_inside_a_task_never_blocks_where_the_outer_one_must_not() {
    let (_other, stranger) = executor().new_promise::<()>();
    let executor = EventExecutor::builder().never_block().build().unwrap();
    let nested = executor.submit(move || {
        let mut manual = ManualExecutor::new();
        let refused = manual.executor().submit(move || stranger.wait_timeout(ms(50))).unwrap();
        manual.run_now();
        refused.join().unwrap()
    });
    let refused = get(nested.unwrap());
    assert!(matches!(refused, Err(WaitError::WouldDeadlock(_))), "{refused:?}");
}

#[test]
fn p04_a_child_that_started_before_its_group_refuses_to_wait_for_the_group() {
    let started = |builder: waterwheel_executor::EventExecutorBuilder| {
        let child = builder.build()?;
        get(child.submit(|| ()).unwrap());
        Ok::<_, waterwheel_executor::BuildError>(child)
    };
    let group = EventExecutorGroup::builder().threads(1).build_with(started).unwrap();
    let inner = group.clone();
    let refused = group.next().submit(move || inner.await_termination(ms(50))).unwrap();
    let refused = get(refused);
    assert!(matches!(refused, Err(WaitError::WouldDeadlock(_))), "{refused:?}");
}

#[test]
fn p06_a_waker_that_panics_keeps_nobody_else_from_being_woken() {
    let executor = executor();
    let (promise, future) = executor.new_promise();
    let future = future.shared();
    let (mut first, mut second) = (pin!(future.clone()), pin!(future.clone()));
    let broken = Waker::from(Arc::new(Broken));
    assert!(first.as_mut().poll(&mut Context::from_waker(&broken)).is_pending());
    let (waker, rung) = bell();
    assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let completed = catch_unwind(AssertUnwindSafe(|| promise.set_success(7)));
    assert!(matches!(completed, Ok(true)), "the panic came out of set_success");
    rung.recv_timeout(SOON).expect("the second one is woken");
    let Poll::Ready(outcome) = second.as_mut().poll(&mut Context::from_waker(&waker)) else {
        panic!("woken for nothing");
    };
    assert_eq!(outcome.unwrap(), 7);
}

/// Its first clone tells that it is under way, and waits.
struct SlowToClone(Arc<Mutex<Option<Pause>>>);

type Pause = (mpsc::Sender<()>, Receiver<()>);

impl Clone for SlowToClone {
    fn clone(&self) -> Self {
        let first = lock(&self.0).take();
        if let Some((begun, go_on)) = first {
            begun.send(()).unwrap();
            let _ = go_on.recv_timeout(SOON);
        }
        Self(self.0.clone())
    }
}

#[test]
fn p06_who_awaits_a_shared_future_does_not_wait_for_its_listeners() {
    let executor = executor();
    let (promise, future) = executor.new_promise();
    let future = future.shared();
    let (listening, is_listening) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    future.add_listener(move |_| {
        listening.send(()).unwrap();
        let _ = released.recv();
    });
    let ((begun, has_begun), (go_on, may_go_on)) = (mpsc::channel(), mpsc::channel());
    let value = SlowToClone(Arc::new(Mutex::new(Some((begun, may_go_on)))));
    executor.execute(move || assert!(promise.set_success(value))).unwrap();
    has_begun.recv_timeout(SOON).expect("the listeners' clone is being made");
    let (waker, rung) = bell();
    let mut awaited = pin!(future.clone());
    assert!(awaited.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    go_on.send(()).unwrap();
    is_listening.recv_timeout(SOON).expect("the listener runs");
    rung.recv_timeout(SOON).expect("woken while the listener is at it");
    assert!(awaited.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    drop(release);
    end(&executor);
}

#[test]
fn p07_what_is_made_of_a_cancelled_future_is_cancelled() {
    let executor = executor();
    let (_promise, inner) = executor.new_promise::<u8>();
    let canceller = inner.canceller();
    let (reached, has_reached) = mpsc::channel();
    let then = executor.submit(|| ()).unwrap().then(move |()| {
        reached.send(()).unwrap();
        inner
    });
    has_reached.recv_timeout(SOON).unwrap();
    assert!(!then.is_done() && canceller.cancel());
    then.wait_timeout(SOON).unwrap();
    assert!(then.is_cancelled(), "then: {then:?}");

    let (_promise, outer) = executor.new_promise::<u8>();
    let canceller = outer.canceller();
    let map = outer.map(|n| n + 1);
    assert!(!map.is_done() && canceller.cancel());
    map.wait_timeout(SOON).unwrap();
    assert!(map.is_cancelled(), "map: {map:?}");
}

#[test]
fn e10_far_timers_that_pile_up_wake_the_loop_once_in_a_while() {
    let watched = Watched::new(EventExecutor::builder());
    drop(watched.executor.schedule(HOUR, || ()).unwrap());
    watched.asleep();
    for round in 1..=3 {
        let unparks = watched.unparks();
        for _ in 0..511 {
            assert!(watched.executor.schedule(HOUR * 2, || ()).unwrap().cancel());
        }
        drop(watched.executor.schedule(HOUR * 2, || ()).unwrap());
        assert_eq!(watched.unparks(), unparks, "1,023 commands may wait");
        drop(watched.executor.schedule(HOUR * 2, || ()).unwrap());
        assert_eq!(watched.unparks(), unparks + 1, "one more may not");
        watched.next_park();
        let stats = watched.executor.stats();
        assert_eq!((stats.queue_depth, stats.timers), (0, 1 + 2 * round));
    }
    end(&watched.executor);
}

#[test]
fn e10_far_timers_without_end_do_not_fill_the_queue() {
    let executor = executor();
    drop(executor.schedule(HOUR, || ()).unwrap());
    get(executor.submit(|| ()).unwrap());
    for _ in 0..50_000 {
        assert!(executor.schedule(HOUR * 2, || ()).unwrap().cancel());
    }
    let (_never, nothing) = mpsc::channel::<()>();
    let mut looks = 0;
    while executor.stats().queue_depth >= 3 * 1024 {
        looks += 1;
        assert!(looks < 2000, "nobody looks at them: {:?}", executor.stats());
        assert_eq!(nothing.recv_timeout(ms(10)), Err(RecvTimeoutError::Timeout));
    }
    end(&executor);
}

#[test]
fn e13_a_cancelled_timer_whose_closure_panics_as_it_goes_is_cancelled_for_all() {
    let executor = executor();
    let thorn = Thorn;
    let mut timer = executor.schedule(HOUR, move || drop(thorn)).unwrap();
    let (tell, told) = mpsc::channel();
    timer.add_listener(move |outcome| {
        tell.send(outcome.as_ref().is_err_and(|error| error.is_cancelled())).unwrap();
    });
    let cancelled = catch_unwind(AssertUnwindSafe(|| timer.cancel()));
    assert!(matches!(cancelled, Ok(true)), "the panic came out of cancel");
    assert!(told.recv_timeout(SOON).expect("the listeners are told"));
    assert!(timer.join().unwrap_err().is_cancelled());
    end(&executor);
}

#[test]
fn e13_a_closure_that_panics_as_its_timer_is_cancelled_on_the_loop_is_reported() {
    let faults = Faults::new();
    let executor = EventExecutor::builder().reporter(faults.clone()).build().unwrap();
    let thorn = Thorn;
    let timer = executor.schedule(HOUR, move || drop(thorn)).unwrap();
    assert!(get(executor.submit(move || timer.cancel()).unwrap()));
    let expected = (UserCode::Destructor, "destructor".to_owned(), "the thorn".to_owned());
    assert_eq!(faults.take_panics(), [expected]);
    assert_eq!(get(executor.submit(|| 7).unwrap()), 7, "the loop lives on");
    end(&executor);
}

#[test]
fn e19_block_on_sleeps_when_the_manual_executor_has_ended() {
    let turns = within(|| {
        let mut manual = ManualExecutor::new();
        let executor = manual.executor().clone();
        let ended = executor.shutdown_gracefully(ms(5), ms(10)).unwrap();
        let (promise, future) = GlobalExecutor::get().new_promise();
        let other = std::thread::spawn(move || {
            ended.wait_timeout(SOON).expect("it ends in block_on");
            let (_never, nothing) = mpsc::channel::<()>();
            let _ = nothing.recv_timeout(ms(300));
            promise.set_success(())
        });
        manual.block_on(future).unwrap().unwrap();
        assert!(other.join().unwrap());
        assert_eq!(executor.state(), State::Terminated);
        executor.stats().turns
    });
    assert!(turns < 50, "it turned {turns} times");
}

#[test]
fn e19_a_virtual_clock_does_not_jump_past_a_task_that_a_listener_submits() {
    within(|| {
        let clock = VirtualClock::new();
        let mut manual = ManualExecutor::with_virtual_clock(clock.clone());
        let executor = manual.executor().clone();
        let far = executor.schedule(HOUR, || ()).unwrap();
        manual.run_now();
        let (promise, mut future) = executor.new_promise::<()>();
        let (noted, ran_at) = executor.new_promise::<Nanos>();
        let runs = Arc::new(AtomicUsize::new(0));
        let (inner, seen, counted) = (executor.clone(), clock.clone(), runs.clone());
        future.add_listener(move |_| {
            let task = move || {
                counted.fetch_add(1, Ordering::SeqCst);
                noted.set_success(seen.now());
            };
            inner.execute(task).unwrap();
        });
        assert!(std::thread::spawn(move || promise.set_success(())).join().unwrap());
        assert_eq!(manual.block_on(ran_at).unwrap().unwrap(), Nanos(0));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert!(!far.is_done());
    });
}
