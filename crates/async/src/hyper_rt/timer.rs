//! The timer of hyper's timeouts.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use waterwheel_channel::{LocalLoop, sleep, sleep_until};
use waterwheel_executor::{Clock, Nanos};

/// hyper's timer by the clock of the loop that runs the connection: for the time to read the head of a request, and
/// for the pings of HTTP/2. In a test with a virtual clock, hyper's time is that clock's.
///
/// Its sleeps are awaited on a loop. `now` on a thread without a loop is the time of the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopTimer;

impl Timer for LoopTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(LoopSleep(sleep(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(LoopSleep(sleep_until(Nanos::from_instant(deadline))))
    }

    fn now(&self) -> Instant {
        let here = LocalLoop::current();
        here.map_or_else(|| Clock::Monotonic.now(), |here| here.now()).to_instant()
    }
}

/// A sleep on a loop, for hyper.
struct LoopSleep(waterwheel_channel::Sleep);

impl Future for LoopSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl Sleep for LoopSleep {}
