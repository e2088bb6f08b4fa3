//! Drops a future at every await.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use waterwheel_async::AsyncChannel;
use waterwheel_channel::{ChannelOptions, Message};
use waterwheel_testkit::embedded::Embedded;

/// A waker that counts; its clones are counted by its `Arc`.
#[derive(Default)]
pub(crate) struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A call of the object under test.
pub(crate) type Call<'a, O> = Pin<Box<dyn Future<Output = O> + 'a>>;

/// Makes a call, polls it 0, 1, 2, … times on the loop until it completes, and drops it: each time on a new `bench`.
/// After poll `n` that was not ready, `step` makes something happen. `check` gets the output, if there is one, and
/// shows that nothing is lost. At the end no waker, timer or channel may be left behind.
///
/// # Panics
/// If the call does not wait at all, or never completes.
pub(crate) fn drop_at_every_await<T, O>(
    bench: impl Fn() -> (Embedded, T),
    call: impl for<'a> Fn(&'a mut T) -> Call<'a, O>,
    step: impl Fn(&mut Embedded, usize),
    check: impl Fn(&mut Embedded, &mut T, Option<O>),
) {
    for polls in 0..20 {
        let (mut channel, mut target) = bench();
        let wakes = Arc::new(WakeCount::default());
        let waker = Waker::from(wakes.clone());
        let mut output = None;
        let mut future = call(&mut target);
        for n in 0..polls {
            let polled =
                channel.on_loop(|_| future.as_mut().poll(&mut Context::from_waker(&waker)));
            match polled {
                Poll::Ready(value) => output = Some(value),
                Poll::Pending => step(&mut channel, n),
            }
            if output.is_some() {
                break;
            }
        }
        channel.on_loop(move |_| drop(future));
        let is_done = output.is_some();
        check(&mut channel, &mut target, output);
        channel.on_loop(|_| drop(target));
        channel.run();
        if !channel.channel().event_loop().is_terminated() {
            channel.close();
        }
        drop(waker);
        assert_eq!(Arc::strong_count(&wakes), 1, "a waker of a dropped future is kept");
        let metrics = channel.channel().event_loop().metrics();
        assert_eq!((metrics.timers, metrics.channels), (0, 0), "after {polls} polls");
        if is_done {
            assert!(polls > 1, "the call has no await");
            return;
        }
    }
    panic!("the call never completes");
}

/// Polls a future on the loop until it is ready, and runs the loop in between.
pub(crate) fn drive<F: Future>(channel: &mut Embedded, future: F) -> F::Output {
    let mut future = pin!(future);
    for _ in 0..100 {
        let poll = |_: &_| future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(output) = channel.on_loop(poll) {
            return output;
        }
        channel.run();
    }
    panic!("the future waits, and the loop is idle");
}

/// Returns a channel that allows half-closure, and its async end.
pub(crate) fn installed<In: Message, Out: Message>() -> (Embedded, AsyncChannel<In, Out>) {
    let mut kept = None;
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let mut channel = Embedded::builder()
        .options(options)
        .build(|edit| {
            kept = Some(AsyncChannel::install(edit)?);
            Ok(())
        })
        .unwrap();
    channel.run();
    (channel, kept.unwrap())
}
