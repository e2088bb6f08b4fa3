//! A thousand signals a second do not disturb a loop that sleeps until its next timer (EINTR, L06).
//!
//! Without the test harness: the main thread handles a signal to the process, so the loop must run
//! there.

#[path = "../support/loop_rig.rs"]
mod loop_rig;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::SIGUSR1;
use waterwheel_channel::driver::OpenDriver;
use waterwheel_channel::{EventLoop, EventLoopGroup, LocalLoop};
use waterwheel_executor::{LoopBody, ThreadSupplier};
use waterwheel_net::{CoarseEpoll, Epoll, Poll};

use loop_rig::TIME_LIMIT;

/// The number of timers, one after the other, and the delay of each.
const TIMERS: usize = 5;
const DELAY: Duration = Duration::from_millis(60);

fn main() {
    let raised = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGUSR1, raised.clone()).unwrap();
    l06_a_thousand_signals_a_second_do_not_disturb_a_loop(Epoll, &raised);
    l06_a_thousand_signals_a_second_do_not_disturb_a_loop(CoarseEpoll, &raised);
    l06_a_thousand_signals_a_second_do_not_disturb_a_loop(Poll, &raised);
}

fn l06_a_thousand_signals_a_second_do_not_disturb_a_loop(
    driver: impl OpenDriver + 'static,
    raised: &Arc<AtomicBool>,
) {
    let (hand_over, bodies) = channel();
    let group = EventLoopGroup::builder(driver)
        .threads(1)
        .thread_supplier(Arc::new(ToMain(Mutex::new(hand_over))))
        .build()
        .unwrap();
    let (event_loop, raised) = (group.next(), raised.clone());
    let test = thread::spawn(move || {
        let _group = group;
        let (stop, stopped) = channel();
        let signals = thread::spawn(move || send_signals(&stopped, &raised));
        for _ in 0..TIMERS {
            one_timer(&event_loop);
        }
        drop(stop);
        let taken = signals.join().unwrap();
        assert!(taken > 10, "only {taken} signals");
        let ended = event_loop.shutdown_gracefully(Duration::ZERO, TIME_LIMIT).unwrap();
        ended.wait_timeout(TIME_LIMIT).unwrap();
        let metrics = event_loop.metrics();
        assert_eq!(metrics.premature_returns, 0, "EINTR does not count as a premature return");
        assert_eq!((metrics.rebuilds, metrics.failed_waits), (0, 0));
        assert!(metrics.wake_ups_by_timer >= TIMERS as u64, "{metrics:?}");
        let turns = metrics.turns;
        assert!(turns < 10 * TIMERS as u64, "{turns} turns: it was disturbed");
    });
    // The loop runs on this thread. If the test fails, its handles are dropped, and the loop ends.
    bodies.recv_timeout(TIME_LIMIT).expect("the body of the loop").run();
    test.join().unwrap();
}

/// Checks that a timer fires, and not early.
fn one_timer(event_loop: &EventLoop) {
    let (sender, rang) = channel();
    let timer = event_loop.clone();
    let set = move || {
        let due = LocalLoop::current().unwrap().now().plus(DELAY);
        let ring = move || {
            let now = LocalLoop::current().unwrap().now();
            sender.send((now >= due, now.since(due))).unwrap();
        };
        drop(timer.schedule(DELAY, ring).unwrap());
    };
    event_loop.execute(set).unwrap();
    let (in_time, late) = rang.recv_timeout(TIME_LIMIT).expect("the timer fires");
    assert!(in_time, "early");
    assert!(late < TIME_LIMIT / 2, "{late:?} late");
}

/// Sends a signal every millisecond; returns how many were handled.
fn send_signals(stopped: &Receiver<()>, raised: &AtomicBool) -> usize {
    let mut taken = 0;
    while stopped.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
        kill_process(getpid(), Signal::USR1).unwrap();
        taken += usize::from(raised.swap(false, Ordering::Relaxed));
    }
    taken
}

/// Sends the body of the loop to the main thread.
struct ToMain(Mutex<Sender<LoopBody>>);

impl ThreadSupplier for ToMain {
    fn start(&self, body: LoopBody) -> io::Result<Option<JoinHandle<()>>> {
        self.0.lock().unwrap().send(body).expect("the main thread waits");
        Ok(None)
    }
}
