//! `ReadTimeout`: when it fires, and what follows.

use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{
    Address, ChannelOptions, Ctx, Decode, Decoder, DrainOptions, Handler, HandlerResult,
};
use waterwheel_executor::Error;
use waterwheel_handlers::{ReadTimeout, TimeoutError};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::{Log, RecordedMethod};

use crate::support::{MS, NS, built_with, close_cause, receive, stream_with, timeouts, timers};

fn ten_ms() -> ReadTimeout {
    ReadTimeout::new(MS * 10).unwrap()
}

#[test]
fn k07_a_silent_channel_is_closed_with_an_error_that_names_channel_and_time() {
    let mut channel = stream_with(ten_ms());
    let id = channel.channel().id();
    channel.advance(MS * 10 - NS);
    assert!(channel.channel().is_open());
    channel.advance(NS);
    let expected = TimeoutError::Read { channel: id, peer: None, limit: MS * 10 };
    assert_eq!(timeouts(&mut channel), std::slice::from_ref(&expected));
    assert_eq!(expected.to_string(), format!("read timeout: no message for 10ms on channel {id}"));
    assert_eq!(close_cause(&mut channel).unwrap().to_string(), expected.to_string());
    channel.advance(MS * 100);
    assert_eq!((timeouts(&mut channel), timers(&mut channel)), (vec![], 0), "once only");
}

#[test]
fn k07_each_message_gives_the_whole_time_again() {
    let mut channel = stream_with(ten_ms());
    for _ in 0..20 {
        channel.advance(MS * 7);
        receive(&mut channel);
        assert_eq!(timers(&mut channel), 1, "reads do not set timers");
    }
    channel.advance(MS * 10 - NS);
    assert!(channel.channel().is_open());
    channel.advance(NS);
    assert!(!channel.channel().is_open());
}

#[test]
fn k07_writes_are_no_reads() {
    let mut channel = stream_with(ten_ms());
    channel.advance(MS * 9);
    channel.write_outbound(Bytes::from_static(b"out")).join().unwrap();
    channel.advance(MS);
    assert_eq!(timeouts(&mut channel).len(), 1);
}

struct Pairs;

impl Decoder for Pairs {
    type Out = String;

    fn decode(&mut self, from: &mut Bytes) -> Result<Option<String>, Error> {
        Ok((from.len() >= 2).then(|| String::from_utf8_lossy(&from.split_to(2)).into_owned()))
    }
}

#[test]
fn k07_after_a_decoder_only_whole_messages_count() {
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_last("pairs", Decode::new(Pairs))?;
            edit.add_last("timeout", ten_ms())?;
            Ok(())
        })
        .unwrap();
    channel.advance(MS * 6);
    channel.write_inbound(Bytes::from_static(b"a"));
    channel.advance(MS * 3);
    channel.write_inbound(Bytes::from_static(b"b"));
    channel.advance(MS * 9);
    channel.write_inbound(Bytes::from_static(b"c"));
    assert!(channel.channel().is_open(), "a whole message came at 9 ms");
    channel.advance(MS);
    assert_eq!(timeouts(&mut channel).len(), 1);
}

#[test]
fn k07_the_time_counts_from_when_the_channel_is_active_or_the_handler_is_added() {
    let mut channel = built_with(Embedded::builder().stream().unconnected(), ten_ms());
    channel.advance(MS * 50);
    assert_eq!(timers(&mut channel), 0);
    channel.on_loop(|channel| drop(channel.connect(Address::local("there"))));
    channel.advance(MS * 9);
    assert!(channel.channel().is_open());
    channel.advance(MS);
    assert!(!channel.channel().is_open());

    let mut channel = stream_with(ten_ms());
    channel.advance(MS * 9);
    channel.with_pipeline(|pipeline| pipeline.replace("timeout", "timeout", ten_ms()).unwrap());
    assert_eq!(timers(&mut channel), 1);
    channel.advance(MS * 9);
    assert!(channel.channel().is_open());
    channel.advance(MS);
    assert!(!channel.channel().is_open());
}

#[test]
fn k07_a_removed_read_timeout_leaves_no_timer() {
    let mut channel = stream_with(ten_ms());
    channel.with_pipeline(|pipeline| pipeline.remove("timeout").unwrap());
    assert_eq!(timers(&mut channel), 0);
    channel.advance(MS * 50);
    assert!(channel.channel().is_open());
}

/// Writes a last message when the timeout comes, or removes the handler.
struct App {
    forgives: bool,
}

impl Handler for App {
    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        assert!(error.find::<TimeoutError>().is_some());
        if self.forgives {
            ctx.pipeline().remove("timeout")?;
        } else {
            ctx.write_and_flush(Bytes::from_static(b"bye"));
        }
        Ok(())
    }
}

fn with_app(forgives: bool) -> Embedded {
    let built = Embedded::builder().stream().build(|edit| {
        edit.add_last("timeout", ten_ms())?;
        edit.add_last("app", App { forgives })?;
        Ok(())
    });
    built.unwrap()
}

#[test]
fn k07_a_message_written_in_response_is_sent_before_the_close() {
    let mut channel = with_app(false);
    channel.advance(MS * 10);
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "bye");
    assert!(close_cause(&mut channel).is_some());
}

#[test]
fn k07_removing_the_handler_in_response_keeps_the_channel_open() {
    let mut channel = with_app(true);
    channel.advance(MS * 10);
    assert!(channel.channel().is_open());
    assert_eq!(timers(&mut channel), 0);
}

#[test]
fn k07_the_close_passes_the_handlers_before_and_one_that_holds_it_is_asked_once() {
    let log = Log::new();
    let holder = log.recorder().interest(waterwheel_channel::Events::CLOSE);
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_last("holder", holder.holds(RecordedMethod::Close))?;
            edit.add_last("timeout", ten_ms())?;
            Ok(())
        })
        .unwrap();
    drop(log.take());
    for _ in 0..5 {
        channel.advance(MS * 10);
    }
    assert_eq!(log.take().iter().filter(|line| line.contains("close")).count(), 1);
    assert_eq!((timeouts(&mut channel).len(), timers(&mut channel)), (1, 0));
    assert!(channel.channel().is_open());
}

#[test]
fn k07_nothing_is_measured_after_the_end_of_the_peers_data() {
    for timeout in [ten_ms(), ten_ms().counting_pauses()] {
        let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
        let mut channel = built_with(Embedded::builder().stream().options(options), timeout);
        channel.advance(MS * 5);
        channel.finish_inbound();
        assert_eq!(timers(&mut channel), 0);
        channel.advance(MS * 100);
        assert!(channel.channel().is_open() && timeouts(&mut channel).is_empty());
    }
}

#[test]
fn k07_a_silent_channel_is_closed_during_a_drain_too() {
    let mut channel = stream_with(ten_ms());
    let hold = channel.channel().hold();
    let options = DrainOptions::within(Duration::from_secs(5));
    let drained = channel.channel().event_loop().drain(options);
    channel.run();
    channel.advance(MS * 10);
    assert_eq!(timeouts(&mut channel).len(), 1);
    assert!(!channel.channel().is_open());
    drop(hold);
    channel.run();
    drop(drained);
}
