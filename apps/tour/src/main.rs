//! A guided tour: what an executor, a group and its timers do, told while they do it.
//!
//! `cargo run --release` takes a second or two and ends by itself with status 0.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use waterwheel::executor::{
    Clock, EventExecutor, EventExecutorGroup, ExecutorStats, LeastLoaded, ManualExecutor,
    VirtualClock,
};

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    // The tour shows how a panic is survived; its backtrace is not part of the show.
    std::panic::set_hook(Box::new(|panic| println!("  a panic at {}", panic.location().unwrap())));
    one_executor()?;
    a_flood()?;
    a_group_and_its_timers()?;
    an_hour_in_no_time()?;
    println!("\nEverything that was accepted has run; every thread is gone.");
    Ok(())
}

/// Tasks in order, a promise, a panic survived, a task handed back after the end.
fn one_executor() -> Outcome {
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

    executor.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
    let rejected = executor.execute(|| ()).expect_err("it has terminated");
    println!("after the end: {rejected}, and the closure came back");
    Ok(())
}

/// Two producers, a million tasks, and how seldom the loop had to be woken.
fn a_flood() -> Outcome {
    const PRODUCERS: u64 = 2;
    const EACH: u64 = 500_000;
    chapter("A flood: a million tasks from two threads");
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
    executor.submit(|| ())?.join()?; // Behind all of them.
    let took = Clock::Monotonic.now().since(begun);
    let expected = PRODUCERS * (EACH * (EACH - 1) / 2);
    println!("sum {} (expected {expected}) in {took:.0?}", sum.load(Ordering::Relaxed));
    show(&executor.stats());
    end(&executor)
}

/// Timers on a group whose work goes to the shortest queue.
fn a_group_and_its_timers() -> Outcome {
    chapter("A group of four, its timers, and a graceful end");
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
    let ended = group.shutdown_gracefully(quiet, Duration::from_secs(5))?;
    let late_comer = group.submit(|| "accepted while shutting down")?;
    println!("  {}", late_comer.join()?);
    ended.join()?;
    println!("  terminated after {:.0?}", Clock::Monotonic.now().since(begun));
    println!("  a timer an hour away: {}", pending.join().expect_err("it was cancelled"));
    Ok(())
}

/// The same code on a clock that moves when told.
fn an_hour_in_no_time() -> Outcome {
    chapter("An hour of virtual time");
    let mut manual = ManualExecutor::with_virtual_clock(VirtualClock::new());
    let minutes = Arc::new(AtomicU64::new(0));
    let counting = minutes.clone();
    let minute = Duration::from_secs(60);
    let ticker = manual.executor().schedule_at_fixed_rate(minute, minute, move || {
        counting.fetch_add(1, Ordering::Relaxed);
    })?;
    let begun = Clock::Monotonic.now();
    manual.run_for(Duration::from_secs(3600));
    let took = Clock::Monotonic.now().since(begun);
    println!("{} minutes went by in {took:.0?}", minutes.load(Ordering::Relaxed));
    ticker.cancel();
    Ok(())
}

fn end(executor: &EventExecutor) -> Outcome {
    executor.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
    executor.join()?;
    Ok(())
}

fn show(stats: &ExecutorStats) {
    println!(
        "turns {}, sleeps {}, woken {}, tasks {}, queued {}",
        stats.turns, stats.sleeps, stats.wake_ups, stats.tasks, stats.queue_depth
    );
}

fn chapter(title: &str) {
    println!("\n== {title}");
}

fn thread_name() -> String {
    thread::current().name().unwrap_or("a nameless thread").to_owned()
}
