//! A guided tour: what executors, groups, timers, event loops and channels do, told while they do it.
//!
//! `cargo run --release -p waterwheel-tour` takes a second or two and ends by itself with status 0. A stop
//! of the tour is a file.

mod awaiting;
mod event_loop;
mod flood;
mod foreign;
mod group;
mod one_executor;
mod pipeline;
mod show;
mod virtual_time;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    // The tour shows how a panic is survived; its backtrace is not part of the show.
    std::panic::set_hook(Box::new(|panic| println!("  a panic at {}", panic.location().unwrap())));
    one_executor::visit()?;
    flood::visit()?;
    group::visit()?;
    virtual_time::visit()?;
    event_loop::visit()?;
    pipeline::visit()?;
    println!("\nEverything that was accepted has run; every thread is gone.");
    Ok(())
}
