//! How unfinished futures end: abort, cancel, shutdown (L15, E16).

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use waterwheel_channel::driver::OpenDriver;
use waterwheel_channel::{LocalJoin, LocalLoop, sleep};
use waterwheel_executor::{ErrorKind, RejectReason, UserCode};

use super::bench::{Bench, TIMEOUT, panic_quietly};

/// Records for each guard whether it was dropped on a loop.
#[derive(Clone, Default)]
struct Dropped(Arc<Mutex<Vec<bool>>>);

impl Dropped {
    fn guard(&self) -> Guard {
        Guard(self.clone())
    }

    fn taken(&self) -> Vec<bool> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Guard(Dropped);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().push(LocalLoop::current().is_some());
    }
}

/// A future that keeps the guard and never completes.
async fn keep(guard: Guard) {
    pending::<()>().await;
    drop(guard);
}

/// Returns a cell that gets the outcome of a join handle as text, once it is ready.
fn outcome<T: 'static>(bench: &mut Bench, join: LocalJoin<T>) -> Rc<RefCell<Option<String>>> {
    let seen: Rc<RefCell<Option<String>>> = Rc::default();
    let sees = seen.clone();
    drop(bench.here(|here| {
        here.spawn_local(async move {
            let text = join.await.map(|_| ()).map_err(|error| error.to_string());
            *sees.borrow_mut() = Some(format!("{text:?}"));
        })
    }));
    seen
}

/// Checks that an aborted future is dropped on the loop, and that its join handle fails with "cancelled".
pub fn l15_an_aborted_future_is_dropped_on_the_loop(drivers: &dyn OpenDriver) {
    let (mut bench, dropped) = (Bench::new(drivers), Dropped::default());
    let guard = dropped.guard();
    let join = bench.here(|here| here.spawn_local(keep(guard)));
    bench.turns(2);
    assert!(!join.is_done() && dropped.taken().is_empty());
    join.abort();
    assert!(dropped.taken().is_empty(), "soon, not now");
    bench.turn();
    assert!(join.is_done());
    assert_eq!(dropped.taken(), [true]);
    let seen = outcome(&mut bench, join);
    bench.turns(2);
    assert_eq!(seen.borrow().as_deref(), Some("Err(\"cancelled\")"));
    assert!(bench.reports.take().is_empty());
}

/// Checks that an abort of a finished future, and a second abort, have no effect.
pub fn l15_a_late_or_second_abort_does_nothing(drivers: &dyn OpenDriver) {
    let (mut bench, dropped) = (Bench::new(drivers), Dropped::default());
    let through = bench.here(|here| here.spawn_local(async { 7 }));
    bench.turn();
    through.abort();
    bench.turn();
    let guard = dropped.guard();
    let twice = bench.here(|here| here.spawn_local(keep(guard)));
    twice.abort();
    twice.abort();
    bench.turn();
    assert_eq!(dropped.taken(), [true]);
    let seen = outcome(&mut bench, through);
    bench.turns(2);
    assert_eq!(seen.borrow().as_deref(), Some("Ok(())"));
}

