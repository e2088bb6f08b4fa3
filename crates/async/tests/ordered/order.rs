//! Answers come in the order of the requests, and share flushes.

use waterwheel_async::{InvalidOrderedOption, OrderedAnswers, handler_fn};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

use crate::support::{Calls, bench};

#[test]
fn c19_ordered_answers_keep_the_order_of_the_requests() {
    let mut bench = bench(4);
    bench.send([1, 2, 3, 4]);
    assert_eq!(bench.calls.begun(), [1, 2, 3, 4], "all calls run at the same time");
    bench.finish(3);
    bench.finish(2);
    assert!(bench.answers().is_empty(), "the first answer is missing");
    bench.finish(1);
    assert_eq!(bench.answers(), ["a1", "a2", "a3"]);
    bench.finish(4);
    assert_eq!(bench.answers(), ["a4"]);
}

#[test]
fn c19_ordered_calls_that_are_ready_at_once_are_answered_in_the_call() {
    let mut bench = bench(4);
    (1..=3).for_each(|number| bench.calls.finish(number));
    bench.send([1, 2, 3]);
    assert_eq!(bench.answers(), ["a1", "a2", "a3"]);
    assert_eq!(bench.calls.polls.get(), 3, "one poll each");
}

#[test]
fn c19_ordered_a_ready_call_waits_for_an_earlier_one() {
    let mut bench = bench(4);
    bench.calls.finish(2);
    bench.send([1, 2]);
    assert!(bench.answers().is_empty());
    bench.finish(1);
    assert_eq!(bench.answers(), ["a1", "a2"]);
}

#[test]
fn c19_ordered_answers_of_one_round_and_of_one_turn_share_a_flush() {
    let mut bench = bench(8);
    (1..=3).for_each(|number| bench.calls.finish(number));
    bench.send([1, 2, 3]);
    assert_eq!(bench.writes(), 1, "three answers to one read");
    bench.send([4, 5, 6]);
    bench.finish_together([6, 4, 5]);
    assert_eq!(bench.writes(), 2, "three calls of one turn");
    assert_eq!(bench.answers().len(), 6);
}

#[test]
fn c19_ordered_no_answer_waits_for_the_flush_of_another() {
    let mut bench = bench(8);
    bench.send([1, 2]);
    bench.finish(1);
    assert_eq!(bench.answers(), ["a1"], "written although the second call runs");
    bench.calls.finish(3);
    bench.send([3]);
    bench.finish(2);
    assert_eq!(bench.answers(), ["a2", "a3"]);
}

#[test]
fn c19_ordered_messages_that_are_no_requests_pass() {
    let mut bench = bench(1);
    bench.send([1, 2]);
    bench.write_inbound(String::from("other"));
    assert!(bench.read_inbound_any().is_none(), "reads are paused");
    bench.finish_together([1, 2]);
    assert_eq!(bench.read_inbound::<String>().unwrap(), "other");
    assert_eq!(bench.answers(), ["a1", "a2"]);
}

#[test]
fn c19_ordered_functions_are_handlers() {
    let mut channel = Embedded::new(|edit| {
        let double = handler_fn(|number: u32| async move { Ok::<_, Error>(u64::from(number) * 2) });
        edit.add_last("answers", OrderedAnswers::new(double))?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(21u32);
    assert_eq!(channel.read_outbound::<u64>(), Some(42));
}

#[test]
fn c19_ordered_options_are_checked() {
    let refused = OrderedAnswers::builder(Calls::default()).max_concurrent(0).build().unwrap_err();
    assert_eq!(refused, InvalidOrderedOption::NoCalls);
    assert!(refused.to_string().contains("`max_concurrent` is zero"));
    assert!(OrderedAnswers::builder(Calls::default()).max_concurrent(usize::MAX).build().is_ok());
}

#[test]
fn c19_ordered_answers_without_an_encoder_for_them_are_refused_when_the_pipeline_is_built() {
    let refused = Embedded::builder().stream().build(|edit| {
        let answer = handler_fn(|_: bytes::Bytes| async { Ok::<_, Error>(String::new()) });
        edit.add_last("answers", OrderedAnswers::new(answer))?;
        Ok(())
    });
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("`answers` after it emits alloc::string::String"), "{error}");
}
