//! Registration of channels with loops (L01), on local channels.

use std::time::Duration;

use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{ChannelOptions, EventLoopGroup, NewChannel, local as transport};
use waterwheel_executor::Error;
use waterwheel_testkit::loop_suite::panic_quietly;

use crate::support::{LocalFixture, Log, PATIENCE, RecordingHandler, shut_down, threaded_group};

fn recorded(new: NewChannel, who: &'static str, log: &Log) -> NewChannel {
    let log = log.clone();
    new.initialiser(move |edit| {
        edit.add_last("record", RecordingHandler::new(who, &log))?;
        Ok(())
    })
}

#[test]
fn l01_the_future_gives_the_channel_once_its_pipeline_is_complete() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (one, _other) = transport::pair();
        let registered = fixture.event_loop(0).register(recorded(one, "a", &log));
        assert!(!registered.is_done(), "the registration runs on the loop");
        let (told, event_loop) = (log.clone(), fixture.event_loop(0));
        registered.on_complete(move |channel| {
            let channel = channel.expect("the registration completes");
            told.add(format!("the promise, registered {}", channel.is_registered()));
            assert_eq!(channel.event_loop(), event_loop);
        });
        fixture.run();
        assert_eq!(
            log.take(),
            ["a: added", "the promise, registered true", "a: registered", "a: active"]
        );
    });
}

#[test]
fn l01_a_registration_on_the_loop_completes_at_once() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (one, _other) = transport::pair();
        let bench = fixture.bench(0);
        let event_loop = bench.event_loop();
        let mut registered = bench.here(|_| event_loop.register(recorded(one, "a", &log)));
        let channel = registered.try_take().expect("done").expect("the registration succeeds");
        assert!(channel.is_active());
        assert_eq!(log.take(), ["a: added", "a: registered", "a: active"]);
        assert_eq!(bench.metrics().queue_depth, 0, "no command");
    });
}

#[test]
fn l01_a_group_registers_with_its_next_loop() {
    let group = threaded_group(2);
    let loops: Vec<_> = group.children().collect();
    let (one, other) = transport::pair();
    let first = group.register(one).join().unwrap();
    let second = group.register(other).join().unwrap();
    assert_eq!([first.event_loop(), second.event_loop()], [loops[0].clone(), loops[1].clone()]);
    assert_eq!(loops[0].registered_channels().join().unwrap(), [first]);
    assert_eq!(loops[1].registered_channels().join().unwrap(), [second]);
    shut_down(&group);
}

#[test]
fn l01_registered_channels_lists_the_channels_of_the_loop_now() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) =
            fixture.pair(RecordingHandler::new("a", &log), RecordingHandler::new("b", &log));
        let both =
            if fixture.has_two_loops() { vec![a.clone()] } else { vec![a.clone(), b.clone()] };
        let event_loop = fixture.event_loop(0);
        assert_eq!(fixture.outcome(event_loop.registered_channels()).unwrap(), both);
        fixture.outcome(a.deregister()).unwrap();
        assert_eq!(fixture.outcome(event_loop.registered_channels()).unwrap(), both[1..]);
        fixture.outcome(a.register()).unwrap();
        assert_eq!(fixture.outcome(event_loop.registered_channels()).unwrap(), both);
        fixture.outcome(a.close()).unwrap();
        assert_eq!(fixture.outcome(event_loop.registered_channels()).unwrap(), []);
        assert!(!b.is_open(), "the channel is closed with its peer");
    });
}

#[test]
fn l01_a_loop_that_is_shut_down_refuses_a_channel_and_its_peer_is_closed() {
    let shut = threaded_group(1);
    shut_down(&shut);
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (one, other) = transport::pair();
        let b = fixture.register(0, other, RecordingHandler::new("b", &log));
        let error = shut.next().register(recorded(one, "a", &log)).join().unwrap_err();
        assert!(error.to_string().contains("shut"), "{error}");
        fixture.run();
        assert!(!b.is_open(), "its peer is closed");
        assert_eq!(log.of("a"), [""; 0], "its handlers were never made");
        assert_eq!(
            log.of("b"),
            ["added", "registered", "active", "inactive", "unregistered", "removed"]
        );
    });
}

