//! The cost of timers: a million pending at once, and a cancel for each scheduled timer.

use std::time::Duration;

use waterwheel::executor::{EventExecutor, ManualExecutor};

use crate::{MicroResult, Random, now};

/// Schedules `count` timers on the loop and cancels them in random order.
pub(crate) fn timers<X: Send + 'static>(executor: &EventExecutor<X>, count: usize) -> MicroResult {
    let on_loop = executor.clone();
    let (insert, cancel) = executor.submit(move || schedule_and_cancel(&on_loop, count))?.join()?;
    let each = count as f64;
    let (insert_ns, cancel_ns) =
        (insert.as_secs_f64() * 1e9 / each, cancel.as_secs_f64() * 1e9 / each);
    let per_second = 1e9 / (insert_ns + cancel_ns);
    println!(
        r#"{{"impl":"waterwheel","ops_s":{per_second:.0},"insert_ns":{insert_ns:.1},"cancel_ns":{cancel_ns:.1}}}"#
    );
    Ok(())
}

fn schedule_and_cancel<X: Send + 'static>(
    executor: &EventExecutor<X>,
    count: usize,
) -> (Duration, Duration) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let delays: Vec<_> =
        (0..count).map(|_| Duration::from_millis(1000 + random.next() % 59_000)).collect();
    let mut order: Vec<usize> = (0..count).collect();
    for i in (1..count).rev() {
        order.swap(i, (random.next() % (i as u64 + 1)) as usize);
    }
    let mut times = (Duration::ZERO, Duration::ZERO);
    let mut handles = Vec::with_capacity(count);
    for _ in 0..2 {
        let begun = now();
        for delay in &delays {
            handles.push(Some(executor.schedule(*delay, || ()).expect("not shut down")));
        }
        let scheduled = now();
        for &at in &order {
            let handle: Option<_> = handles[at].take();
            assert!(handle.is_some_and(|handle| handle.cancel()));
        }
        times = (scheduled.since(begun), now().since(scheduled));
        handles.clear();
    }
    times
}

/// Cancels one of `count` timers of equal delay and schedules another instead, `times` times.
pub(crate) fn rearm(count: usize, times: u64) -> MicroResult {
    const IDLE: Duration = Duration::from_secs(30);
    let mut manual = ManualExecutor::new();
    let executor = manual.executor().clone();
    let schedule = {
        let executor = executor.clone();
        move || executor.schedule(IDLE, || ()).expect("not shut down")
    };
    let measured = executor.submit(move || {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut handles: Vec<_> = (0..count).map(|_| schedule()).collect();
        let begun = now();
        for _ in 0..times {
            let at = (random.next() % count as u64) as usize;
            let before = std::mem::replace(&mut handles[at], schedule());
            assert!(before.cancel());
        }
        now().since(begun)
    })?;
    manual.run_now();
    let nanos = measured.join()?.as_secs_f64() * 1e9 / times as f64;
    println!(r#"{{"timers":{count},"times":{times},"ns_per_rearm":{nanos:.1}}}"#);
    Ok(())
}
