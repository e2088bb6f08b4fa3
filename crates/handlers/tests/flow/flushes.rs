//! The consolidation of flushes: what a channel does itself, and what `FlushConsolidation` adds.

use std::num::NonZeroUsize;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{Channel, ChannelOptions, Ctx, Handler, HandlerResult, Msg, WaterMarks};
use waterwheel_handlers::FlushConsolidation;
use waterwheel_testkit::embedded::Embedded;

fn tick() -> Bytes {
    Bytes::from_static(b"x")
}

fn plain() -> Embedded {
    Embedded::builder().stream().build(|_| Ok(())).unwrap()
}

fn consolidating(handler: FlushConsolidation) -> Embedded {
    let built = Embedded::builder().stream().build(|edit| {
        edit.add_last("flushes", handler)?;
        edit.add_last("echo", Echo)?;
        Ok(())
    });
    built.unwrap()
}

/// Answers each message, flushing each time and once more at the end of the round.
struct Echo;

impl Handler for Echo {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.write_and_flush(Bytes::from_static(b"."));
        ctx.fire_read_complete();
        Ok(())
    }
}

fn sent(channel: &mut Embedded) -> String {
    let parts = std::iter::from_fn(|| channel.read_outbound::<Bytes>());
    parts.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).collect()
}

/// Runs the queued commands, then the timers that are due in the next turn.
fn turn(channel: &mut Embedded) {
    channel.run();
    channel.advance(Duration::ZERO);
}

/// Sends from other threads, as far as the loop is concerned: each one is a command.
fn send_from_outside(channel: &mut Embedded, count: usize) -> usize {
    let before = channel.writes();
    for _ in 0..count {
        channel.channel().send(tick());
    }
    turn(channel);
    channel.writes() - before
}

#[test]
fn c14_a_channel_makes_one_write_of_the_flushes_of_one_call() {
    let mut channel = plain();
    channel.with_pipeline(|pipeline| {
        for _ in 0..64 {
            pipeline.write(tick());
            pipeline.flush();
        }
    });
    assert_eq!(channel.writes(), 1);
    assert_eq!(send_from_outside(&mut channel, 64), 64, "calls of their own are not consolidated");
}

#[test]
fn c14_flushes_of_other_threads_and_of_tasks_are_one_write() {
    let mut channel = consolidating(FlushConsolidation::new());
    assert_eq!(send_from_outside(&mut channel, 64), 1);
    assert_eq!(sent(&mut channel).len(), 64);
    let before = channel.writes();
    let handle = channel.channel().clone();
    for _ in 0..64 {
        let channel = handle.clone();
        handle.event_loop().execute(move || channel.send(tick())).unwrap();
    }
    turn(&mut channel);
    assert_eq!(channel.writes() - before, 1);
    let before = channel.writes();
    channel.on_loop(|channel| (0..64).for_each(|_| channel.send(tick())));
    turn(&mut channel);
    assert_eq!(channel.writes() - before, 1);
}

#[test]
fn c14_the_limit_of_held_flushes_is_kept() {
    let sixteen = NonZeroUsize::new(16).unwrap();
    let mut channel = consolidating(FlushConsolidation::new().max_flushes(sixteen));
    assert_eq!(send_from_outside(&mut channel, 64), 4);
    assert_eq!(send_from_outside(&mut channel, 65), 5);
    let mut channel = consolidating(FlushConsolidation::new().max_flushes(NonZeroUsize::MIN));
    assert_eq!(send_from_outside(&mut channel, 64), 64, "a limit of one holds nothing");
    assert_eq!(send_from_outside(&mut consolidating(FlushConsolidation::new()), 257), 2);
}

#[test]
fn c14_answers_of_a_round_of_reads_are_not_held() {
    let mut channel = consolidating(FlushConsolidation::new());
    channel.write_inbound_all([Msg::from(tick()), Msg::from(tick())]);
    assert_eq!((sent(&mut channel).as_str(), channel.writes()), ("xx.", 1));
    assert_eq!(channel.channel().event_loop().metrics().timers, 0, "nothing waits for a turn");
    assert_eq!(send_from_outside(&mut channel, 3), 1, "after the round flushes are held again");
}

#[test]
fn c14_a_held_flush_passes_before_whatever_ends_the_output() {
    let ends: [fn(&Channel); 4] = [
        |channel| drop(channel.close()),
        |channel| drop(channel.disconnect()),
        |channel| drop(channel.shutdown_output()),
        |channel| drop(channel.deregister()),
    ];
    for (at, end) in ends.into_iter().enumerate() {
        let mut channel = consolidating(FlushConsolidation::new());
        channel.on_loop(|channel| {
            channel.send(tick());
            end(channel);
        });
        assert_eq!(sent(&mut channel), "x", "before {at}");
    }
}

#[test]
fn c14_a_removed_handler_flushes_what_it_holds_and_leaves_no_marker() {
    let mut channel = consolidating(FlushConsolidation::new());
    let names = channel.with_pipeline(|pipeline| pipeline.names()).unwrap();
    assert_eq!(names.len(), 3, "{names:?}");
    channel.on_loop(|channel| channel.send(tick()));
    let names = channel.with_pipeline(|pipeline| {
        pipeline.remove("flushes").unwrap();
        pipeline.names()
    });
    assert_eq!((names.unwrap(), sent(&mut channel)), (vec!["echo".to_owned()], "x".to_owned()));
    assert_eq!(channel.channel().event_loop().metrics().timers, 0);
}

#[test]
fn c14_an_unwritable_channel_flushes_at_once() {
    let water_marks = WaterMarks::new(2, 4).unwrap();
    let options = ChannelOptions { water_marks, ..ChannelOptions::default() };
    let built = Embedded::builder().stream().options(options).build(|edit| {
        edit.add_last("flushes", FlushConsolidation::new())?;
        Ok(())
    });
    let mut channel = built.unwrap();
    let handle = channel.channel().clone();
    channel.with_pipeline(|pipeline| {
        pipeline.write(Bytes::from_static(b"12345"));
        pipeline.flush();
        assert_eq!(handle.pending_bytes(), 0, "in the same call");
    });
}

#[test]
fn c14_a_handler_added_later_consolidates_and_a_second_one_does_no_harm() {
    let mut channel = plain();
    channel.with_pipeline(|pipeline| {
        pipeline.add_last("one", FlushConsolidation::new()).unwrap();
        pipeline.add_last("two", FlushConsolidation::new()).unwrap();
    });
    let before = channel.writes();
    assert_eq!(send_from_outside(&mut channel, 64), 0, "each of the two takes a turn");
    turn(&mut channel);
    assert_eq!(channel.writes() - before, 1);
    channel.close();
    assert_eq!(sent(&mut channel).len(), 64);
}

#[test]
fn c14_a_flush_that_is_held_when_the_channel_fails_is_dropped() {
    let mut channel = consolidating(FlushConsolidation::new());
    let write = channel.on_loop(|channel| channel.write_and_flush(tick()));
    channel.fail(waterwheel_executor::Error::new("reset"));
    assert!(write.is_done());
    assert_eq!(channel.channel().event_loop().metrics().timers, 0);
}

#[test]
fn c14_debug_shows_the_limit() {
    let handler = FlushConsolidation::default().clone();
    let text = "FlushConsolidation { max_flushes: 256, held: 0, .. }";
    assert_eq!(format!("{handler:?}"), text);
}
