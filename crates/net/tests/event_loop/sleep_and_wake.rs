//! Sleeps, wake-ups, and spinning before a sleep (E10, L02).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use waterwheel_channel::EventLoopGroup;
use waterwheel_channel::driver::{Interest, OpenDriver};
use waterwheel_executor::Error;
use waterwheel_net::{Auto, CoarseEpoll, Epoll, Poll};

use crate::loop_rig::{LoopRig, TIME_LIMIT, on_every_loop, on_every_loop_with};

/// A spin time that outlasts every test: the loop must notice everything while it spins.
const ONE_HOUR: Duration = Duration::from_secs(3600);

#[test]
fn l02_a_loop_names_its_driver_and_each_driver_can_be_chosen() {
    fn name_of(driver: impl OpenDriver + 'static) -> &'static str {
        let group = EventLoopGroup::builder(driver).threads(2).build().unwrap();
        let names: Vec<_> = group.children().map(|child| child.driver_name()).collect();
        let inside = group.submit(|| waterwheel_channel::EventLoop::current().unwrap());
        assert_eq!(crate::loop_rig::get(inside.unwrap()).driver_name(), names[0]);
        assert_eq!(names[0], names[1]);
        names[0]
    }
    assert_eq!(name_of(Auto), "epoll", "the first choice of Auto");
    assert_eq!(name_of(Epoll), "epoll");
    assert_eq!(name_of(CoarseEpoll), "epoll");
    assert_eq!(name_of(Poll), "poll");
}

#[test]
fn e10_an_idle_loop_makes_no_turn_in_three_seconds() {
    let rigs = [
        LoopRig::new(EventLoopGroup::builder(Epoll)),
        LoopRig::new(EventLoopGroup::builder(CoarseEpoll)),
        LoopRig::new(EventLoopGroup::builder(Poll)),
    ];
    // A registration that is not ready and a distant timer do not wake the loop.
    let quiet = rigs.each_ref().map(|rig| {
        let far = rig.event_loop.schedule(Duration::from_secs(3600), || ()).unwrap();
        let never = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        (rig.watch(never, Interest::READABLE, |_, _| Ok(())), far)
    });
    let before = rigs.each_ref().map(|rig| {
        rig.wait_until_asleep();
        rig.event_loop.stats()
    });
    let (_tell, events) = channel::<()>();
    assert!(events.recv_timeout(Duration::from_secs(3)).is_err());
    let after = rigs.each_ref().map(|rig| rig.event_loop.stats());
    assert_eq!(before, after);
    drop(quiet);
}

#[test]
fn e10_a_later_timer_does_not_wake_the_loop_and_an_earlier_one_does() {
    on_every_loop(|rig| {
        let hour = Duration::from_secs(3600);
        let _soonest = rig.event_loop.schedule(hour, || ()).unwrap();
        rig.wait_until_asleep();
        let before = rig.event_loop.stats();
        let _later = rig.event_loop.schedule(2 * hour, || ()).unwrap();
        assert_eq!(rig.event_loop.stats().wake_ups, before.wake_ups);
        let _sooner = rig.event_loop.schedule(hour / 2, || ()).unwrap();
        assert_eq!(rig.event_loop.stats().wake_ups, before.wake_ups + 1);
    });
}

#[test]
fn e10_four_producers_wake_a_loop_at_most_once_a_sleep() {
    const EACH: u64 = 100_000;
    on_every_loop(|rig| {
        let ran = Arc::new(AtomicU64::new(0));
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
        let (stats, metrics) = (rig.event_loop.stats(), rig.event_loop.metrics());
        assert!(stats.wake_ups <= stats.sleeps, "{stats:?}");
        assert_eq!((metrics.premature_returns, metrics.rebuilds), (0, 0));
    });
}

#[test]
fn e10_submissions_reach_a_spinning_loop_without_a_wake_up() {
    on_every_loop_with(
        |builder| builder.spin_before_sleep(ONE_HOUR),
        |rig| {
            for n in 0..1000 {
                assert_eq!(rig.run_on_loop(move |_| n), n);
            }
            let stats = rig.event_loop.stats();
            assert_eq!((stats.sleeps, stats.wake_ups), (0, 0));
            assert!(stats.turns > 1, "{stats:?}");
        },
    );
}

#[test]
fn e10_a_spinning_loop_sees_events_and_keeps_deadlines() {
    on_every_loop_with(
        |builder| builder.spin_before_sleep(ONE_HOUR),
        |rig| {
            let source = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
            let (sender, read) = channel();
            let (_, events) = rig.watch(source.clone(), Interest::READABLE, move |source, _| {
                rustix::io::read(&**source, &mut [0; 8]).unwrap();
                sender.send(()).map_err(Error::new)
            });
            for _ in 0..20 {
                rustix::io::write(&*source, &1u64.to_ne_bytes()).unwrap();
                read.recv_timeout(TIME_LIMIT).expect("the event is seen");
            }
            assert_eq!(events.take(20), ["Readiness(readable)"; 20]);
            assert_eq!(rig.event_loop.stats().sleeps, 0, "all while the loop spins");
            for millis in [0, 1, 7, 30] {
                let delay = Duration::from_millis(millis);
                let (sender, rang) = channel();
                rig.run_on_loop(move |here| {
                    let (due, event_loop) = (here.now().plus(delay), here.clone().handle());
                    let ring = move || {
                        let here = waterwheel_channel::LocalLoop::current().unwrap();
                        sender.send((here.now() >= due, here.now().since(due))).unwrap();
                    };
                    drop(event_loop.schedule(delay, ring).unwrap());
                });
                let (in_time, late) = rang.recv_timeout(TIME_LIMIT).unwrap();
                assert!(in_time && late < TIME_LIMIT / 2, "{millis} ms: {late:?} late");
            }
            assert_eq!(events.rest(), [""; 0]);
            assert_eq!(rig.event_loop.stats().wake_ups, 0, "no wake-up was needed");
        },
    );
}

#[test]
fn e10_a_loop_sleeps_after_spinning_without_work() {
    const SPIN_TIME: Duration = Duration::from_millis(20);
    on_every_loop_with(
        |builder| builder.spin_before_sleep(SPIN_TIME),
        |rig| {
            let began = rig.run_on_loop(|here| here.now());
            rig.wait_until_asleep();
            let before = rig.event_loop.stats();
            let awake = rig.run_on_loop(|here| here.now());
            assert!(awake.since(began) >= SPIN_TIME, "the loop spins first");
            let after = rig.event_loop.stats();
            assert_eq!(after.wake_ups, before.wake_ups + 1, "a sleeping loop has to be woken");
            assert!(after.wake_ups <= after.sleeps);
            rig.assert_not_spinning();
        },
    );
}
