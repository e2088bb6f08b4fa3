//! Output helpers of the tour.

use std::thread;
use std::time::Duration;

use waterwheel::executor::ExecutorStats;

/// Upper bound of every wait; the tour fails when it is reached.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn chapter(title: &str) {
    println!("\n== {title}");
}

pub(crate) fn stats(stats: &ExecutorStats) {
    println!(
        "turns {}, sleeps {}, woken {}, tasks {}, queued {}",
        stats.turns, stats.sleeps, stats.wake_ups, stats.tasks, stats.queue_depth
    );
}

pub(crate) fn thread_name() -> String {
    thread::current().name().unwrap_or("an unnamed thread").to_owned()
}
