//! Wakes: from any thread, in vain, and too late.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use waterwheel_async::{OrderedAnswers, handler_fn};
use waterwheel_channel::{Message, sleep, yield_now};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

use crate::support::bench;

/// A value that another thread sets.
#[derive(Clone, Default)]
struct Remote(Arc<Mutex<(Option<u32>, Option<Waker>)>>);

impl Remote {
    fn set(&self, value: u32) {
        let mut state = self.0.lock().unwrap();
        state.0 = Some(value);
        let waker = state.1.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Future for Remote {
    type Output = u32;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u32> {
        let mut state = self.0.lock().unwrap();
        match state.0.take() {
            Some(value) => Poll::Ready(value),
            None => {
                state.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Message for Remote {}

fn remote_answers() -> Embedded {
    Embedded::new(|edit| {
        let answers = handler_fn(|remote: Remote| async move { Ok::<_, Error>(remote.await) });
        edit.add_last("answers", OrderedAnswers::new(answers))?;
        Ok(())
    })
    .unwrap()
}

#[test]
fn a05_ordered_calls_are_woken_from_other_threads() {
    let mut channel = remote_answers();
    let remotes: Vec<_> = (0..4).map(|_| Remote::default()).collect();
    remotes.iter().for_each(|remote| channel.write_inbound(remote.clone()));
    for (value, remote) in remotes.into_iter().enumerate().rev() {
        thread::spawn(move || remote.set(value as u32)).join().unwrap();
    }
    channel.run();
    let answers: Vec<_> = std::iter::from_fn(|| channel.read_outbound::<u32>()).collect();
    assert_eq!(answers, [0, 1, 2, 3]);
    assert_eq!(channel.writes(), 1, "one poll of the driver, one flush");
}

#[test]
fn a05_ordered_a_wake_right_after_the_first_poll_is_not_lost() {
    // The first pending call of a connection: there is no driver yet, and the waker of the first poll does nothing.
    let mut channel = Embedded::new(|edit| {
        let answers = handler_fn(|remote: Remote| async move {
            let mut remote = remote;
            let value = std::future::poll_fn(|cx| {
                let poll = Pin::new(&mut remote).poll(cx);
                if poll.is_pending() {
                    remote.set(7); // Before the poll has returned.
                }
                poll
            });
            Ok::<_, Error>(value.await)
        });
        edit.add_last("answers", OrderedAnswers::new(answers))?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(Remote::default());
    assert_eq!(channel.read_outbound::<u32>(), Some(7));
    channel.write_inbound(Remote::default());
    assert_eq!(channel.read_outbound::<u32>(), Some(7), "and with a driver");
}

#[test]
fn a05_ordered_only_woken_calls_are_polled() {
    let mut bench = bench(8);
    bench.send([1, 2, 3, 4]);
    assert_eq!(bench.calls.polls.get(), 8, "the first poll, and the driver's first");
    bench.finish(3);
    assert_eq!(bench.calls.polls.get(), 9);
    bench.send([5, 6]);
    assert_eq!(bench.calls.polls.get(), 11, "with a driver the first poll is enough");
}

#[test]
fn a05_ordered_a_wake_after_the_end_of_its_call_does_nothing() {
    let mut bench = bench(8);
    bench.send([1]);
    let stale = bench.calls.gates.borrow()[&1].waker.clone().unwrap();
    bench.finish(1);
    assert_eq!(bench.answers(), ["a1"]);
    stale.wake_by_ref();
    bench.run();
    bench.send([2]); // In the place of the first.
    let polls = bench.calls.polls.get();
    stale.wake_by_ref();
    bench.run();
    assert!(bench.calls.polls.get() <= polls + 1, "a poll in vain at most");
    bench.finish(2);
    assert_eq!(bench.answers(), ["a2"]);
    bench.close();
    stale.wake_by_ref();
    bench.run();
    let calls = bench.calls.clone();
    drop(bench);
    stale.wake(); // The loop is gone.
    assert!(calls.dropped.take().is_empty());
}

#[test]
fn a05_ordered_a_call_that_wakes_itself_leaves_turns_to_others() {
    let turns = Rc::new(Cell::new(0));
    let counted = turns.clone();
    let mut channel = Embedded::new(|edit| {
        let answers = handler_fn(move |rounds: u32| {
            let turns = counted.clone();
            async move {
                for _ in 0..rounds {
                    yield_now().await;
                    turns.set(turns.get() + 1);
                }
                Ok::<_, Error>(rounds)
            }
        });
        edit.add_last("answers", OrderedAnswers::new(answers))?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound_all([3u32.into(), 1u32.into()]);
    assert_eq!(turns.get(), 4);
    assert_eq!(channel.read_outbound::<u32>(), Some(3));
    assert_eq!(channel.read_outbound::<u32>(), Some(1));
}

#[test]
fn c19_ordered_calls_use_the_timers_of_the_loop() {
    let mut channel = Embedded::new(|edit| {
        let answers = handler_fn(|millis: u64| async move {
            sleep(Duration::from_millis(millis)).await;
            Ok::<_, Error>(millis)
        });
        edit.add_last("answers", OrderedAnswers::new(answers))?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound_all([20u64.into(), 10u64.into(), 30u64.into()]);
    channel.advance(Duration::from_millis(10));
    assert!(channel.read_outbound_any().is_none());
    channel.advance(Duration::from_millis(10));
    assert_eq!(channel.read_outbound::<u64>(), Some(20));
    assert_eq!(channel.read_outbound::<u64>(), Some(10));
    assert!(channel.read_outbound_any().is_none());
    channel.advance(Duration::from_millis(10));
    assert_eq!(channel.read_outbound::<u64>(), Some(30));
}
