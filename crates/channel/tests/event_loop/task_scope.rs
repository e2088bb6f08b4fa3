//! Sets of futures that end as one (A02).

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};

use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{EventLoopGroup, ManualEventLoop, TaskScope};
use waterwheel_executor::ErrorKind;

fn manual_loop() -> ManualEventLoop {
    EventLoopGroup::builder(TaskOnly).build_manual().unwrap()
}

/// Returns a loop with a scope on it.
fn scope() -> (ManualEventLoop, TaskScope) {
    let mut event_loop = manual_loop();
    let scope = event_loop.on_loop(TaskScope::new).unwrap();
    (event_loop, scope)
}

/// Counts its drop.
struct Dropped(Rc<Cell<u32>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a02_the_end_of_a_scope_drops_every_future_at_once() {
    let (mut event_loop, scope) = scope();
    let dropped = Rc::new(Cell::new(0));
    let joins: Vec<_> = (0..3)
        .map(|_| {
            let guard = Dropped(dropped.clone());
            event_loop
                .on_loop(|_| {
                    scope.spawn(async move {
                        let _guard = guard;
                        pending::<()>().await;
                    })
                })
                .unwrap()
        })
        .collect();
    event_loop.turn(None);
    assert_eq!((scope.len(), dropped.get()), (3, 0));
    event_loop.on_loop(|_| {
        scope.end();
        assert_eq!(dropped.get(), 3, "before the call returns");
    });
    assert!(scope.is_empty() && scope.has_ended());
    assert!(joins.iter().all(waterwheel_channel::LocalJoin::is_done));
}

#[test]
fn a02_a_future_that_completes_leaves_its_scope() {
    let (mut event_loop, scope) = scope();
    let done = event_loop.on_loop(|_| scope.spawn(async {})).unwrap();
    assert_eq!(scope.len(), 1);
    event_loop.turn(None);
    assert!(done.is_done() && scope.is_empty() && !scope.has_ended());
}

#[test]
fn a02_every_future_is_polled_once_more_at_the_end() {
    let (mut event_loop, scope) = scope();
    let (is_over, seen) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let (over, polls) = (is_over.clone(), seen.clone());
    let join = event_loop
        .on_loop(|_| {
            scope.spawn(poll_fn(move |_| {
                polls.set(polls.get() + 1);
                if over.get() { Poll::Ready("saw the end") } else { Poll::Pending }
            }))
        })
        .unwrap();
    event_loop.turn(None);
    is_over.set(true);
    event_loop.on_loop(|_| scope.end());
    assert_eq!(seen.get(), 2);
    let outcome = Rc::new(Cell::new(None));
    let told = outcome.clone();
    event_loop.on_loop(|here| {
        here.spawn_local(async move { told.set(join.await.ok()) });
    });
    event_loop.turn(None);
    assert_eq!(outcome.get(), Some("saw the end"));
}

#[test]
fn a02_a_future_spawned_after_the_end_is_dropped_and_cancelled() {
    let (mut event_loop, scope) = scope();
    let (dropped, outcome) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(None)));
    event_loop.on_loop(|here| {
        scope.end();
        let guard = Dropped(dropped.clone());
        let late = scope.spawn(async move { drop(guard) });
        assert_eq!(dropped.get(), 1, "never polled, and dropped at once");
        let outcome = outcome.clone();
        here.spawn_local(async move { *outcome.borrow_mut() = Some(late.await) });
    });
    event_loop.turn(None);
    let outcome = outcome.take().unwrap();
    assert!(matches!(outcome.unwrap_err().kind(), ErrorKind::Cancelled));
    assert!(scope.is_empty());
}

#[test]
fn a02_a_future_may_end_its_own_scope() {
    let (mut event_loop, scope) = scope();
    let dropped = Rc::new(Cell::new(0));
    for _ in 0..2 {
        let (guard, own) = (Dropped(dropped.clone()), scope.clone());
        event_loop.on_loop(|_| {
            scope.spawn(async move {
                let _guard = guard;
                own.end();
                pending::<()>().await;
            })
        });
    }
    event_loop.turn(None);
    assert_eq!(dropped.get(), 2);
    assert!(scope.is_empty());
}

#[test]
fn a02_a_destructor_may_use_the_scope_that_ends() {
    struct SpawnsAgain(TaskScope, Rc<Cell<u32>>);
    impl Drop for SpawnsAgain {
        fn drop(&mut self) {
            let guard = Dropped(self.1.clone());
            self.0.spawn(async move { drop(guard) });
            self.0.end();
        }
    }
    let (mut event_loop, scope) = scope();
    let dropped = Rc::new(Cell::new(0));
    let guard = SpawnsAgain(scope.clone(), dropped.clone());
    event_loop.on_loop(|_| {
        scope.spawn(async move {
            let _guard = guard;
            pending::<()>().await;
        });
        scope.end();
    });
    assert_eq!(dropped.get(), 1);
    assert!(scope.is_empty());
}

#[test]
fn l15_poll_now_polls_inside_of_the_call_and_not_again_in_the_task_phase() {
    let mut event_loop = manual_loop();
    let (polls, waker) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(None::<Waker>)));
    let (count, kept) = (polls.clone(), waker.clone());
    let join = event_loop
        .on_loop(|here| {
            here.spawn_local(poll_fn(move |context| {
                count.set(count.get() + 1);
                *kept.borrow_mut() = Some(context.waker().clone());
                Poll::<()>::Pending
            }))
        })
        .unwrap();
    event_loop.turn(None);
    assert_eq!(polls.get(), 1);
    let waker = waker.take().unwrap();
    assert!(join.is_woken_by(&waker) && !join.is_woken_by(Waker::noop()));
    event_loop.on_loop(|here| {
        waker.wake_by_ref();
        assert!(join.poll_now(here));
        assert_eq!(polls.get(), 2);
    });
    event_loop.turn(Some(std::time::Duration::ZERO));
    assert_eq!(polls.get(), 2, "the wake was served");
    waker.wake();
    event_loop.turn(None);
    assert_eq!(polls.get(), 3, "a later wake is not lost");
}
