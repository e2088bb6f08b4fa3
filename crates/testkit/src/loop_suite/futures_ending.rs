//! How futures end that are not through: abort, cancel, shutdown (L15, E16).

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use waterwheel_channel::driver::OpenDriver;
use waterwheel_channel::{LocalJoin, LocalLoop, sleep};
use waterwheel_executor::{ErrorKind, RejectReason, UserCode};

use super::bench::{Bench, PATIENCE, blow};

/// Notes whether it was dropped on a loop.
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

/// Keeps what it is given, for ever.
async fn keep(guard: Guard) {
    pending::<()>().await;
    drop(guard);
}

/// What a join gives, once it is ready.
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

/// An aborted future is dropped on the loop, and its join says "cancelled".
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

/// One that is through is not aborted any more; two aborts are one.
pub fn l15_an_abort_comes_too_late_or_twice(drivers: &dyn OpenDriver) {
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

/// A future that aborts itself while it is polled is dropped after that.
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

/// Cancelling the outcome of a spawn drops the future, on the loop.
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

/// At the loop's end its futures are dropped there, and whoever awaits them is told.
pub fn l15_futures_are_dropped_on_the_loop_at_shutdown(drivers: &dyn OpenDriver) {
    let (mut bench, dropped) = (Bench::new(drivers), Dropped::default());
    let guard = dropped.guard();
    let local = bench.here(|here| here.spawn_local(keep(guard)));
    let sent = bench.event_loop().spawn(keep(dropped.guard())).unwrap();
    let guard = dropped.guard();
    let asleep = bench.event_loop().spawn(async move {
        sleep(PATIENCE).await;
        drop(guard);
    });
    bench.turns(2);
    let _ended = bench.event_loop().shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
    bench.until_over();
    assert_eq!(dropped.taken(), [true; 3]);
    assert!(local.is_done());
    for outcome in [sent, asleep.unwrap()] {
        assert!(matches!(outcome.join().unwrap_err().kind(), ErrorKind::Cancelled));
    }
}

/// One that was spawned and never polled is dropped on the loop too, even if the loop never turns.
pub fn l15_futures_of_a_dropped_loop_are_dropped_there(drivers: &dyn OpenDriver) {
    let (bench, dropped) = (Bench::new(drivers), Dropped::default());
    let sent = bench.event_loop().spawn(keep(dropped.guard())).unwrap();
    drop(bench);
    assert_eq!(dropped.taken(), [true]);
    assert!(matches!(sent.join().unwrap_err().kind(), ErrorKind::Cancelled));
}

/// A future that panicked is dropped on the loop.
pub fn l15_a_future_that_panicked_is_dropped_on_the_loop(drivers: &dyn OpenDriver) {
    let (mut bench, dropped) = (Bench::new(drivers), Dropped::default());
    let guard = dropped.guard();
    let _failed: LocalJoin<()> = bench.here(|here| {
        here.spawn_local(async move {
            let _guard = guard;
            blow("in the middle")
        })
    });
    bench.turn();
    assert_eq!(dropped.taken(), [true]);
    assert_eq!(bench.reports.take_panics().len(), 1);
}

/// A destructor that panics is reported, and the loop lives on.
pub fn e12_a_future_whose_drop_panics_is_reported(drivers: &dyn OpenDriver) {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            blow("boom");
        }
    }
    let mut bench = Bench::new(drivers);
    let bomb = Bomb;
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

/// What comes after the end comes back.
pub fn l15_a_spawn_after_shutdown_gives_the_future_back(drivers: &dyn OpenDriver) {
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

/// A waker that outlived its loop wakes nobody.
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

/// Futures that a dying future spawns are dropped as well.
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
