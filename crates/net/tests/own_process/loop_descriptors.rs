//! Loops leak neither descriptors nor threads, and errors name the call that failed with EMFILE. One test, because
//! these numbers and RLIMIT_NOFILE belong to the process.

#[path = "../support/loop_rig.rs"]
mod loop_rig;

use std::fs;
use std::os::fd::AsRawFd;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use waterwheel_channel::driver::{Interest, OpenDriver};
use waterwheel_channel::{EventLoopGroup, LoopBuildError, on_ready};
use waterwheel_executor::Clock;
use waterwheel_net::{Auto, Epoll, Poll, foreign};

use loop_rig::{LoopRig, TIME_LIMIT};

#[test]
fn l02_loops_leak_neither_descriptors_nor_threads_and_name_what_fails_with_emfile() {
    let before = ProcessCounts::now();
    building_without_descriptors(&before);
    rebuilding_without_descriptors();
    before.assert_unchanged("after rebuilding without descriptors");
    a_thousand_loops(|| Epoll);
    before.assert_unchanged("after a thousand loops over epoll");
    a_thousand_loops(|| Poll);
    before.assert_unchanged("after a thousand loops over poll");
}

fn building_without_descriptors(before: &ProcessCounts) {
    // An epoll loop needs two descriptors, an eventfd and an epoll instance: the third loop of the group fails.
    refused(Epoll, 4, "eventfd");
    refused(Epoll, 5, "epoll instance");
    refused(Poll, 2, "eventfd");
    refused(Auto, 4, "eventfd");
    before.assert_unchanged("after failing to build groups");
    // Just enough descriptors.
    let group = with_descriptors_left(4, || EventLoopGroup::builder(Epoll).threads(2).build());
    drop(group.unwrap());
    before.assert_unchanged("after a group that was never used");
}

fn refused(driver: impl OpenDriver + 'static, left: i32, resource: &str) {
    let builder = EventLoopGroup::builder(driver).threads(3);
    let error = with_descriptors_left(left, || builder.build()).expect_err("not enough");
    let words = error.to_string();
    let LoopBuildError::Driver(cause) = error else { panic!("{words}") };
    assert!(words.contains(resource), "{words}");
    let source = std::error::Error::source(&cause).map(ToString::to_string);
    let errno = rustix::io::Errno::MFILE.to_string();
    assert!(words.contains(&errno), "{words}, because of {source:?}");
}

/// Without a new epoll instance the old selector stays, with all its registrations.
fn rebuilding_without_descriptors() {
    let rig = LoopRig::new(EventLoopGroup::builder(Epoll));
    let source = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let hand = source.try_clone().unwrap();
    let (_, events) = rig.watch(source, Interest::READABLE, |_, context| {
        context.unregister();
        Ok(())
    });
    let report = with_descriptors_left(0, || {
        rig.event_loop.rebuild().unwrap();
        rig.wait_for_report("selector")
    });
    assert!(
        report.contains("the old selector stays") && report.contains("epoll instance"),
        "{report}"
    );
    assert_eq!(rig.event_loop.metrics().rebuilds, 0);
    rustix::io::write(&hand, &1u64.to_ne_bytes()).unwrap();
    assert_eq!(events.take(2), ["Readiness(readable)", "unregistered: on request"]);
    rig.event_loop.rebuild().unwrap();
    rig.wait_for_report("selector rebuilt");
    rig.end();
}

/// Loops that are created, used with tasks, timers and a registration, and shut down, twenty at a time.
fn a_thousand_loops<O: OpenDriver + 'static>(driver: impl Fn() -> O) {
    const LOOPS: usize = 1000;
    const SCORE: usize = 20;
    for round in 0..LOOPS / SCORE {
        let group = EventLoopGroup::builder(driver()).threads(SCORE).build().unwrap();
        let used: Vec<_> = group
            .children()
            .map(|child| {
                let source = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
                let handler = on_ready(|_: &rustix::fd::OwnedFd, _, _| Ok(()));
                let watched = child.register_foreign(foreign(source), Interest::READABLE, handler);
                let far = child.schedule(Duration::from_secs(3600), || ()).unwrap();
                (watched, far, child.spawn(std::future::pending::<()>()).unwrap())
            })
            .collect();
        for (watched, ..) in &used {
            watched.wait_timeout(TIME_LIMIT).expect("registered in time");
        }
        // Some are shut down, the others are dropped.
        if round % 2 == 0 {
            let ended = group.shutdown_gracefully(Duration::ZERO, TIME_LIMIT).unwrap();
            ended.wait_timeout(TIME_LIMIT).expect("the loop terminates");
        } else {
            let ended = group.termination();
            drop((group, used));
            ended.wait_timeout(TIME_LIMIT).expect("a dropped loop terminates");
        }
    }
}

/// Lowers RLIMIT_NOFILE so that `left` more descriptors can be opened.
fn with_descriptors_left<R>(left: i32, act: impl FnOnce() -> R) -> R {
    let limit = getrlimit(Resource::Nofile);
    let next = eventfd(0, EventfdFlags::NONBLOCK).unwrap().as_raw_fd();
    let lowered = u64::try_from(next + left).unwrap();
    setrlimit(Resource::Nofile, Rlimit { current: Some(lowered), maximum: limit.maximum }).unwrap();
    let result = act();
    setrlimit(Resource::Nofile, limit).unwrap();
    result
}

/// The number of open descriptors and of threads.
#[derive(Debug, PartialEq, Eq)]
struct ProcessCounts {
    descriptors: usize,
    threads: usize,
}

impl ProcessCounts {
    fn now() -> Self {
        let count = |what| fs::read_dir(what).unwrap().count();
        Self { descriptors: count("/proc/self/fd"), threads: count("/proc/self/task") }
    }

    /// Waits for threads that have finished but not exited yet.
    #[track_caller]
    fn assert_unchanged(&self, when: &str) {
        let clock = Clock::Monotonic;
        let limit = clock.now().plus(TIME_LIMIT);
        while Self::now() != *self {
            assert!(clock.now() < limit, "{when}: {:?} instead of {self:?}", Self::now());
            std::thread::yield_now();
        }
    }
}
