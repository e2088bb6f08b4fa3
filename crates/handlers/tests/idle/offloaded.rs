//! Beside handlers that run on another executor.

use bytes::Bytes;
use waterwheel_channel::{Edit, HandlerResult, Msg, Offloaded, RemoteCtx, RemoteHandler};
use waterwheel_executor::{Clock, Error, EventExecutor, ManualExecutor, VirtualClock};
use waterwheel_handlers::{IdleEvent, IdleKind};
use waterwheel_testkit::embedded::Embedded;

use crate::bench::{Bench, Listener, MS, idle};

const READER: IdleKind = IdleKind::Reader;

/// Passes everything on; says good-bye when it is told that nothing happens.
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

/// A channel, and the executor of its offloaded handler, which runs when it is told to.
fn bench(
    make: impl FnOnce(&mut Edit<'_>, Offloaded<Remote>, Listener) -> Result<(), Error>,
) -> (Bench, ManualExecutor) {
    let executor = EventExecutor::builder().build_manual(Clock::Virtual(VirtualClock::new()));
    let executor = executor.unwrap();
    let remote = Offloaded::on(executor.executor(), || Remote);
    let listener = Listener::default();
    let told = listener.0.clone();
    let channel = Embedded::builder().stream().build(|edit| make(edit, remote, listener));
    (Bench::of(channel.unwrap(), told), executor)
}

#[test]
fn c14_an_offloaded_handler_is_told_and_may_answer() {
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
    listener: Listener,
) -> Result<(), Error> {
    edit.add_last("remote", remote)?;
    edit.add_last("idle", idle().reader(MS * 10).build()?)?;
    edit.add_last("listener", listener)?;
    Ok(())
}

#[test]
fn c14_behind_an_offloaded_handler_what_is_on_its_way_is_not_read_yet() {
    let (mut bench, mut executor) = bench(behind_the_remote);
    bench.advance(MS * 50);
    assert_eq!(bench.timers(), 0, "it has not been told that the channel is active");
    executor.run_now();
    bench.run();
    bench.advance(MS * 9);
    bench.read();
    bench.advance(MS);
    assert_eq!(bench.told(), [(60, READER, true)], "it is in the mailbox");
    executor.run_now();
    bench.run();
    bench.advance(MS * 9);
    assert_eq!(bench.told(), []);
    bench.advance(MS);
    assert_eq!(bench.told(), [(70, READER, true)]);
}

#[test]
fn c14_a_channel_that_ends_before_an_offloaded_handler_has_told_that_it_began() {
    let (mut bench, mut executor) = bench(behind_the_remote);
    bench.fail(Error::new("gone"));
    bench.advance(MS * 50);
    executor.run_now();
    bench.run();
    bench.advance(MS * 50);
    assert_eq!((bench.told(), bench.timers()), (vec![], 0));
}

#[test]
fn c14_a_channel_that_has_ended_is_not_idle_though_nobody_has_told_the_handler() {
    let (mut bench, mut executor) = bench(behind_the_remote);
    executor.run_now();
    bench.run();
    bench.finish_inbound();
    bench.advance(MS * 10);
    assert_eq!(bench.told(), [], "the end is in the mailbox");
    executor.run_now();
    bench.run();
    assert_eq!((bench.told(), bench.timers()), (vec![], 0));
}

#[test]
fn c14_timers_are_taken_back_at_the_end_though_handlers_stay_for_an_offloaded_one() {
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
