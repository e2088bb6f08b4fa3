//! Calls that fail or panic.

use waterwheel_async::{OrderedAnswers, handler_fn};
use waterwheel_channel::{Completion, Ctx, HandlerResult, Out, OutboundHandler, yield_now};
use waterwheel_executor::{Error, ErrorKind};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{PANICS, bench};

#[test]
fn c19_ordered_an_error_closes_the_channel_after_the_earlier_answers() {
    let mut bench = bench(4);
    bench.send([1, 2, 3, 4, 5]);
    bench.calls.fail(2);
    bench.run();
    assert!(bench.channel().is_open(), "the first answer is missing");
    assert_eq!(
        bench.dropped(),
        [3, 4],
        "calls that cannot be answered any more are dropped at once"
    );
    bench.finish(1);
    assert_eq!(bench.answers(), ["a1"]);
    assert_eq!(bench.tail(), ["oops", "output over", "inactive", "unregistered"]);
    let cause = bench.channel().close_cause().unwrap();
    assert_eq!(cause.to_string(), "oops");
    assert_eq!(bench.calls.begun(), [1, 2, 3, 4], "the request that was held did not begin");
    assert!(bench.reports().is_empty(), "a handler took the error");
}

#[test]
fn c19_ordered_an_error_at_the_first_poll_closes_the_channel_after_the_answers_of_the_round() {
    let mut bench = bench(4);
    bench.calls.finish(1);
    bench.calls.fail(2);
    bench.calls.finish(3);
    bench.send([1, 2, 3]);
    assert_eq!(bench.answers(), ["a1"]);
    assert!(!bench.channel().is_open());
    assert_eq!(bench.calls.begun(), [1, 2]);
}

#[test]
fn c19_ordered_the_close_after_an_error_waits_for_a_peer_that_reads_slowly() {
    let mut bench = bench(4);
    bench.set_room(0);
    bench.calls.finish(1);
    bench.calls.fail(2);
    bench.send([1, 2]);
    assert!(bench.channel().is_open(), "the first answer is not written");
    bench.send([3]);
    assert_eq!(bench.calls.begun(), [1, 2], "nothing begins meanwhile");
    bench.clear_faults();
    assert_eq!(bench.answers(), ["a1"]);
    assert!(!bench.channel().is_open());
}

#[test]
fn c19_ordered_an_error_can_be_an_answer() {
    let mut bench = bench(4);
    bench.calls.answers_errors.set(true);
    bench.send([1, 2, 3]);
    bench.calls.fail(2);
    bench.finish_together([1, 3]);
    assert_eq!(bench.answers(), ["a1", "error: oops", "a3"]);
    assert!(bench.channel().is_open() && bench.tail().is_empty());
}

#[test]
fn c19_ordered_a_panic_closes_the_channel_after_the_earlier_answers_and_is_reported_with_its_name()
{
    let mut bench = bench(4);
    bench.calls.answers_errors.set(true);
    bench.send([1, PANICS, 3]);
    let reports = bench.reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].contains("support::Calls"), "{reports:?}");
    assert!(reports[0].contains("the call panics"), "{reports:?}");
    assert!(bench.channel().is_open());
    bench.finish(1);
    assert_eq!(bench.answers(), ["a1"], "a panic is not turned into an answer");
    assert_eq!(bench.tail(), ["output over", "inactive", "unregistered"], "and not fired");
    let cause = bench.channel().close_cause().unwrap();
    assert!(matches!(cause.kind(), ErrorKind::Panicked { .. }), "{cause}");
    assert!(bench.reports().is_empty(), "reported once");
}

#[test]
fn c19_ordered_an_answer_that_is_refused_is_not_replaced_by_the_next() {
    struct RefusesTwo;
    impl OutboundHandler for RefusesTwo {
        type In = String;

        fn write(&mut self, ctx: &Ctx<'_>, answer: String, done: &mut Completion) -> HandlerResult {
            if answer == "a2" {
                return Err(Error::new("cannot be encoded"));
            }
            ctx.write_with(answer, done.take());
            Ok(())
        }
    }
    for ready_at_once in [true, false] {
        let mut bench = bench(4);
        bench.with_pipeline(|pipeline| {
            pipeline.add_before("answers", "encoder", Out(RefusesTwo)).unwrap();
        });
        if ready_at_once {
            (1..=3).for_each(|number| bench.calls.finish(number));
        }
        bench.send([1, 2, 3]);
        bench.finish_together([1, 2, 3]);
        assert_eq!(bench.answers(), ["a1"], "ready at once: {ready_at_once}");
        assert_eq!(bench.tail(), ["cannot be encoded", "inactive", "unregistered"]);
    }
}

#[test]
fn c19_ordered_a_panic_of_a_call_that_was_pending_is_treated_alike() {
    let mut channel = Embedded::new(|edit| {
        let answers = OrderedAnswers::new(handler_fn(|number: u32| async move {
            yield_now().await;
            assert!(number < 2, "too large");
            Ok::<_, Error>(number)
        }));
        edit.add_last("answers", answers)?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound_all([1u32.into(), 2u32.into(), 0u32.into()]);
    assert_eq!(channel.read_outbound::<u32>(), Some(1));
    assert!(channel.read_outbound_any().is_none() && !channel.channel().is_open());
}
