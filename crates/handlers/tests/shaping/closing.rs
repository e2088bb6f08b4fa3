//! Graceful closes with messages held, and channels that die.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{
    ChannelError, ChannelOptions, Completion, Ctx, Events, HalfClosed, Handler, HandlerResult, Msg,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

use crate::support::{BURST, MS, SLOW, Shaped, numbered, shaping};

#[test]
fn k08_a_close_waits_until_everything_flushed_was_sent_at_the_rate() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW));
    let held = channel.write_outbound(numbered(BURST + 10_000));
    let unflushed = channel.write(numbered(50));
    assert_eq!(channel.sent_len(), BURST);
    let closed = channel.on_loop(|channel| channel.close());
    let refused = channel.write_outbound(numbered(1)).join().unwrap_err();
    assert!(matches!(refused.find::<ChannelError>(), Some(ChannelError::Closed { cause: None })));
    channel.write_inbound(numbered(10));
    channel.pass(90);
    let sent = channel.sent_len();
    assert!((7_400..=9_100).contains(&sent), "at the rate: {sent}");
    assert!(channel.channel().is_open() && !closed.is_done());
    channel.pass(14);
    assert_eq!(sent + channel.sent_len(), 10_000);
    assert!(!channel.channel().is_open());
    closed.join().unwrap();
    held.join().unwrap();
    let failed = unflushed.join().unwrap_err();
    assert!(matches!(failed.find::<ChannelError>(), Some(ChannelError::Closed { cause: None })));
    assert_eq!((channel.read_len(), channel.timers()), (0, 0), "nothing was read meanwhile");
}

#[test]
fn k08_a_close_waits_for_the_longest_delay_at_most() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW).longest_delay(160 * MS));
    let held = channel.write_outbound(numbered(BURST + 100_000));
    let closed = channel.on_loop(|channel| channel.disconnect());
    channel.pass(159);
    assert!(!closed.is_done());
    channel.pass(1);
    assert_eq!(channel.sent_len(), BURST + 100_000);
    assert!(closed.is_done());
    held.join().unwrap();
}

#[test]
fn k08_a_close_with_nothing_held_is_immediate_and_every_closer_is_answered() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW));
    channel.on_loop(|channel| channel.close()).join().unwrap();
    let mut channel = Shaped::new(shaping().channel_write(SLOW));
    drop(channel.write_outbound(numbered(BURST + 1000)));
    let closes: Vec<_> = (0..3).map(|_| channel.on_loop(|channel| channel.close())).collect();
    let cancelled = channel.on_loop(|channel| channel.close());
    assert!(!cancelled.cancel(), "a close that waits has begun");
    channel.pass(12);
    closes.into_iter().for_each(|closed| closed.join().unwrap());
    assert_eq!(channel.sent_len(), BURST + 1000);
}

#[test]
fn k08_a_half_close_follows_everything_flushed_and_reads_go_on() {
    let half = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let mut channel = Shaped::with_options(shaping().channel_write(SLOW), half);
    let held = channel.write_outbound(numbered(BURST + 5_000));
    let unflushed = channel.write(numbered(50));
    let ended = channel.on_loop(|channel| channel.shutdown_output());
    let refused = channel.write_outbound(numbered(1)).join().unwrap_err();
    assert!(matches!(refused.find::<ChannelError>(), Some(ChannelError::OutputShutDown)));
    channel.write_inbound(numbered(10));
    assert_eq!(channel.read_len(), 10);
    channel.pass(30);
    assert!(!ended.is_done());
    channel.pass(24);
    assert_eq!((channel.sent_len(), ended.is_done()), (BURST + 5_000, true));
    held.join().unwrap();
    let failed = unflushed.join().unwrap_err();
    assert!(matches!(failed.find::<ChannelError>(), Some(ChannelError::OutputShutDown)));
    assert!(channel.channel().is_open());
}

/// Notes when the output is over.
#[derive(Clone, Default)]
struct OutputWatch(Rc<RefCell<Vec<HalfClosed>>>);

