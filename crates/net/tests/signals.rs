//! Signals end no wait and move no deadline (L06).
//!
//! Without the test harness: a signal to the process goes to its main thread, so that is where the
//! wait has to be.

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use waterwheel_channel::driver::Waited;

use common::{LONG, on_every_driver};

/// What is waited for, under a signal every millisecond.
const WAIT: Duration = Duration::from_millis(200);

fn main() {
    let handled = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, handled.clone()).unwrap();
    on_every_driver(l06_a_thousand_signals_a_second_do_not_move_a_deadline);
    assert!(handled.load(std::sync::atomic::Ordering::Relaxed));
}

fn l06_a_thousand_signals_a_second_do_not_move_a_deadline(rig: &mut common::Rig) {
    let (stop, stopped) = channel::<()>();
    let sender = thread::spawn(move || {
        let mut sent = 0;
        while stopped.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
            kill_process(getpid(), Signal::USR1).unwrap();
            sent += 1;
            // A deadline that every signal moves would never come.
            if sent > LONG.as_millis() {
                break;
            }
        }
        sent
    });
    let before = rig.driver.clock().now();
    let until = before.plus(WAIT);
    assert_eq!(rig.driver.wait(Some(until)).unwrap(), Waited::default());
    let waited = rig.driver.clock().now().since(before);
    drop(stop);
    let sent = sender.join().unwrap();
    assert!(waited >= WAIT, "early: {waited:?}");
    assert!(waited < LONG / 2, "late: {waited:?}");
    assert!(sent > 10, "only {sent} signals");
}
