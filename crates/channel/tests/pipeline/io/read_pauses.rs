//! K14: reading pauses while the channel is not writable.

use bytes::Bytes;
use waterwheel_channel::{
    ChannelOptions, Ctx, Events, Handler, HandlerResult, Msg, PauseReads, WaterMarks,
};
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};
use waterwheel_testkit::recorder::HandlerMethod;

use crate::support::{Bench, bench_with, bytes};

/// Low 10, high 20.
fn options(pause_reads_while_unwritable: PauseReads) -> ChannelOptions {
    let water_marks = WaterMarks::new(10, 20).expect("in order");
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

fn echo_with(options: ChannelOptions) -> Bench {
    let builder: EmbeddedBuilder = Embedded::builder().options(options).stream();
    let mut bench = bench_with(builder, |edit, log| {
        let interest = Events::READ | Events::READ_COMPLETE | Events::WRITABILITY_CHANGED;
        edit.add_last("log", log.recorder().interest(interest))?;
        edit.add_last("echo", Echo)?;
        Ok(())
    });
    bench.run();
    drop(bench.log.take());
    bench
}

/// A channel whose network has no room, and that has read and answered more than the high mark.
fn full_with(options: ChannelOptions) -> Bench {
    let mut bench = echo_with(options);
    bench.set_room(0);
    if !options.auto_read {
        bench.on_loop(|channel| channel.read());
    }
    bench.write_inbound(bytes(21));
    assert!(!bench.channel().is_writable());
    bench
}

fn sent(bench: &mut Bench) -> usize {
    std::iter::from_fn(|| bench.read_outbound::<Bytes>()).map(|bytes| bytes.len()).sum()
}

#[test]
fn k14_reading_pauses_above_the_high_water_mark_and_resumes_below_the_low_one() {
    let mut bench = full_with(pausing());
    bench.write_inbound(bytes(5));
    bench.write_inbound(bytes(5));
    assert_eq!((bench.unread(), bench.channel().pending_bytes()), (2, 21));
    bench.set_room(11);
    assert_eq!((bench.unread(), bench.channel().pending_bytes()), (2, 10), "not below the mark");
    bench.set_room(1);
    assert_eq!((bench.unread(), bench.channel().pending_bytes()), (0, 19), "now it is");
    bench.clear_faults();
    assert_eq!(sent(&mut bench), 31);
}

#[test]
fn k14_a_channel_that_was_not_accepted_keeps_reading_unless_configured_to_pause() {
    for reads_on in [PauseReads::IfAccepted, PauseReads::Never] {
        let mut bench = full_with(options(reads_on));
        bench.write_inbound(bytes(500));
        assert_eq!((bench.unread(), bench.channel().pending_bytes()), (0, 521));
    }
}

#[test]
fn k14_a_read_requested_in_a_pause_is_made_after_it() {
    let mut bench = full_with(ChannelOptions { auto_read: false, ..pausing() });
    bench.write_inbound(bytes(5));
    bench.on_loop(|channel| channel.read());
    bench.run();
    assert_eq!(bench.unread(), 1, "held");
    bench.clear_faults();
    assert_eq!((bench.unread(), sent(&mut bench)), (0, 26));
    bench.write_inbound(bytes(1));
    assert_eq!(bench.unread(), 1, "one round was asked for");
}

#[test]
fn k14_without_auto_read_the_end_of_a_pause_requests_no_read() {
    let mut bench = full_with(ChannelOptions { auto_read: false, ..pausing() });
    bench.write_inbound(bytes(5));
    bench.clear_faults();
    assert_eq!((bench.unread(), sent(&mut bench)), (1, 21));
}

#[test]
fn k14_auto_read_switched_in_a_pause_takes_effect_after_it() {
    let mut bench = full_with(pausing());
    bench.write_inbound(bytes(5));
    bench.on_loop(|channel| channel.set_auto_read(false));
    bench.clear_faults();
    assert_eq!(bench.unread(), 1, "it was turned off");
    bench.on_loop(|channel| channel.set_auto_read(true));
    bench.run();
    assert_eq!(bench.unread(), 0);

    let mut bench = full_with(ChannelOptions { auto_read: false, ..pausing() });
    bench.write_inbound(bytes(5));
    bench.on_loop(|channel| channel.set_auto_read(true));
    bench.run();
    assert_eq!(bench.unread(), 1, "turned on, but paused");
    bench.clear_faults();
    assert_eq!(bench.unread(), 0);
}

/// Each read takes the channel beyond its high mark, and is written before the next.
#[test]
fn k14_a_channel_that_is_writable_again_when_its_handlers_return_does_not_pause() {
    let mut bench = echo_with(pausing());
    bench.write_inbound_all((0..3).map(|_| Msg::from(bytes(100))));
    let told = bench.log.take();
    let rounds = told.iter().filter(|line| line.contains("on_read_complete")).count();
    assert_eq!((sent(&mut bench), rounds), (300, 1), "{told:?}");
}

#[test]
fn k14_a_round_stops_at_the_read_that_fills_the_channel() {
    let mut bench = echo_with(pausing());
    bench.set_room(0);
    bench.write_inbound_all((0..10).map(|_| Msg::from(bytes(15))));
    assert_eq!((bench.unread(), bench.channel().pending_bytes()), (8, 30));
    assert_eq!(bench.log.take().last().map(String::as_str), Some("log on_read_complete"));
    bench.clear_faults();
    assert_eq!((bench.unread(), sent(&mut bench)), (0, 150));
}

#[test]
fn k14_the_peers_end_is_seen_after_the_pause_and_loses_no_answer() {
    let mut bench = full_with(pausing());
    bench.write_inbound(bytes(5));
    bench.finish_inbound();
    assert!(bench.channel().is_open(), "it has not read the end");
    bench.clear_faults();
    assert_eq!((sent(&mut bench), bench.channel().is_open()), (26, false));
}

/// No answer can be written once the output is shut down: reading holds nothing back any more.
#[test]
fn k14_a_channel_whose_output_is_shut_down_keeps_reading() {
    let mut bench = full_with(ChannelOptions { allow_half_closure: true, ..pausing() });
    bench.write_inbound(bytes(5));
    assert_eq!(bench.unread(), 1);
    bench.on_loop(|channel| drop(channel.shutdown_output()));
    bench.run();
    assert_eq!((bench.unread(), bench.channel().pending_bytes()), (0, 21));
}

#[test]
fn k14_a_channel_registered_again_in_a_pause_reads_after_it() {
    let mut bench = full_with(pausing());
    bench.write_inbound(bytes(5));
    bench.on_loop(|channel| drop(channel.deregister()));
    bench.run();
    bench.on_loop(|channel| drop(channel.register()));
    bench.run();
    assert_eq!(bench.unread(), 1, "still full");
    bench.clear_faults();
    assert_eq!((bench.unread(), sent(&mut bench)), (0, 26));
}

/// A handler that writes when it is told that there is room, and so fills the channel again, is not
/// starved by reads, nor does it end them.
#[test]
fn k14_a_handler_that_fills_the_channel_as_soon_as_there_is_room_leaves_it_paused() {
    let mut bench = bench_with(Embedded::builder().options(pausing()).stream(), |edit, log| {
        let refill = log.recorder().at(HandlerMethod::WritabilityChanged, |ctx| {
            if ctx.is_writable() {
                ctx.write_and_flush(bytes(30));
            }
            Ok(())
        });
        edit.add_last("refill", refill.interest(Events::WRITABILITY_CHANGED))?;
        Ok(())
    });
    bench.run();
    bench.set_room(0);
    bench.on_loop(|channel| channel.send(bytes(21)));
    bench.run();
    bench.write_inbound(bytes(1));
    for _ in 0..5 {
        bench.set_room(30);
        assert_eq!((bench.unread(), bench.channel().is_writable()), (1, false));
    }
}

/// Answers without flushing; flushes at these moments.
fn gathering(flushes_at: HandlerMethod) -> Bench {
    let mut bench = bench_with(Embedded::builder().options(pausing()).stream(), |edit, log| {
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
    bench.run();
    bench
}

#[test]
fn k14_a_handler_that_has_filled_the_channel_without_a_flush_is_called_in_time_to_flush() {
    for flushes_at in [HandlerMethod::ReadComplete, HandlerMethod::WritabilityChanged] {
        let mut bench = gathering(flushes_at);
        for _ in 0..10 {
            bench.write_inbound(bytes(15));
        }
        bench.run();
        let left = (bench.unread(), bench.channel().pending_bytes());
        assert!(left.0 == 0 && left.1 <= 20, "{flushes_at:?}: {left:?}");
        assert!(sent(&mut bench) >= 130, "{flushes_at:?}");
    }
}
