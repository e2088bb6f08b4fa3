//! The idle handler in a pipeline with an offloaded handler.

use bytes::Bytes;
use waterwheel_channel::{Edit, HandlerResult, Msg, Offloaded, RemoteCtx, RemoteHandler};
use waterwheel_executor::{Clock, Error, EventExecutor, ManualExecutor, VirtualClock};
use waterwheel_handlers::{IdleEvent, IdleKind};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{Bench, EventRecorder, MS, idle};

const READER: IdleKind = IdleKind::Reader;

/// Passes everything on; writes a last message when the channel is idle.
struct Remote;

impl RemoteHandler for Remote {
    fn on_user_event(&mut self, ctx: &RemoteCtx, event: Msg) -> HandlerResult {
        if event.is::<IdleEvent>() {
            ctx.write_and_flush(Bytes::from_static(b"bye"));
            ctx.close();
        }
        Ok(())
    }
}

/// A channel, and the manually driven executor of its offloaded handler.
fn bench(
    make: impl FnOnce(&mut Edit<'_>, Offloaded<Remote>, EventRecorder) -> Result<(), Error>,
) -> (Bench, ManualExecutor) {
    let executor = EventExecutor::builder().build_manual(Clock::Virtual(VirtualClock::new()));
    let executor = executor.unwrap();
    let remote = Offloaded::on(executor.executor(), || Remote);
    let recorder = EventRecorder::default();
    let told = recorder.0.clone();
    let channel = Embedded::builder().stream().build(|edit| make(edit, remote, recorder));
    (Bench::of(channel.unwrap(), told), executor)
}

#[test]
fn c14_an_offloaded_handler_receives_the_event_and_may_write() {
    let (mut bench, mut executor) = bench(|edit, remote, _| {
        edit.add_last("idle", idle().reader(MS * 10).build()?)?;
        edit.add_last("remote", remote)?;
        Ok(())
    });
    executor.run_now();
    bench.run();
    bench.advance(MS * 10);
    assert!(bench.channel().is_open(), "it has not run");
    executor.run_now();
    bench.run();
    assert_eq!(bench.read_outbound::<Bytes>().unwrap(), "bye");
    assert!(!bench.channel().is_open());
    executor.run_now();
    bench.run();
    assert_eq!(bench.timers(), 0);
}

fn behind_the_remote(
    edit: &mut Edit<'_>,
    remote: Offloaded<Remote>,
    recorder: EventRecorder,
) -> Result<(), Error> {
    edit.add_last("remote", remote)?;
    edit.add_last("idle", idle().reader(MS * 10).build()?)?;
    edit.add_last("recorder", recorder)?;
    Ok(())
}

#[test]
fn c14_after_an_offloaded_handler_a_message_in_transit_does_not_count_yet() {
    let (mut bench, mut executor) = bench(behind_the_remote);
    bench.advance(MS * 50);
    assert_eq!(bench.timers(), 0, "it has not been told that the channel is active");
    executor.run_now();
    bench.run();
    bench.advance(MS * 9);
    bench.read();
    bench.advance(MS);
    assert_eq!(bench.events(), [(60, READER, true)], "it is in the mailbox");
    executor.run_now();
    bench.run();
    bench.advance(MS * 9);
    assert_eq!(bench.events(), []);
    bench.advance(MS);
    assert_eq!(bench.events(), [(70, READER, true)]);
}

#[test]
fn c14_a_channel_that_closes_before_an_offloaded_handler_passed_on_active() {
    let (mut bench, mut executor) = bench(behind_the_remote);
    bench.fail(Error::new("gone"));
    bench.advance(MS * 50);
    executor.run_now();
    bench.run();
    bench.advance(MS * 50);
    assert_eq!((bench.events(), bench.timers()), (vec![], 0));
}

#[test]
fn c14_a_closed_channel_is_not_idle_before_on_inactive_arrives() {
    let (mut bench, mut executor) = bench(behind_the_remote);
    executor.run_now();
    bench.run();
    bench.finish_inbound();
    bench.advance(MS * 10);
    assert_eq!(bench.events(), [], "the end is in the mailbox");
    executor.run_now();
    bench.run();
    assert_eq!((bench.events(), bench.timers()), (vec![], 0));
}

#[test]
fn c14_timers_are_cancelled_at_the_close_while_an_offloaded_handler_keeps_the_pipeline() {
    let (mut bench, mut executor) = bench(|edit, remote, _| {
        edit.add_last("idle", idle().reader(MS * 10).writer(MS * 10).build()?)?;
        edit.add_last("remote", remote)?;
        Ok(())
    });
    executor.run_now();
    bench.run();
    assert_eq!(bench.timers(), 2);
    bench.finish_inbound();
    assert_eq!(bench.timers(), 0, "the other executor has not run");
}
