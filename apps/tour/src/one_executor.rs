//! One executor: tasks in order, a promise, a task that panics, a submission after the shutdown.

use std::time::Duration;

use waterwheel::executor::EventExecutor;

use crate::TourResult;
use crate::show::{LIMIT, chapter, thread_name};

pub(crate) fn run() -> TourResult {
    chapter("One executor: tasks in order, results as futures");
    let executor = EventExecutor::builder().name("tour").build()?;
    println!("built: {:?}, no thread yet", executor.state());
    for n in 1..=3 {
        executor.execute(move || println!("  task {n}, on {}", thread_name()))?;
    }
    let mut answer = executor.submit(|| 6 * 7)?;
    answer.add_listener(|outcome| println!("  listener, on {}: {outcome:?}", thread_name()));
    println!("joined: {}", answer.join()?);

    let future = executor.labelled("fragile").submit(|| "water".parse::<u32>().unwrap())?;
    if let Err(error) = future.join() {
        println!("survived: {error}");
    }
    println!("still {:?}", executor.state());

    executor.shutdown_gracefully(Duration::ZERO, LIMIT)?.join()?;
    let rejected = executor.execute(|| ()).expect_err("it has terminated");
    println!("after the end: {rejected}, and the closure came back");
    Ok(())
}
