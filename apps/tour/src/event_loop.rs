//! An event loop at work: what it watches, what it awaits, what it counts, and how it ends.

use std::time::Duration;

use waterwheel::channel::{EventLoopGroup, LoopMetrics};
use waterwheel::executor::Clock;
use waterwheel::net::Auto;

use crate::foreign::Pipe;
use crate::show::{LIMIT, chapter};
use crate::{Outcome, awaiting, foreign};

pub(crate) fn visit() -> Outcome {
    let group = EventLoopGroup::builder(Auto).threads(1).name("wheel").build()?;
    let event_loop = group.next();

    chapter("An event loop: a pipe that it watches");
    println!("driver: {}", event_loop.driver_name());
    foreign::visit(&event_loop)?;

    chapter("The same loop: futures");
    awaiting::visit(&event_loop)?;

    chapter("What the loop has counted");
    show(&event_loop.metrics());

    chapter("Its graceful end");
    let left = Pipe::watched_by(&event_loop)?;
    let begun = Clock::Monotonic.now();
    let ended = group.shutdown_gracefully(Duration::from_millis(100), LIMIT)?;
    let late_comer = event_loop.submit(|| "accepted while shutting down")?;
    println!("  what is still registered is told at once: {}", left.next_word()?);
    println!("  {}", late_comer.join()?);
    ended.join()?;
    println!("  terminated after {:.0?}", Clock::Monotonic.now().since(begun));
    Ok(())
}

fn show(metrics: &LoopMetrics) {
    let LoopMetrics { turns, ready_events, tasks, futures_polled, .. } = metrics;
    println!("  {turns} turns: {ready_events} events, {tasks} tasks, {futures_polled} polls");
    println!(
        "  its waits were ended by I/O {} times, by other threads {}, by timers {}, for nothing {}",
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