/// Checks that a future that aborts itself is dropped after its poll.
pub fn l15_a_future_may_abort_itself(drivers: &dyn OpenDriver) {
    let (mut bench, dropped) = (Bench::new(drivers), Dropped::default());
    let own: Rc<RefCell<Option<LocalJoin<()>>>> = Rc::default();
    let (itself, guard) = (own.clone(), dropped.guard());
    let polls = Rc::new(Cell::new(0));
    let counts = polls.clone();
    let join = bench.here(|here| {
        here.spawn_local(async move {
            let _guard = guard;
            poll_fn(|context| {
                counts.set(counts.get() + 1);
                itself.borrow().as_ref().expect("it was put there").abort();
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await
        })
    });
    *own.borrow_mut() = Some(join);
    bench.turns(4);
    assert_eq!((polls.get(), dropped.taken()), (1, vec![true]));
    assert!(own.borrow().as_ref().unwrap().is_done());
}

/// Checks that cancelling the promise of a spawn drops the future on the loop.
pub fn l15_a_cancelled_spawn_is_dropped_on_the_loop(drivers: &dyn OpenDriver) {
    let (mut bench, dropped) = (Bench::new(drivers), Dropped::default());
    let running = bench.event_loop().spawn(keep(dropped.guard())).unwrap();
    bench.turns(2);
    let cancel = std::thread::spawn(move || {
        assert!(running.cancel());
        running
    });
    let running = cancel.join().unwrap();
    assert!(running.is_cancelled() && dropped.taken().is_empty());
    bench.turn();
    assert_eq!(dropped.taken(), [true]);

    let early = bench.event_loop().spawn(keep(dropped.guard())).unwrap();
    assert!(early.cancel(), "before it ever ran");
    bench.turns(2);
    assert_eq!(dropped.taken(), [true]);
}

/// Checks that a shutdown drops the loop's futures on the loop and cancels their promises.
pub fn l15_futures_are_dropped_on_the_loop_at_shutdown(drivers: &dyn OpenDriver) {
    let (mut bench, dropped) = (Bench::new(drivers), Dropped::default());
    let guard = dropped.guard();
    let local = bench.here(|here| here.spawn_local(keep(guard)));
    let sent = bench.event_loop().spawn(keep(dropped.guard())).unwrap();
    let guard = dropped.guard();
    let asleep = bench.event_loop().spawn(async move {
        sleep(TIMEOUT).await;
        drop(guard);
    });
    bench.turns(2);
    let _ended = bench.event_loop().shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap();
    bench.until_over();
    assert_eq!(dropped.taken(), [true; 3]);
    assert!(local.is_done());
    for outcome in [sent, asleep.unwrap()] {
        assert!(matches!(outcome.join().unwrap_err().kind(), ErrorKind::Cancelled));
    }
}

/// Checks that a future that was never polled is dropped on the loop, even if the loop never takes a turn.
pub fn l15_futures_of_a_dropped_loop_are_dropped_on_the_loop(drivers: &dyn OpenDriver) {
    let (bench, dropped) = (Bench::new(drivers), Dropped::default());
    let sent = bench.event_loop().spawn(keep(dropped.guard())).unwrap();
    drop(bench);
    assert_eq!(dropped.taken(), [true]);
    assert!(matches!(sent.join().unwrap_err().kind(), ErrorKind::Cancelled));
}

/// Checks that a future that panicked is dropped on the loop.
pub fn l15_a_future_that_panicked_is_dropped_on_the_loop(drivers: &dyn OpenDriver) {
    let (mut bench, dropped) = (Bench::new(drivers), Dropped::default());
    let guard = dropped.guard();
    let _failed: LocalJoin<()> = bench.here(|here| {
        here.spawn_local(async move {
            let _guard = guard;
            panic_quietly("in the middle")
        })
    });
    bench.turn();
    assert_eq!(dropped.taken(), [true]);
    assert_eq!(bench.reports.take_panics().len(), 1);
}

/// Checks that a panicking destructor of a future is reported, and that the loop continues.
pub fn e12_a_future_whose_drop_panics_is_reported(drivers: &dyn OpenDriver) {
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic_quietly("boom");
        }
    }
    let mut bench = Bench::new(drivers);
    let bomb = PanicsOnDrop;
    let join = bench.here(|here| {
        here.spawn_local(async move {
            let _bomb = bomb;
            pending::<()>().await;
        })
    });
    bench.turn();
    join.abort();
    assert!(bench.turn());
    assert_eq!(bench.reports.take_panics(), [(UserCode::Destructor, "boom".to_owned())]);
    let ran = bench.event_loop().submit(|| ()).unwrap();
    bench.turn();
    assert!(ran.is_done() && join.is_done());
}

/// Checks that a terminated loop returns a spawned future.
pub fn l15_a_spawn_after_shutdown_returns_the_future(drivers: &dyn OpenDriver) {
    let (mut bench, dropped) = (Bench::new(drivers), Dropped::default());
    let event_loop = bench.event_loop();
    let _ended = event_loop.shutdown();
    bench.until_over();
    let rejected = event_loop.spawn(keep(dropped.guard()));
    let Err(rejected) = rejected else { panic!("accepted by a loop that is over") };
    assert!(matches!(rejected.reason(), RejectReason::ShutDown));
    assert!(dropped.taken().is_empty(), "it is ours");
    drop(rejected.into_task());
    assert_eq!(dropped.taken(), [false]);
}

/// Checks that a waker that outlives its loop has no effect.
pub fn l15_a_wake_after_the_loops_end_is_harmless(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let waker: Arc<Mutex<Option<Waker>>> = Arc::default();
    let keeps = waker.clone();
    let _sent = bench.event_loop().spawn(poll_fn(move |context| {
        *keeps.lock().unwrap() = Some(context.waker().clone());
        Poll::<()>::Pending
    }));
    bench.turn();
    let waker = waker.lock().unwrap().take().expect("it was polled");
    drop(bench);
    waker.wake_by_ref();
    std::thread::spawn(move || waker.wake()).join().unwrap();
}

/// Checks that futures spawned by a destructor during teardown are dropped.
pub fn l15_a_future_spawned_by_a_destructor_at_the_end_is_dropped(drivers: &dyn OpenDriver) {
    struct Spawns(Dropped);
    impl Drop for Spawns {
        fn drop(&mut self) {
            if let Some(here) = LocalLoop::current() {
                drop(here.spawn_local(keep(self.0.guard())));
            }
        }
    }
    let (mut bench, dropped) = (Bench::new(drivers), Dropped::default());
    let spawns = Spawns(dropped.clone());
    drop(bench.here(|here| {
        here.spawn_local(async move {
            let _spawns = spawns;
            pending::<()>().await;
        })
    }));
    bench.turn();
    drop(bench);
    assert_eq!(dropped.taken(), [true]);
}
