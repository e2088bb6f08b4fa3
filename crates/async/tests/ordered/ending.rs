//! Calls end with the channel, with the handler, and with the loop; a drain waits for them.

use std::cell::RefCell;
use std::rc::Rc;

use waterwheel_async::{OrderedAnswers, handler_fn};
use waterwheel_channel::{
    Channel, Ctx, DrainOptions, Drained, Events, Handler, HandlerResult, LocalLoop, Msg,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

use crate::support::bench;

#[test]
fn a02_ordered_calls_are_dropped_on_the_loop_before_the_channel_is_unregistered() {
    struct Probe {
        log: Rc<RefCell<Vec<String>>>,
        channel: Channel,
    }
    impl Drop for Probe {
        fn drop(&mut self) {
            let on_loop = LocalLoop::current().is_some();
            // Whatever a destructor does, nothing is borrowed.
            drop(self.channel.write_and_flush(String::from("late")));
            self.log.borrow_mut().push(format!("dropped, on the loop: {on_loop}"));
        }
    }
    let mut bench = bench(4);
    let log = bench.tail.0.clone();
    let probes = log.clone();
    bench.with_pipeline(|pipeline| {
        let answers = OrderedAnswers::new(handler_fn(move |channel: Carried| {
            let probe = Probe { log: probes.clone(), channel: channel.0 };
            async move {
                let _probe = probe;
                std::future::pending::<()>().await;
                Ok::<_, Error>(String::new())
            }
        }));
        pipeline.add_before("tail", "probed", answers).unwrap();
    });
    let channel = bench.channel().clone();
    bench.write_inbound(Msg::new(Carried(channel)));
    bench.close();
    assert_eq!(bench.tail(), ["dropped, on the loop: true", "inactive", "unregistered"]);
}

/// A channel as a request.
struct Carried(Channel);

impl waterwheel_channel::Message for Carried {}

#[test]
fn a02_ordered_calls_and_held_requests_end_with_the_channel() {
    let mut bench = bench(2);
    bench.send([1, 2, 3]);
    bench.close();
    assert_eq!(bench.dropped(), [1, 2]);
    assert_eq!(bench.calls.begun(), [1, 2]);
    bench.finish(1); // The waker of a call that is gone.
    assert!(bench.answers().is_empty());
}

#[test]
fn a02_ordered_calls_end_when_the_connection_fails() {
    let mut bench = bench(2);
    bench.send([1, 2]);
    bench.fail(Error::new("reset"));
    assert_eq!(bench.dropped(), [1, 2]);
}

#[test]
fn a02_ordered_calls_end_with_the_loop() {
    let bench = {
        let mut bench = bench(2);
        bench.send([1, 2]);
        let calls = bench.calls.clone();
        drop(bench);
        calls
    };
    assert_eq!(bench.dropped.take(), [1, 2]);
}

#[test]
fn c19_ordered_removal_drops_calls_and_passes_on_what_has_not_begun() {
    let mut bench = bench(2);
    bench.send([1, 2, 3, 4]);
    bench.send([5]);
    bench.with_pipeline(|pipeline| pipeline.remove("answers")).unwrap().unwrap();
    assert_eq!(bench.dropped(), [1, 2]);
    let passed: Vec<_> = std::iter::from_fn(|| bench.read_inbound::<u32>()).collect();
    assert_eq!(passed, [3, 4, 5], "in order, and reads have resumed");
    assert!(bench.channel().is_open());
}

#[test]
fn c19_ordered_a_call_may_remove_its_own_handler() {
    let mut bench = bench(4);
    bench.with_pipeline(|pipeline| {
        let answers = OrderedAnswers::new(handler_fn(|channel: Carried| async move {
            let removed = channel.0.with_pipeline(|pipeline| pipeline.remove("own"));
            drop(removed);
            Ok::<_, Error>(String::from("the last answer"))
        }));
        pipeline.add_before("tail", "own", answers).unwrap();
    });
    let carried = || Msg::new(Carried(bench.channel().clone()));
    let requests = [carried(), carried()];
    bench.write_inbound_all(requests);
    assert_eq!(bench.answers(), ["the last answer"]);
    assert!(bench.read_inbound::<Carried>().is_some(), "the second request passed");
}

#[test]
fn c19_ordered_a_call_may_close_its_channel() {
    let mut channel = Embedded::new(|edit| {
        let answers = OrderedAnswers::new(handler_fn(|carried: Carried| async move {
            drop(carried.0.close());
            std::future::pending::<Result<String, Error>>().await
        }));
        edit.add_last("answers", answers)?;
        Ok(())
    })
    .unwrap();
    let carried = Msg::new(Carried(channel.channel().clone()));
    channel.write_inbound(carried);
    assert!(!channel.channel().is_open());
}

#[test]
fn c19_ordered_calls_end_after_a_panic_of_another_handler() {
    struct RefusesAnswers;
    impl Handler for RefusesAnswers {
        fn interest(&self) -> Events {
            Events::WRITE
        }
        fn write(
            &mut self,
            _: &Ctx<'_>,
            _: Msg,
            _: &mut waterwheel_channel::Completion,
        ) -> HandlerResult {
            panic!("no answers here");
        }
    }
    let mut bench = bench(4);
    bench.with_pipeline(|pipeline| {
        pipeline.add_before("answers", "refuses", RefusesAnswers).unwrap();
    });
    bench.send([1, 2, 3]);
    bench.finish(1);
    assert!(!bench.channel().is_open());
    let mut dropped = bench.dropped();
    dropped.sort_unstable();
    assert_eq!(dropped, [2, 3]);
    assert_eq!(bench.reports().len(), 1);
}

#[test]
fn c19_ordered_a_drain_waits_for_the_answers() {
    let mut bench = bench(1);
    bench.send([1, 2]);
    let event_loop = bench.on_loop(|_| LocalLoop::current().unwrap().handle());
    let drained = event_loop.drain(DrainOptions::default());
    bench.run();
    assert!(!drained.is_done(), "a call is under way");
    bench.finish(1);
    assert!(!drained.is_done(), "a request was held, and is under way");
    bench.calls.finish(2);
    bench.run();
    assert_eq!(bench.answers(), ["a1", "a2"]);
    assert_eq!(drained.join().unwrap(), Drained::Complete);
}
