//! K14: reading pauses while the channel is not writable.

use bytes::Bytes;
use waterwheel_channel::{
    ChannelOptions, Ctx, Events, Handler, HandlerResult, Msg, PauseReads, WaterMarks,
};
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};
use waterwheel_testkit::recorder::RecordedMethod;

use crate::support::{PipelineFixture, bytes, fixture_with};

/// Low-water mark 10, high-water mark 20.
fn options(pause_reads_while_unwritable: PauseReads) -> ChannelOptions {
    let water_marks = WaterMarks::new(10, 20).expect("valid water marks");
    ChannelOptions { water_marks, pause_reads_while_unwritable, ..ChannelOptions::default() }
}

fn pausing() -> ChannelOptions {
    options(PauseReads::Always)
}

struct Echo;

impl Handler for Echo {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

fn echo_fixture(options: ChannelOptions) -> PipelineFixture {
    let builder: EmbeddedBuilder = Embedded::builder().options(options).stream();
    let mut fixture = fixture_with(builder, |edit, log| {
        let interest = Events::READ | Events::READ_COMPLETE | Events::WRITABILITY_CHANGED;
        edit.add_last("log", log.recorder().interest(interest))?;
        edit.add_last("echo", Echo)?;
        Ok(())
    });
    fixture.run();
    drop(fixture.log.take());
    fixture
}

/// Builds a channel whose network has no room and whose answers exceed the high-water mark.
fn full_fixture(options: ChannelOptions) -> PipelineFixture {
    let mut fixture = echo_fixture(options);
    fixture.set_room(0);
    if !options.auto_read {
        fixture.on_loop(|channel| channel.read());
    }
    fixture.write_inbound(bytes(21));
    assert!(!fixture.channel().is_writable());
    fixture
}

fn sent(fixture: &mut PipelineFixture) -> usize {
    std::iter::from_fn(|| fixture.read_outbound::<Bytes>()).map(|bytes| bytes.len()).sum()
}

#[test]
fn k14_reading_pauses_above_the_high_water_mark_and_resumes_below_the_low_one() {
    let mut fixture = full_fixture(pausing());
    fixture.write_inbound(bytes(5));
    fixture.write_inbound(bytes(5));
    assert_eq!((fixture.unread(), fixture.channel().pending_bytes()), (2, 21));
    fixture.set_room(11);
    assert_eq!(
        (fixture.unread(), fixture.channel().pending_bytes()),
        (2, 10),
        "not below the mark"
    );
    fixture.set_room(1);
    assert_eq!((fixture.unread(), fixture.channel().pending_bytes()), (0, 19), "now it is");
    fixture.clear_faults();
    assert_eq!(sent(&mut fixture), 31);
}

#[test]
fn k14_a_channel_that_was_not_accepted_keeps_reading_unless_configured_to_pause() {
    for reads_on in [PauseReads::IfAccepted, PauseReads::Never] {
        let mut fixture = full_fixture(options(reads_on));
        fixture.write_inbound(bytes(500));
        assert_eq!((fixture.unread(), fixture.channel().pending_bytes()), (0, 521));
    }
}

#[test]
fn k14_a_read_requested_in_a_pause_is_made_after_it() {
    let mut fixture = full_fixture(ChannelOptions { auto_read: false, ..pausing() });
    fixture.write_inbound(bytes(5));
    fixture.on_loop(|channel| channel.read());
    fixture.run();
    assert_eq!(fixture.unread(), 1, "held");
    fixture.clear_faults();
    assert_eq!((fixture.unread(), sent(&mut fixture)), (0, 26));
    fixture.write_inbound(bytes(1));
    assert_eq!(fixture.unread(), 1, "one round was requested");
}

#[test]
fn k14_without_auto_read_the_end_of_a_pause_requests_no_read() {
    let mut fixture = full_fixture(ChannelOptions { auto_read: false, ..pausing() });
    fixture.write_inbound(bytes(5));
    fixture.clear_faults();
    assert_eq!((fixture.unread(), sent(&mut fixture)), (1, 21));
}

#[test]
fn k14_auto_read_switched_in_a_pause_takes_effect_after_it() {
    let mut fixture = full_fixture(pausing());
    fixture.write_inbound(bytes(5));
    fixture.on_loop(|channel| channel.set_auto_read(false));
    fixture.clear_faults();
    assert_eq!(fixture.unread(), 1, "it was turned off");
    fixture.on_loop(|channel| channel.set_auto_read(true));
    fixture.run();
    assert_eq!(fixture.unread(), 0);

    let mut fixture = full_fixture(ChannelOptions { auto_read: false, ..pausing() });
    fixture.write_inbound(bytes(5));
    fixture.on_loop(|channel| channel.set_auto_read(true));
    fixture.run();
    assert_eq!(fixture.unread(), 1, "turned on, but paused");
    fixture.clear_faults();
    assert_eq!(fixture.unread(), 0);
}

/// Each read takes the channel above its high-water mark, and its answer is written before the next read.
#[test]
fn k14_a_channel_that_is_writable_again_when_its_handlers_return_does_not_pause() {
    let mut fixture = echo_fixture(pausing());
    fixture.write_inbound_all((0..3).map(|_| Msg::from(bytes(100))));
    let told = fixture.log.take();
    let rounds = told.iter().filter(|line| line.contains("on_read_complete")).count();
    assert_eq!((sent(&mut fixture), rounds), (300, 1), "{told:?}");
}

#[test]
fn k14_a_round_stops_at_the_read_that_fills_the_channel() {
    let mut fixture = echo_fixture(pausing());
    fixture.set_room(0);
    fixture.write_inbound_all((0..10).map(|_| Msg::from(bytes(15))));
    assert_eq!((fixture.unread(), fixture.channel().pending_bytes()), (8, 30));
    assert_eq!(fixture.log.take().last().map(String::as_str), Some("log on_read_complete"));
    fixture.clear_faults();
    assert_eq!((fixture.unread(), sent(&mut fixture)), (0, 150));
}

#[test]
fn k14_the_peers_end_is_seen_after_the_pause_and_loses_no_answer() {
    let mut fixture = full_fixture(pausing());
    fixture.write_inbound(bytes(5));
    fixture.finish_inbound();
    assert!(fixture.channel().is_open(), "it has not read the end");
    fixture.clear_faults();
    assert_eq!((sent(&mut fixture), fixture.channel().is_open()), (26, false));
}

/// No answer can be written once the output is shut down, so a pause would protect nothing.
#[test]
fn k14_a_channel_whose_output_is_shut_down_keeps_reading() {
    let mut fixture = full_fixture(ChannelOptions { allow_half_closure: true, ..pausing() });
    fixture.write_inbound(bytes(5));
    assert_eq!(fixture.unread(), 1);
    fixture.on_loop(|channel| drop(channel.shutdown_output()));
    fixture.run();
    assert_eq!((fixture.unread(), fixture.channel().pending_bytes()), (0, 21));
}

#[test]
fn k14_a_channel_registered_again_in_a_pause_reads_after_it() {
    let mut fixture = full_fixture(pausing());
    fixture.write_inbound(bytes(5));
    fixture.on_loop(|channel| drop(channel.deregister()));
    fixture.run();
    fixture.on_loop(|channel| drop(channel.register()));
    fixture.run();
    assert_eq!(fixture.unread(), 1, "still full");
    fixture.clear_faults();
    assert_eq!((fixture.unread(), sent(&mut fixture)), (0, 26));
}

/// A handler that fills the channel again in `on_writability_changed` is not starved by reads, nor does it
/// stop them for ever.
#[test]
fn k14_a_handler_that_fills_the_channel_as_soon_as_there_is_room_leaves_it_paused() {
    let mut fixture = fixture_with(Embedded::builder().options(pausing()).stream(), |edit, log| {
        let refill = log.recorder().at(RecordedMethod::WritabilityChanged, |ctx| {
            if ctx.is_writable() {
                ctx.write_and_flush(bytes(30));
            }
            Ok(())
        });
        edit.add_last("refill", refill.interest(Events::WRITABILITY_CHANGED))?;
        Ok(())
    });
    fixture.run();
    fixture.set_room(0);
    fixture.on_loop(|channel| channel.send(bytes(21)));
    fixture.run();
    fixture.write_inbound(bytes(1));
    for _ in 0..5 {
        fixture.set_room(30);
        assert_eq!((fixture.unread(), fixture.channel().is_writable()), (1, false));
    }
}

/// Builds a channel whose handler answers without flushing and flushes in this method.
fn gathering(flushes_at: RecordedMethod) -> PipelineFixture {
    let mut fixture = fixture_with(Embedded::builder().options(pausing()).stream(), |edit, log| {
        let gather = log.recorder().reading(|ctx, msg| {
            ctx.write(msg);
            Ok(())
        });
        let gather = gather.at(flushes_at, |ctx| {
            ctx.flush();
            Ok(())
        });
        edit.add_last("gather", gather)?;
        Ok(())
    });
    fixture.run();
    fixture
}

#[test]
fn k14_a_handler_that_has_filled_the_channel_without_a_flush_is_called_in_time_to_flush() {
    for flushes_at in [RecordedMethod::ReadComplete, RecordedMethod::WritabilityChanged] {
        let mut fixture = gathering(flushes_at);
        for _ in 0..10 {
            fixture.write_inbound(bytes(15));
        }
        fixture.run();
        let left = (fixture.unread(), fixture.channel().pending_bytes());
        assert!(left.0 == 0 && left.1 <= 20, "{flushes_at:?}: {left:?}");
        assert!(sent(&mut fixture) >= 130, "{flushes_at:?}");
    }
}
