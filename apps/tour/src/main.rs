//! A guided tour: runs executors, groups, timers, event loops and channels, and prints what they do.
//!
//! `cargo run --release -p waterwheel-tour` takes a second or two and ends with status 0. Each chapter is a file.

#![forbid(unsafe_code)]

mod awaiting;
mod event_loop;
mod foreign;
mod group;
mod million_tasks;
mod one_executor;
mod pipeline;
mod show;
mod virtual_time;

type TourResult = Result<(), Box<dyn std::error::Error>>;

fn main() -> TourResult {
    // One chapter panics on purpose: print the place without a backtrace.
    std::panic::set_hook(Box::new(|panic| println!("  a panic at {}", panic.location().unwrap())));
    one_executor::run()?;
    million_tasks::run()?;
    group::run()?;
    virtual_time::run()?;
    event_loop::run()?;
    pipeline::run()?;
    println!("\nEvery accepted task has run; every thread has ended.");
    Ok(())
}
