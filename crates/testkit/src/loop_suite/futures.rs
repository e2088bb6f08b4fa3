//! Futures on a loop, and how they are polled (L15).

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use waterwheel_channel::LocalLoop;
use waterwheel_channel::driver::OpenDriver;
use waterwheel_executor::{ErrorKind, RejectReason, UserCode};

use super::bench::{Bench, panic_quietly};

/// A future that wakes itself at the first poll and is ready at the second.
async fn one_more_turn() {
    let mut polled = false;
    poll_fn(|context| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Checks that `spawn_local` and `spawn` run their futures on the loop.
pub fn l15_futures_run_on_the_loop(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let not_send = Rc::new(Cell::new(0));
    let inside = not_send.clone();
    let local = bench.here(|here| {
        here.spawn_local(async move {
            one_more_turn().await;
            inside.set(inside.get() + 1);
            inside
        })
    });
    let mut sent = bench.event_loop().spawn(async { LocalLoop::current().is_some() }).unwrap();
    assert!(!local.is_done() && sent.try_take().is_none(), "never inline");
    bench.turns(2);
    assert!(local.is_done());
    assert_eq!(not_send.get(), 1);
    assert!(sent.try_take().expect("it is through").unwrap());
}

/// Checks that futures spawn and await other futures of their loop.
pub fn l15_a_future_spawns_and_awaits_others(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let sum = bench.here(|here| {
        let here = here.clone();
        here.clone().spawn_local(async move {
            let one = here.spawn_local(async { Rc::new(1) });
            let two = here.spawn_local({
                let here = here.clone();
                async move { *here.spawn_local(async { Rc::new(2) }).await.unwrap() }
            });
            *one.await.unwrap() + two.await.unwrap()
        })
    });
    let seen = Rc::new(Cell::new(0));
    let sees = seen.clone();
    bench.here(|here| here.spawn_local(async move { sees.set(sum.await.unwrap()) }));
    bench.turns(8);
    assert_eq!(seen.get(), 3);
}

/// Checks that a turn polls each future once, so that a future that wakes itself delays no other work.
pub fn l15_a_turn_polls_a_future_once(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let polls = Rc::new(Cell::new(0));
    let counts = polls.clone();
    let _restless = bench.here(|here| {
        here.spawn_local(poll_fn(move |context| {
            counts.set(counts.get() + 1);
            context.waker().wake_by_ref();
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        }))
    });
    for turn in 1..=20 {
        let ran = bench.event_loop().submit(|| ()).unwrap();
        let rang = bench.here(|here| here.handle().schedule(Duration::ZERO, || ()).unwrap());
        let polled = bench.event_loop().spawn(async {}).unwrap();
        bench.turn();
        assert_eq!(polls.get(), turn);
        assert!(ran.is_done() && rang.is_done() && polled.is_done(), "in turn {turn}");
    }
}

/// Checks that a loop with a woken future does not sleep.
pub fn l15_a_loop_does_not_sleep_over_a_ready_future(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let before = bench.now();
    let done = bench.here(|here| {
        here.spawn_local(async {
            for _ in 0..5 {
                one_more_turn().await;
            }
        })
    });
    for _ in 0..6 {
        bench.manual.turn(Some(super::bench::TIMEOUT));
    }
    assert!(done.is_done());
    assert!(bench.now().since(before) < super::bench::TIMEOUT);
}

/// Checks that wakes on the loop's own thread queue no command and cause one poll.
pub fn l15_a_wake_on_the_loop_costs_no_command(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let waker: Rc<RefCell<Option<Waker>>> = Rc::default();
    let (kept, go) = (waker.clone(), Rc::new(Cell::new(false)));
    let may = go.clone();
    let done = bench.here(|here| {
        here.spawn_local(poll_fn(move |context| {
            *kept.borrow_mut() = Some(context.waker().clone());
            if may.get() { Poll::Ready(()) } else { Poll::Pending }
        }))
    });
    bench.turn();
    bench.turn();
    assert!(!done.is_done());
    let polls = bench.metrics().futures_polled;
    go.set(true);
    bench.here(|_| {
        for _ in 0..10 {
            waker.borrow().as_ref().unwrap().wake_by_ref();
        }
    });
    assert_eq!(bench.metrics().queue_depth, 0);
    bench.turn();
    assert!(done.is_done());
    assert_eq!(bench.metrics().futures_polled, polls + 1, "many wakes, one poll");
}

/// Checks that a panic of a future fails its join handle and is reported, and that the loop continues.
pub fn e12_a_future_that_panics_fails_and_is_reported(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let sent = bench.event_loop().spawn(async { panic_quietly("sent") }).unwrap();
    let local = bench.here(|here| here.spawn_local(async { panic_quietly("local") }));
    let seen = Rc::new(RefCell::new(String::new()));
    let sees = seen.clone();
    let _awaits = bench.here(|here| {
        here.spawn_local(async move {
            let failed: Result<(), _> = local.await;
            *sees.borrow_mut() = failed.unwrap_err().to_string();
        })
    });
    assert!(bench.turn());
    bench.turns(2);
    let failed: Result<(), _> = sent.join();
    assert!(
        matches!(failed.unwrap_err().kind(), ErrorKind::Panicked { message, .. } if message == "sent")
    );
    assert!(seen.borrow().contains("local"), "{}", seen.borrow());
    let mut reported = bench.reports.take_panics();
    reported.sort_by(|a, b| a.1.cmp(&b.1));
    assert_eq!(
        reported,
        [(UserCode::Future, "local".to_owned()), (UserCode::Future, "sent".to_owned())]
    );
}

/// Checks that a future continues when its join handle is dropped.
pub fn l15_dropping_a_join_detaches(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let ran = Arc::new(Mutex::new(Vec::new()));
    let (first, second) = (ran.clone(), ran.clone());
    drop(bench.here(|here| {
        here.spawn_local(async move {
            one_more_turn().await;
            first.lock().unwrap().push("local");
        })
    }));
    drop(bench.event_loop().spawn(async move {
        one_more_turn().await;
        second.lock().unwrap().push("sent");
    }));
    bench.turns(3);
    let mut ran = ran.lock().unwrap().clone();
    ran.sort_unstable();
    assert_eq!(ran, ["local", "sent"]);
}

/// Checks that spawns count against the queue bound, and that a rejected future is returned.
pub fn l15_a_spawn_counts_against_the_queue_bound(drivers: &dyn OpenDriver) {
    let mut bench = Bench::with(drivers, |builder| builder.queue_bound(16));
    for _ in 0..16 {
        drop(bench.event_loop().spawn(pending::<()>()).unwrap());
    }
    let back = bench.event_loop().spawn(async { 7 });
    let Err(rejected) = back else { panic!("beyond the bound") };
    assert!(matches!(rejected.reason(), RejectReason::QueueFull { bound: 16 }));
    bench.turn();
    let again = bench.event_loop().spawn(rejected.into_task()).unwrap();
    bench.turn();
    assert_eq!(again.join().unwrap(), 7, "there is room, and it is the same future");
}
