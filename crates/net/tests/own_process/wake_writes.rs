//! Wake-ups as the kernel counts them: the waker of epoll is an eventfd that is never read, so its counter is
//! the number of writes (E10). Counts the eventfds of its process.

#[path = "../support/loop_rig.rs"]
mod loop_rig;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use waterwheel_channel::EventLoopGroup;
use waterwheel_net::Epoll;

use loop_rig::LoopRig;

const EACH: u64 = 100_000;

#[test]
fn e10_the_eventfd_is_written_at_most_once_per_sleep() {
    assert!(counters().is_empty(), "no other eventfd is open");
    let rig = LoopRig::new(EventLoopGroup::builder(Epoll));
    let ran = Arc::new(AtomicU64::new(0));
    // First one by one, so that the loop sleeps in between, then as fast as possible.
    for n in 1..=100 {
        rig.run_on_loop(|_| ());
        rig.wait_until_asleep();
        assert!(counters()[0] <= 2 * n, "one wake-up is one write");
    }
    let producers = [(); 4].map(|()| {
        let (event_loop, ran) = (rig.event_loop.clone(), ran.clone());
        thread::spawn(move || {
            for _ in 0..EACH {
                let ran = ran.clone();
                let count = move || {
                    ran.fetch_add(1, Ordering::Relaxed);
                };
                event_loop.execute(count).unwrap();
            }
        })
    });
    producers.into_iter().for_each(|producer| producer.join().unwrap());
    rig.end();
    assert_eq!(ran.load(Ordering::Relaxed), 4 * EACH);
    let stats = rig.event_loop.stats();
    let [writes] = counters()[..] else { panic!("one eventfd") };
    assert!(writes >= 100, "each submission needs a wake-up: {writes}");
    assert!(writes <= stats.sleeps, "{writes} writes, {stats:?}");
    assert!(writes >= stats.wake_ups, "{writes} writes, {stats:?}");
}

/// Returns the counters of all eventfds of this process.
fn counters() -> Vec<u64> {
    let infos = fs::read_dir("/proc/self/fdinfo").unwrap();
    let counter = |info: fs::DirEntry| {
        let text = fs::read_to_string(info.path()).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("eventfd-count:"))?;
        Some(u64::from_str_radix(line.trim(), 16).unwrap())
    };
    infos.filter_map(|info| counter(info.unwrap())).collect()
}
