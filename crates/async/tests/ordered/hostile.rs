//! Panics at every place of the user's code, events out of the usual order, and neighbours that answer too.

use std::sync::Arc;
use std::time::Duration;

use waterwheel_async::{AsyncHandler, OrderedAnswers, handler_fn};
use waterwheel_channel::{
    ChannelOptions, Ctx, Events, Handler, HandlerResult, Message, Msg, WaterMarks, sleep, yield_now,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

use crate::support::{bench, bench_with};

#[test]
fn c19_ordered_answers_to_reads_that_no_round_ends_are_flushed_in_the_same_turn() {
    // A handler may fire reads at any time, from a timer for example, and nothing ends such a round.
    let mut bench = bench(4);
    for number in 1..=4 {
        bench.calls.finish(number);
        bench.with_pipeline(|pipeline| pipeline.fire_read(number)).unwrap();
        bench.run();
        assert_eq!(bench.answers(), [format!("a{number}")]);
    }
    assert_eq!(bench.calls.polls.get(), 4, "the calls were ready at once");
    let writes = bench.writes();
    (5..=7).for_each(|number| bench.calls.finish(number));
    bench.with_pipeline(|pipeline| (5..=7u32).for_each(|number| pipeline.fire_read(number)));
    bench.run();
    assert_eq!((bench.answers().len(), bench.writes()), (3, writes + 1), "they share a flush");
}

#[test]
fn c19_ordered_answers_of_the_last_round_are_sent_before_the_end_of_the_input_closes() {
    let mut bench = bench(4);
    bench.calls.finish(1);
    bench.send([1]);
    bench.finish_inbound();
    assert_eq!(bench.answers(), ["a1"]);
    assert!(!bench.channel().is_open());
}

#[test]
fn c19_ordered_calls_go_on_while_the_channel_is_not_registered() {
    let mut bench = bench(2);
    bench.send([1, 2, 3]);
    drop(bench.on_loop(|channel| channel.deregister()));
    bench.run();
    bench.finish(2);
    bench.finish(1);
    drop(bench.on_loop(|channel| channel.register()));
    bench.run();
    bench.finish(3);
    assert_eq!(bench.answers(), ["a1", "a2", "a3"]);
}

/// Panics where it is told to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Panics {
    BeforeTheFuture,
    InAnswerError,
    InDropWhenReady,
    InDropWhenFailed,
    Never,
}

impl Message for Panics {}

struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("in drop");
    }
}

struct Hostile;

impl AsyncHandler for Hostile {
    type Request = Panics;
    type Response = String;

    fn call(&self, request: Panics) -> impl Future<Output = Result<String, Error>> {
        assert!(request != Panics::BeforeTheFuture, "before the future");
        let bomb = matches!(request, Panics::InDropWhenReady | Panics::InDropWhenFailed)
            .then(|| PanicsInDrop);
        std::future::poll_fn(move |_| {
            let _bomb = &bomb;
            std::task::Poll::Ready(match request {
                Panics::InAnswerError | Panics::InDropWhenFailed => Err(Error::new("failed")),
                _ => Ok(String::from("answer")),
            })
        })
    }

    fn answer_error(&self, error: Error) -> Result<String, Error> {
        panic!("in answer_error: {error}");
    }
}

#[test]
fn c19_ordered_panics_close_the_channel_after_the_earlier_answers_wherever_they_happen() {
    let places = [
        Panics::BeforeTheFuture,
        Panics::InAnswerError,
        Panics::InDropWhenReady,
        Panics::InDropWhenFailed,
    ];
    for panics in places {
        let mut channel = Embedded::new(|edit| {
            edit.add_last("answers", OrderedAnswers::new(Hostile))?;
            Ok(())
        })
        .unwrap();
        channel.write_inbound_all([Panics::Never, panics, Panics::Never].map(Msg::new));
        assert_eq!(channel.read_outbound::<String>().unwrap(), "answer");
        assert!(channel.read_outbound_any().is_none());
        assert!(!channel.channel().is_open());
        assert!(channel.channel().close_cause().is_some());
    }
}

/// A request whose destructor may panic.
struct Touchy(u32);

impl Message for Touchy {}

impl Drop for Touchy {
    fn drop(&mut self) {
        assert!(self.0 != 0, "touchy");
    }
}

#[test]
fn c19_ordered_requests_that_arrive_after_a_failure_do_no_harm_to_earlier_answers() {
    let mut bench = bench(4);
    let touchy = OrderedAnswers::new(handler_fn(|request: Touchy| async move {
        match request.0 {
            1 => Err(Error::new("failed")),
            number => {
                sleep(Duration::from_millis(number.into())).await;
                std::mem::forget(request);
                Ok::<_, Error>(String::from("slow answer"))
            }
        }
    }));
    bench.with_pipeline(|pipeline| pipeline.add_before("tail", "touchy", touchy).unwrap());
    // Messages of one read: the pause of reads does not stop the last one.
    bench.with_pipeline(|pipeline| {
        [5, 1, 0].into_iter().for_each(|number| pipeline.fire_read(Msg::new(Touchy(number))));
    });
    bench.advance(Duration::from_millis(5));
    assert_eq!(bench.answers(), ["slow answer"]);
    assert!(!bench.channel().is_open());
}

