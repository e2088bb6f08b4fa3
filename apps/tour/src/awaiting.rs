//! Futures on an event loop: a sleep, a timeout, and futures that are not `Send`.

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use waterwheel::channel::{EventLoop, LocalLoop, interval, sleep, timeout};
use waterwheel::executor::Clock;

use crate::TourResult;
use crate::show::thread_name;

const SHORT: Duration = Duration::from_millis(20);

pub(crate) fn run(event_loop: &EventLoop) -> TourResult {
    let slept = event_loop.spawn(async {
        let begun = Clock::Monotonic.now();
        sleep(SHORT).await;
        (thread_name(), Clock::Monotonic.now().since(begun))
    })?;
    let (thread, time) = slept.join()?;
    println!("  a sleep of {SHORT:?} on {thread} took {time:.1?}");

    let given_up = event_loop.spawn(async { timeout(SHORT, pending::<()>()).await })?;
    println!("  a future that is never ready: {:?}", given_up.join()?);

    let (promise, counted) = event_loop.new_promise();
    event_loop.execute(move || {
        let here = LocalLoop::current().expect("a task of a loop runs on it");
        let ticks = count_ticks(here.clone());
        here.spawn_local(async move { promise.set_success(ticks.await) });
    })?;
    println!("  {} ticks, counted by two futures that share a cell", counted.join()?);
    Ok(())
}

/// Runs two futures that are not `Send`: they stay on their loop and need no lock.
async fn count_ticks(here: LocalLoop) -> u32 {
    let count = Rc::new(Cell::new(0));
    let counting = count.clone();
    let ticker = here.spawn_local(async move {
        let mut ticks = interval(Duration::from_millis(5));
        for _ in 0..3 {
            ticks.tick().await;
            counting.set(counting.get() + 1);
        }
    });
    ticker.await.expect("the future neither panics nor is aborted");
    count.get()
}
