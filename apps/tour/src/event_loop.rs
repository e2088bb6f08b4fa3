//! An event loop: a foreign file descriptor, futures, metrics, and the shutdown.

use std::time::Duration;

use waterwheel::channel::{EventLoopGroup, LoopMetrics};
use waterwheel::executor::Clock;
use waterwheel::net::Auto;

use crate::foreign::Pipe;
use crate::show::{LIMIT, chapter};
use crate::{TourResult, awaiting, foreign};

pub(crate) fn run() -> TourResult {
    let group = EventLoopGroup::builder(Auto).threads(1).name("wheel").build()?;
    let event_loop = group.next();

    chapter("An event loop: a registered pipe");
    println!("driver: {}", event_loop.driver_name());
    foreign::run(&event_loop)?;

    chapter("The same loop: futures");
    awaiting::run(&event_loop)?;

    chapter("Metrics of the loop");
    show(&event_loop.metrics());

    chapter("Graceful shutdown of the loop");
    let left = Pipe::watched_by(&event_loop)?;
    let begun = Clock::Monotonic.now();
    let ended = group.shutdown_gracefully(Duration::from_millis(100), LIMIT)?;
    let late_task = event_loop.submit(|| "accepted while shutting down")?;
    println!("  a handler that is still registered is notified at once: {}", left.next_message()?);
    println!("  {}", late_task.join()?);
    ended.join()?;
    println!("  terminated after {:.0?}", Clock::Monotonic.now().since(begun));
    Ok(())
}

fn show(metrics: &LoopMetrics) {
    let LoopMetrics { turns, ready_events, tasks, futures_polled, .. } = metrics;
    println!("  {turns} turns: {ready_events} events, {tasks} tasks, {futures_polled} polls");
    println!(
        "  waits ended by I/O: {}, by other threads: {}, by timers: {}, spuriously: {}",
        metrics.wake_ups_by_io,
        metrics.wake_ups_by_task,
        metrics.wake_ups_by_timer,
        metrics.premature_returns
    );
    println!(
        "  time waiting {:.0?}, on events {:.0?}, on tasks {:.0?}",
        metrics.time_waiting, metrics.time_in_io, metrics.time_in_tasks
    );
}