#[test]
fn c19_ordered_two_of_them_share_a_pipeline() {
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let mut bench = bench_with(options, |builder| builder.max_concurrent(1).keep_output_open());
    let second = OrderedAnswers::new(handler_fn(|millis: u64| async move {
        sleep(Duration::from_millis(millis)).await;
        Ok::<_, Error>(format!("b{millis}"))
    }));
    bench.with_pipeline(|pipeline| pipeline.add_before("tail", "second", second).unwrap());
    bench.write_inbound_all([Msg::from(5u64), Msg::from(1u32), Msg::from(3u64)]);
    bench.finish_inbound();
    bench.finish(1);
    assert_eq!(bench.answers(), ["a1"]);
    assert!(bench.tail().is_empty(), "the second has not finished");
    bench.advance(Duration::from_millis(5));
    assert_eq!(bench.answers(), ["b5", "b3"]);
    assert_eq!(bench.tail(), ["input over", "output over", "inactive", "unregistered"]);
}

/// A request whose lifetime the test sees.
struct Tracked(u32, Arc<()>);

impl Message for Tracked {}

#[test]
fn c19_ordered_requests_that_wait_are_dropped_at_once_when_an_earlier_call_fails() {
    let alive = Arc::new(());
    let answers = handler_fn(|request: Tracked| async move {
        let Tracked(number, _alive) = request;
        if number == 1 {
            sleep(Duration::from_millis(5)).await;
            return Ok(String::from("first"));
        }
        yield_now().await;
        Err(Error::new("failed"))
    });
    let answers = OrderedAnswers::builder(answers).max_concurrent(2).build().unwrap();
    let built = Embedded::new(|edit| {
        edit.add_last("answers", answers)?;
        Ok(())
    });
    let mut channel = built.unwrap();
    channel.with_pipeline(|pipeline| {
        (1..=9).for_each(|number| pipeline.fire_read(Msg::new(Tracked(number, alive.clone()))));
    });
    channel.run();
    assert_eq!(Arc::strong_count(&alive), 2, "the first request alone is left");
    channel.advance(Duration::from_millis(5));
    assert_eq!(channel.read_outbound::<String>().unwrap(), "first");
    assert_eq!((Arc::strong_count(&alive), channel.channel().is_open()), (1, false));
}

#[test]
fn c19_ordered_nothing_is_read_after_a_failure() {
    let mut bench = bench(4);
    bench.send([1, 2]);
    bench.calls.fail(2);
    bench.run();
    bench.send([3]);
    assert_eq!(bench.unread(), 1);
    bench.finish(1);
    assert_eq!((bench.answers(), bench.channel().is_open()), (vec![String::from("a1")], false));
}

#[test]
fn c19_ordered_a_call_that_removes_its_handler_is_the_last_to_begin() {
    let mut bench = bench(1);
    bench.send([1, 2, 3]);
    let (calls, channel) = (bench.calls.clone(), bench.channel().clone());
    let removes = OrderedAnswers::new(handler_fn(move |_: u64| {
        let (calls, channel) = (calls.clone(), channel.clone());
        async move {
            drop(channel.with_pipeline(|pipeline| pipeline.remove("answers")));
            calls.finish(1);
            Ok::<_, Error>(String::from("removed"))
        }
    }));
    bench.with_pipeline(|pipeline| pipeline.add_before("tail", "removes", removes).unwrap());
    bench.with_pipeline(|pipeline| pipeline.fire_read(0u64));
    bench.run();
    assert_eq!(bench.calls.begun(), [1]);
    let passed: Vec<_> = std::iter::from_fn(|| bench.read_inbound::<u32>()).collect();
    assert_eq!(passed, [2, 3]);
}

#[test]
fn c19_ordered_a_request_never_overtakes_one_that_is_held() {
    /// Fires a request when the channel is writable again, before the answers learn of that.
    struct FiresFour;
    impl Handler for FiresFour {
        fn interest(&self) -> Events {
            Events::WRITABILITY_CHANGED
        }
        fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
            if ctx.is_writable() {
                ctx.fire_read(4u32);
            }
            ctx.fire_writability_changed();
            Ok(())
        }
    }
    let water_marks = WaterMarks::new(3, 5).unwrap();
    let options = ChannelOptions { water_marks, ..ChannelOptions::default() };
    let mut bench = bench_with(options, |builder| builder);
    bench.with_pipeline(|pipeline| pipeline.add_before("answers", "fires", FiresFour).unwrap());
    bench.set_room(0);
    bench.calls.finish(1);
    bench.calls.finish(2);
    bench.calls.finish(3);
    bench.send([1, 2, 3, 5, 6]);
    assert_eq!(bench.calls.begun(), [1, 2, 3]);
    bench.clear_faults();
    bench.run();
    assert_eq!(bench.calls.begun(), [5, 6, 4]);
}

#[test]
fn c19_ordered_the_handler_is_dropped_soon_after_its_channel() {
    let alive = Arc::new(());
    let kept = alive.clone();
    let mut channel = Embedded::new(move |edit| {
        let answers = handler_fn(move |_: u32| {
            let _kept = &kept;
            std::future::pending::<Result<String, Error>>()
        });
        edit.add_last("answers", OrderedAnswers::new(answers))?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(1u32);
    assert_eq!(Arc::strong_count(&alive), 2);
    channel.close();
    channel.run();
    assert_eq!(Arc::strong_count(&alive), 1, "the driver has ended too, although the loop runs on");
}
