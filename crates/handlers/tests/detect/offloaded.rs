//! Detection in a pipeline with an offloaded handler.

use bytes::Bytes;
use waterwheel_channel::{Offloaded, RemoteHandler};
use waterwheel_executor::{Clock, Error, EventExecutor, ManualExecutor, VirtualClock};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::Log;

use crate::support::{begins, colours, inbound, taken_over};

/// Passes everything on.
struct Remote;

impl RemoteHandler for Remote {}

fn manual_executor() -> ManualExecutor {
    EventExecutor::builder().build_manual(Clock::Virtual(VirtualClock::new())).unwrap()
}

#[test]
fn k13_a_chosen_pipeline_may_have_an_offloaded_handler() {
    let mut executor = manual_executor();
    let log = Log::new();
    let (to, lines) = (executor.executor().clone(), log.clone());
    let detector = colours(&log).protocol("blue", begins("blue"), move |edit| {
        edit.add_last("remote", Offloaded::on(&to, || Remote))?;
        edit.add_last("blue", lines.recorder().interest(inbound()))?;
        Ok(())
    });
    let detector = detector.build().unwrap();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("detect", detector)?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(Bytes::from_static(b"bl"));
    channel.write_inbound(Bytes::from_static(b"ue 1"));
    channel.write_inbound(Bytes::from_static(b"2"));
    assert_eq!(log.take(), ["blue on_added"], "the other executor has not run");
    for _ in 0..2 {
        executor.run_now();
        channel.run();
    }
    let mut expected = taken_over("blue", "blue 1").split_off(1);
    expected.extend(["blue on_read 2", "blue on_read_complete"].map(String::from));
    assert_eq!(log.take(), expected);
}

#[test]
fn k13_the_timer_ends_at_the_close_while_an_offloaded_handler_keeps_the_pipeline() {
    let mut executor = manual_executor();
    let log = Log::new();
    let detector = colours(&log).build().unwrap();
    let remote = Offloaded::on(executor.executor(), || Remote);
    let mut channel = Embedded::new(|edit| {
        edit.add_last("detect", detector)?;
        edit.add_last("remote", remote)?;
        Ok(())
    })
    .unwrap();
    executor.run_now();
    channel.run();
    assert_eq!(channel.channel().event_loop().metrics().timers, 1);
    channel.write_inbound(Bytes::from_static(b"gr"));
    channel.fail(Error::new("reset"));
    channel.run();
    assert_eq!(channel.channel().event_loop().metrics().timers, 0);
    let names = channel.with_pipeline(|pipeline| pipeline.names());
    assert_eq!(names.unwrap(), ["detect", "remote"], "the other executor has not run");
}

#[test]
fn k13_after_an_offloaded_handler_bytes_that_arrive_after_the_close_are_not_lost() {
    let mut executor = manual_executor();
    let log = Log::new();
    let detector = colours(&log).build().unwrap();
    let remote = Offloaded::on(executor.executor(), || Remote);
    let mut channel = Embedded::new(|edit| {
        edit.add_last("remote", remote)?;
        edit.add_last("detect", detector)?;
        Ok(())
    })
    .unwrap();
    executor.run_now();
    channel.run();
    channel.write_inbound(Bytes::from_static(b"green"));
    channel.close();
    for _ in 0..4 {
        executor.run_now();
        channel.run();
    }
    let lines = log.take();
    assert_eq!(lines[..3], taken_over("green", "green")[..3]);
    assert!(lines.contains(&String::from("green on_inactive")), "{lines:?}");
}
