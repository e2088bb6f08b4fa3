//! Embedded channels whose async end is used off their loop: by this test's thread, which polls by hand.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use waterwheel_async::RemoteAsyncChannel;
use waterwheel_channel::{ChannelOptions, Message};
use waterwheel_testkit::embedded::Embedded;

/// A waker that counts.
#[derive(Default)]
pub(crate) struct WakeCount(AtomicUsize);

impl WakeCount {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns a channel that allows half-closure, and its async end.
pub(crate) fn installed<In: Message, Out: Message>() -> (Embedded, RemoteAsyncChannel<In, Out>) {
    let mut kept = None;
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let mut channel = Embedded::builder()
        .options(options)
        .build(|edit| {
            kept = Some(RemoteAsyncChannel::install(edit)?);
            Ok(())
        })
        .unwrap();
    channel.run();
    (channel, kept.unwrap())
}

/// Polls once, with a waker that nobody looks at.
pub(crate) fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls once, with a waker that counts.
pub(crate) fn poll_counted<F: Future>(
    future: Pin<&mut F>,
    wakes: &Arc<WakeCount>,
) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(wakes.clone())))
}

/// Polls a future off the loop, and runs the loop while the future waits.
///
/// # Panics
/// If the future still waits when the loop has nothing to do, and nothing has woken the future.
pub(crate) fn drive<F: Future>(channel: &mut Embedded, future: F) -> F::Output {
    let (mut future, wakes) = (pin!(future), Arc::new(WakeCount::default()));
    loop {
        let before = wakes.get();
        if let Poll::Ready(output) = poll_counted(future.as_mut(), &wakes) {
            return output;
        }
        channel.run();
        assert!(wakes.get() > before, "the future waits, and the loop is idle");
    }
}
