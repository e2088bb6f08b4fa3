//! Timers on a group with the chooser `LeastLoaded`, and a graceful shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use waterwheel::executor::{Clock, EventExecutorGroup, LeastLoaded};

use crate::TourResult;
use crate::show::{LIMIT, chapter};

pub(crate) fn run() -> TourResult {
    chapter("A group of four executors: timers and a graceful shutdown");
    let group = EventExecutorGroup::builder()
        .threads(4)
        .name("group")
        .chooser(LeastLoaded::default())
        .build()?;
    let ticks = Arc::new(AtomicU64::new(0));
    let counting = ticks.clone();
    let ticker =
        group.schedule_at_fixed_rate(Duration::ZERO, Duration::from_millis(20), move || {
            counting.fetch_add(1, Ordering::Relaxed);
        })?;
    let naps = [120_u64, 40, 80].map(|ms| {
        let due = Clock::Monotonic.now().plus(Duration::from_millis(ms));
        group.schedule(Duration::from_millis(ms), move || (ms, Clock::Monotonic.now().since(due)))
    });
    for nap in naps {
        let (ms, late) = nap?.join()?;
        println!("  the {ms} ms timer fired {late:.0?} late");
    }
    println!("  {} ticks of the 20 ms timer meanwhile", ticks.load(Ordering::Relaxed));
    ticker.cancel();

    let squares = group.all((1..=8).map(|n| group.submit(move || n * n).expect("not shut down")));
    println!("  squares, gathered from the children: {:?}", squares.join()?);

    let pending = group.schedule(Duration::from_secs(3600), || ())?;
    let quiet = Duration::from_millis(100);
    let begun = Clock::Monotonic.now();
    let ended = group.shutdown_gracefully(quiet, LIMIT)?;
    let late_task = group.submit(|| "accepted while shutting down")?;
    println!("  {}", late_task.join()?);
    ended.join()?;
    println!("  terminated after {:.0?}", Clock::Monotonic.now().since(begun));
    println!("  a timer an hour away: {}", pending.join().expect_err("it was cancelled"));
    Ok(())
}