impl Handler for OutputWatch {
    fn interest(&self) -> Events {
        Events::USER_EVENT
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        self.0.borrow_mut().extend(event.get::<HalfClosed>().copied());
        ctx.fire_user_event(event);
        Ok(())
    }
}

#[test]
fn k08_a_close_after_a_half_close_waits_for_both() {
    let half = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let watch = OutputWatch::default();
    let shaping = shaping().channel_write(SLOW).build().unwrap();
    let (handler, seen) = (shaping.handler(), watch.0.clone());
    let mut channel = Embedded::builder()
        .stream()
        .options(half)
        .build(|edit| {
            edit.add_last("shaping", handler)?;
            edit.add_last("watch", watch)?;
            Ok(())
        })
        .unwrap();
    drop(channel.write_outbound(numbered(BURST + 1_000)));
    let ended = channel.on_loop(|channel| channel.shutdown_output());
    let closed = channel.on_loop(|channel| channel.close());
    for _ in 0..12 {
        channel.advance(MS);
    }
    ended.join().unwrap();
    closed.join().unwrap();
    let sent: usize =
        std::iter::from_fn(|| channel.read_outbound::<Bytes>()).map(|b| b.len()).sum();
    assert_eq!(sent, BURST + 1_000);
    assert_eq!(*seen.borrow(), [HalfClosed::Output]);
}

#[test]
fn k08_when_the_channel_dies_held_messages_fail_with_the_cause() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW));
    let held = channel.write_outbound(numbered(BURST + 10_000));
    let later = channel.write_outbound(numbered(10));
    channel.pass(20);
    let closed = channel.on_loop(|channel| channel.close());
    channel.fail(Error::new("connection reset"));
    for failed in [held, later] {
        let error = failed.join().unwrap_err();
        assert!(error.to_string().contains("connection reset"), "{error}");
    }
    assert!(closed.is_done(), "the close that waited has ended too");
    assert_eq!((channel.write_limiter().stats().held, channel.timers()), (0, 0));
}

#[test]
fn k08_the_end_of_the_peers_data_without_half_closure_fails_what_is_held() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW));
    let held = channel.write_outbound(numbered(BURST + 10_000));
    channel.finish_inbound();
    assert!(!channel.channel().is_open());
    let error = held.join().unwrap_err();
    assert!(matches!(error.find::<ChannelError>(), Some(ChannelError::Closed { cause: None })));
}

#[test]
fn k08_a_place_in_the_group_is_given_back_by_a_channel_that_dies() {
    let group = waterwheel_handlers::TrafficLimiter::new(SLOW);
    let mut dying = Shaped::new(shaping().write_group(&group));
    let mut waiting = Shaped::new(shaping().write_group(&group));
    drop(dying.write_outbound(numbered(BURST + 5_000)));
    assert_eq!(dying.sent_len(), BURST);
    dying.fail(Error::new("connection reset"));
    assert_eq!(group.stats().held, 0);
    drop(waiting.write_outbound(numbered(1_500)));
    waiting.pass(16);
    assert_eq!(waiting.sent_len(), 1_500, "the first turn is the next one");
}

/// Panics when it is to write.
struct PanicsAtWrite;

impl Handler for PanicsAtWrite {
    fn write(&mut self, _: &Ctx<'_>, _: Msg, _: &mut Completion) -> HandlerResult {
        panic!("a defect before the handler");
    }
}

#[test]
fn k08_a_panic_that_unwinds_through_the_handler_completes_a_close_that_waits() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW));
    let held = channel.write_outbound(numbered(BURST + 10_000));
    let closed = channel.on_loop(|channel| channel.close());
    channel.with_pipeline(|pipeline| pipeline.add_first("panics", PanicsAtWrite)).unwrap().unwrap();
    channel.pass(30);
    assert!(!channel.channel().is_open());
    assert!(closed.join().is_ok(), "the channel is closed, as requested");
    assert!(held.join().is_err());
    assert_eq!((channel.channel().pending_bytes(), channel.write_limiter().stats().held), (0, 0));
}
