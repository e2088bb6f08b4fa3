//! Writes queued for an offloaded handler are pending bytes and apply back-pressure.

use bytes::Bytes;
use waterwheel_channel::{
    ChannelOptions, HandlerResult, Msg, Offloaded, RemoteCompletion, RemoteCtx, RemoteHandler,
    WaterMarks,
};
use waterwheel_testkit::recorder::Log;

use crate::support::OffloadFixture;

struct PassThrough;

impl RemoteHandler for PassThrough {}

/// Completes every write without passing it on.
struct DiscardsWrites;

impl RemoteHandler for DiscardsWrites {
    fn write(&mut self, _: &RemoteCtx, _: Msg, done: &mut RemoteCompletion) -> HandlerResult {
        done.take().succeed();
        Ok(())
    }
}

fn marks(low: usize, high: usize) -> ChannelOptions {
    ChannelOptions { water_marks: WaterMarks::new(low, high).unwrap(), ..ChannelOptions::default() }
}

fn bytes(n: usize) -> Bytes {
    Bytes::from(vec![0; n])
}

#[test]
fn c03_writes_queued_for_the_handler_are_pending_bytes() {
    let mut fixture = OffloadFixture::with_options(marks(100, 200), |edit, executor| {
        edit.add_last("silent", Offloaded::on(executor, || PassThrough))?;
        Ok(())
    });
    fixture.run_until_idle();
    let channel = fixture.handle();
    fixture.channel.on_loop(|channel| drop(channel.write(bytes(150))));
    assert_eq!((channel.pending_bytes(), channel.is_writable()), (150, true));
    fixture.channel.on_loop(|channel| drop(channel.write(bytes(51))));
    assert_eq!((channel.pending_bytes(), channel.is_writable()), (201, false));
    fixture.run_until_idle();
    assert_eq!((channel.pending_bytes(), channel.is_writable()), (201, false), "in the buffer now");
    channel.flush();
    fixture.run_until_idle();
    assert_eq!((channel.pending_bytes(), channel.is_writable()), (0, true));
}

#[test]
fn c03_bytes_that_a_handler_swallows_are_no_longer_pending() {
    let log = Log::new();
    let told = log.clone();
    struct LogsWritability(Log);
    impl waterwheel_channel::Handler for LogsWritability {
        fn on_writability_changed(&mut self, ctx: &waterwheel_channel::Ctx<'_>) -> HandlerResult {
            self.0.push(format!("writable: {}", ctx.is_writable()));
            Ok(())
        }
    }
    let mut fixture = OffloadFixture::with_options(marks(100, 200), |edit, executor| {
        edit.add_last("tells", LogsWritability(told))?;
        edit.add_last("swallows", Offloaded::on(executor, || DiscardsWrites))?;
        Ok(())
    });
    fixture.run_until_idle();
    fixture.channel.on_loop(|channel| drop(channel.write(bytes(500))));
    fixture.channel.run();
    assert_eq!(log.take(), ["writable: false"]);
    fixture.run_until_idle();
    let channel = fixture.handle();
    assert_eq!((channel.pending_bytes(), channel.is_writable()), (0, true));
    assert_eq!(log.take(), ["writable: true"]);
}

#[test]
fn c03_writes_of_the_handler_are_pending_at_once() {
    struct WritesThree;
    impl RemoteHandler for WritesThree {
        fn on_user_event(&mut self, ctx: &RemoteCtx, _: Msg) -> HandlerResult {
            ctx.write(bytes(300));
            assert!(!ctx.is_writable());
            Ok(())
        }
    }
    let mut fixture = OffloadFixture::with_options(marks(100, 200), |edit, executor| {
        edit.add_last("emits", Offloaded::on(executor, || WritesThree))?;
        Ok(())
    });
    fixture.run_until_idle();
    let channel = fixture.handle();
    channel.fire_user_event(1u32);
    fixture.channel.run();
    fixture.remote.run_now();
    assert_eq!(channel.pending_bytes(), 300, "queued for the loop");
    fixture.run_until_idle();
    assert_eq!(channel.pending_bytes(), 300, "in the buffer");
    channel.flush();
    fixture.run_until_idle();
    assert_eq!(channel.pending_bytes(), 0);
    assert_eq!(fixture.reports.take(), [""; 0]);
}

