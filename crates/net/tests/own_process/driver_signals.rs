//! Signals neither end a wait nor move its deadline (EINTR, L06), and writes raise no SIGPIPE.
//!
//! Without the test harness: the main thread handles a signal to the process, so the wait must run
//! there.

#[path = "../support/driver_rig.rs"]
mod driver_rig;

use std::io::ErrorKind;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGPIPE, SIGUSR1};
use waterwheel_channel::driver::{OutQueue, WaitSummary};

use driver_rig::{DriverRig, TIME_LIMIT, on_every_driver};

/// The time of the wait, under a signal every millisecond.
const WAIT: Duration = Duration::from_millis(200);

fn main() {
    let [handled, broken_pipe] = [SIGUSR1, SIGPIPE].map(|signal| {
        let raised = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal, raised.clone()).unwrap();
        raised
    });
    on_every_driver(l06_a_thousand_signals_a_second_do_not_move_a_deadline);
    assert!(handled.load(Ordering::Relaxed));
    on_every_driver(a_write_to_a_broken_pipe_sends_no_signal);
    assert!(!broken_pipe.load(Ordering::Relaxed));
}

fn a_write_to_a_broken_pipe_sends_no_signal(rig: &mut DriverRig) {
    for chunks in [1, 2] {
        let (token, _peer) = rig.stream();
        rig.driver.shutdown(token, Shutdown::Write).unwrap();
        let mut queue = OutQueue::new();
        (0..chunks).for_each(|_| queue.push(Bytes::from_static(b"x")));
        assert_eq!(rig.driver.write(token, &queue).unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}

fn l06_a_thousand_signals_a_second_do_not_move_a_deadline(rig: &mut DriverRig) {
    let (stop, stopped) = channel::<()>();
    let sender = thread::spawn(move || {
        let mut sent = 0;
        while stopped.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
            kill_process(getpid(), Signal::USR1).unwrap();
            sent += 1;
            // If every signal moved the deadline, the wait would never end.
            if sent > TIME_LIMIT.as_millis() {
                break;
            }
        }
        sent
    });
    let before = rig.driver.clock().now();
    let until = before.plus(WAIT);
    assert_eq!(rig.driver.wait(Some(until)).unwrap(), WaitSummary::default());
    let waited = rig.driver.clock().now().since(before);
    drop(stop);
    let sent = sender.join().unwrap();
    assert!(waited >= WAIT, "early: {waited:?}");
    assert!(waited < TIME_LIMIT / 2, "late: {waited:?}");
    assert!(sent > 10, "only {sent} signals");
}
