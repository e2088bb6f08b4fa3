//! Executor groups (E01, E17, E18, E21).

#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

use waterwheel_executor::{EventExecutorGroup, PromiseFuture};

use support::TIMEOUT;

mod building;
mod children;
mod choosers;
mod growth;
mod termination;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn group(threads: usize) -> EventExecutorGroup {
    EventExecutorGroup::builder().threads(threads).build().unwrap()
}

fn get<T: Send + 'static>(future: PromiseFuture<T>) -> T {
    future.wait_timeout(TIMEOUT).expect("completed in time");
    future.join().unwrap()
}

fn end_group(group: &EventExecutorGroup) {
    drop(group.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap());
    group.await_termination(TIMEOUT).unwrap();
}
