//! A million tasks from two producers, and how rarely the loop had to be woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use waterwheel::executor::{Clock, EventExecutor};

use crate::TourResult;
use crate::show::{self, LIMIT, chapter};

const PRODUCERS: u64 = 2;
const EACH: u64 = 500_000;

pub(crate) fn run() -> TourResult {
    chapter("A million tasks from two threads");
    let executor = EventExecutor::builder().name("flood").build()?;
    let sum = Arc::new(AtomicU64::new(0));
    let begun = Clock::Monotonic.now();
    thread::scope(|scope| {
        for _ in 0..PRODUCERS {
            let (executor, sum) = (&executor, &sum);
            scope.spawn(move || {
                for n in 0..EACH {
                    let sum = sum.clone();
                    let add = move || {
                        sum.fetch_add(n, Ordering::Relaxed);
                    };
                    executor.execute(add).expect("no bound, no shutdown");
                }
            });
        }
    });
    executor.submit(|| ())?.join()?; // Queued after all of them.
    let took = Clock::Monotonic.now().since(begun);
    let expected = PRODUCERS * (EACH * (EACH - 1) / 2);
    println!("sum {} (expected {expected}) in {took:.0?}", sum.load(Ordering::Relaxed));
    show::stats(&executor.stats());
    executor.shutdown_gracefully(Duration::ZERO, LIMIT)?.join()?;
    executor.join()?;
    Ok(())
}