#[test]
fn l01_a_loop_that_is_shutting_down_refuses_a_channel_and_closes_it() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let mut closing = EventLoopGroup::builder(TaskOnly).build_manual().unwrap();
        let event_loop = closing.event_loop();
        let quiet = Duration::from_secs(3600);
        drop(event_loop.shutdown_gracefully(quiet, quiet).unwrap());
        let (one, other) = transport::pair();
        let b = fixture.register(0, other, RecordingHandler::new("b", &log));
        let mut refused = event_loop.register(recorded(one, "a", &log));
        while !refused.is_done() {
            assert!(closing.turn(Some(Duration::ZERO)), "the quiet period is not over");
        }
        let error = refused.try_take().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "the event loop is shutting down");
        fixture.run();
        assert!(!b.is_open(), "its peer is closed");
        assert_eq!(log.of("a"), [""; 0]);
    });
}

#[test]
fn l01_an_initialiser_that_fails_closes_the_channel_and_fails_the_future() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (one, other) = transport::pair();
        let b = fixture.register(1, other, RecordingHandler::new("b", &log));
        let notes = log.clone();
        let one = one.initialiser(move |edit| {
            edit.add_last("record", RecordingHandler::new("a", &notes))?;
            Err(Error::new("no such user"))
        });
        let registered = fixture.event_loop(0).register(one);
        let error = fixture.outcome(registered).unwrap_err();
        assert_eq!(error.to_string(), "no such user");
        assert!(!b.is_open(), "its peer is closed");
        assert!(!log.of("a").contains(&"registered".to_owned()), "{:?}", log.of("a"));
        let listed = fixture.event_loop(0).registered_channels();
        assert_eq!(fixture.outcome(listed).unwrap(), []);
    });
}

#[test]
fn l01_an_initialiser_that_panics_closes_the_channel_and_fails_the_future() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (one, other) = transport::pair();
        let b = fixture.register(1, other, RecordingHandler::new("b", &log));
        let one = one.initialiser(|_| panic_quietly("no such user"));
        let registered = fixture.event_loop(0).register(one);
        let error = fixture.outcome(registered).unwrap_err();
        assert!(error.to_string().contains("no such user"), "{error}");
        assert!(!b.is_open(), "its peer is closed");
        let listed = fixture.event_loop(0).registered_channels();
        assert_eq!(fixture.outcome(listed).unwrap(), []);
        assert_eq!(fixture.reports().len(), 1, "the panic");
    });
}

#[test]
fn l01_options_and_parent_go_with_the_channel() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (one, other) = transport::pair();
        let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
        let b = fixture.register(1, other, RecordingHandler::new("b", &log));
        let a = fixture.register(
            0,
            one.options(options).parent(b.clone()),
            RecordingHandler::new("a", &log),
        );
        assert!(!a.is_auto_read());
        assert_eq!(a.parent(), Some(&b));
    });
}

#[test]
fn l14_a_task_only_loop_carries_local_channels() {
    let group = threaded_group(1);
    assert_eq!(group.next().driver_name(), "task-only");
    let log = Log::default();
    let (one, other) = transport::pair();
    let a = group.register(recorded(one, "a", &log)).join().unwrap();
    let b = group.register(recorded(other, "b", &log)).join().unwrap();
    a.write_and_flush("hello".to_owned()).join().unwrap();
    a.close().join().unwrap();
    b.closed().wait_timeout(PATIENCE).unwrap();
    shut_down(&group);
    assert!(log.of("b").contains(&"read hello".to_owned()), "{:?}", log.of("b"));
}

#[test]
fn c04_on_read_complete_comes_once_although_the_channel_is_deregistered_in_the_round() {
    for comes_back in [false, true] {
        LocalFixture::on_one_and_two_loops(|fixture| {
            let log = Log::default();
            let leaves = RecordingHandler::new("b", &log).on_read(move |ctx, _| {
                ctx.deregister();
                if comes_back {
                    drop(ctx.channel().register());
                }
                Ok(())
            });
            let (a, b) = fixture.pair(RecordingHandler::new("a", &log), leaves);
            let born = log.of("b").len();
            a.send("hello".to_owned());
            fixture.run();
            let left = ["read hello", "read complete", "unregistered"];
            let back: &[&str] = if comes_back { &["registered"] } else { &[] };
            assert_eq!(log.of("b")[born..], [&left, back].concat());
            assert_eq!(b.is_registered(), comes_back);
        });
    }
}