#[test]
fn c03_many_writes_of_size_zero_make_the_channel_unwritable() {
    struct ZeroSized;
    impl waterwheel_channel::Message for ZeroSized {}
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("silent", Offloaded::on(executor, || PassThrough))?;
        Ok(())
    });
    fixture.run_until_idle();
    let channel = fixture.handle();
    let write = |fixture: &mut OffloadFixture| {
        fixture.channel.on_loop(|channel| drop(channel.write(ZeroSized)))
    };
    for _ in 0..64 {
        write(&mut fixture);
    }
    assert!(channel.is_writable());
    write(&mut fixture);
    assert!(!channel.is_writable(), "the 65th");
    fixture.run_until_idle();
    assert!(channel.is_writable());
}

#[test]
fn c03_the_hard_cap_counts_writes_queued_for_the_handler() {
    let marks = WaterMarks::new(100, 200).unwrap().with_hard_cap(300).unwrap();
    let options = ChannelOptions { water_marks: marks, ..ChannelOptions::default() };
    let mut fixture = OffloadFixture::with_options(options, |edit, executor| {
        edit.add_last("silent", Offloaded::on(executor, || PassThrough))?;
        Ok(())
    });
    fixture.run_until_idle();
    let first = fixture.channel.on_loop(|channel| channel.write(bytes(250)));
    let second = fixture.channel.on_loop(|channel| channel.write_and_flush(bytes(51)));
    fixture.channel.run();
    assert!(second.join().unwrap_err().to_string().contains("write of 51 bytes refused"));
    fixture.handle().flush();
    fixture.run_until_idle();
    first.join().unwrap();
    assert_eq!(fixture.handle().pending_bytes(), 0);
}

#[test]
fn c03_a_slow_handler_holds_reads_back() {
    let options = ChannelOptions { reads_per_round: 16, ..ChannelOptions::default() };
    let mut fixture = OffloadFixture::with_options(options, |edit, executor| {
        edit.add_last("silent", Offloaded::on(executor, || PassThrough))?;
        Ok(())
    });
    fixture.run_until_idle();
    fixture.channel.write_inbound_all((0u32..1000).map(Msg::new));
    assert_eq!(fixture.channel.unread(), 1000 - 16, "one round is on its way to the handler");
    fixture.channel.run();
    assert_eq!(fixture.channel.unread(), 1000 - 16, "and no more until it has read them");
    fixture.remote.run_now();
    fixture.channel.run();
    assert_eq!(fixture.channel.unread(), 1000 - 32);
    fixture.run_until_idle();
    assert_eq!(fixture.channel.unread(), 0);
    assert!(fixture.inbound().into_iter().eq(0..1000));
}

#[test]
fn c03_an_offloaded_handler_may_hold_a_read_back() {
    struct HoldsReads {
        rounds: u32,
    }
    impl RemoteHandler for HoldsReads {
        fn read(&mut self, ctx: &RemoteCtx) -> HandlerResult {
            self.rounds += 1;
            if self.rounds <= 2 {
                ctx.read();
            }
            Ok(())
        }
    }
    let options = ChannelOptions { reads_per_round: 10, ..ChannelOptions::default() };
    let mut fixture = OffloadFixture::with_options(options, |edit, executor| {
        edit.add_last("stingy", Offloaded::on(executor, || HoldsReads { rounds: 0 }))?;
        Ok(())
    });
    fixture.channel.write_inbound_all((0u32..100).map(Msg::new));
    fixture.run_until_idle();
    assert_eq!(fixture.channel.unread(), 80);
}
