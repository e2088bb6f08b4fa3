//! Where an offloaded handler runs, and the order of its events.

use waterwheel_channel::{
    Address, HandlerResult, Msg, Offloaded, RemoteCtx, RemoteHandler, Signature, TypeTag,
};
use waterwheel_executor::EventExecutor;
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::Log;

use crate::support::{Inner, OffloadFixture, Recorder, number};

#[test]
fn c03_an_offloaded_handler_is_built_and_called_only_by_its_executor() {
    let log = Log::new();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("remote", Recorder::on(executor, "remote", &log))?;
        Ok(())
    });
    fixture.channel.write_inbound(1u32);
    fixture.write(2);
    fixture.channel.run();
    assert_eq!(log.take(), [""; 0], "its executor has not run");
    assert_eq!((fixture.inbound(), fixture.outbound()), (vec![], vec![]));
    fixture.remote.run_now();
    let first = ["remote built", "remote added", "remote registered", "remote active"];
    assert_eq!(log.take()[..4], first);
    assert_eq!((fixture.inbound(), fixture.outbound()), (vec![], vec![]), "the loop has not run");
    fixture.run_until_idle();
    assert_eq!((fixture.inbound(), fixture.outbound()), (vec![1], vec![2]));
}

#[test]
fn c03_every_event_reaches_an_offloaded_handler_in_order() {
    let log = Log::new();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("remote", Recorder::on(executor, "remote", &log))?;
        edit.add_last("inner", Inner(log.clone()))?;
        Ok(())
    });
    fixture.run_until_idle();
    assert_eq!(
        log.take(),
        [
            "remote built",
            "remote added",
            "remote registered",
            "remote active",
            "remote begin read",
            "inner active",
        ]
    );
    fixture.channel.on_loop(|channel| {
        channel.fire_user_event(1u32);
        channel.send(2u32);
        drop(channel.connect(Address::local("there")));
        drop(channel.bind(Address::local("here")));
    });
    fixture.channel.write_inbound(3u32);
    fixture.channel.on_loop(|channel| drop(channel.deregister()));
    fixture.run_until_idle();
    let expected = [
        "inner write 2",
        "remote user event 1",
        "remote write 2",
        "remote flush",
        "remote connect",
        "remote bind",
        "remote read 3",
        "remote read complete",
        "remote begin read",
        "remote deregister",
        "inner read 3",
        "remote unregistered",
        "inner unregistered",
    ];
    assert_eq!(log.take(), expected);
    fixture.channel.on_loop(|channel| drop(channel.disconnect()));
    fixture.run_until_idle();
    let expected = ["remote disconnect", "remote inactive", "inner inactive"];
    assert_eq!(log.take()[..3], expected);
}

/// A remote handler with default methods.
struct PassThrough;

impl RemoteHandler for PassThrough {}

#[test]
fn c03_an_offloaded_handler_with_default_methods_is_not_skipped() {
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("silent", Offloaded::on(executor, || PassThrough))?;
        Ok(())
    });
    fixture.run_until_idle();
    fixture.channel.write_inbound(1u32);
    fixture.write(2);
    fixture.channel.run();
    assert_eq!(
        (fixture.inbound(), fixture.outbound()),
        (vec![], vec![]),
        "they wait for its executor"
    );
    fixture.run_until_idle();
    assert_eq!((fixture.inbound(), fixture.outbound()), (vec![1], vec![2]));
}

/// Answers each request twice and passes it on in between.
struct AnswersTwice;

impl RemoteHandler for AnswersTwice {
    fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
        let request = number(&msg);
        ctx.write(request * 10);
        ctx.fire_read(msg);
        ctx.write(request * 10 + 1);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.flush();
        ctx.fire_read_complete();
        Ok(())
    }
}

#[test]
fn c03_pipelined_requests_are_answered_in_order() {
    let log = Log::new();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("before", Inner(log.clone()))?;
        edit.add_last("answers", Offloaded::on(executor, || AnswersTwice))?;
        edit.add_last("behind", Inner(log.clone()))?;
        Ok(())
    });
    fixture.channel.write_inbound_all((1u32..=3).map(Msg::new));
    fixture.run_until_idle();
    fixture.channel.write_inbound(4u32);
    fixture.run_until_idle();
    assert_eq!(fixture.outbound(), [10, 11, 20, 21, 30, 31, 40, 41]);
    assert_eq!(fixture.inbound(), [1, 2, 3, 4]);
    let answers = ["inner write 10", "inner read 1", "inner write 11", "inner write 20"];
    let seen = log.take();
    let first = seen.iter().position(|line| line == answers[0]).unwrap();
    assert_eq!(seen[first..first + 4], answers, "in the order of emission, in both directions");
}

#[test]
fn c03_more_events_than_a_batch_keep_their_order() {
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("silent", Offloaded::on(executor, || PassThrough))?;
        Ok(())
    });
    fixture.run_until_idle();
    for n in 0..2000 {
        fixture.write(n);
    }
    let before = fixture.remote.executor().stats().tasks;
    fixture.run_until_idle();
    assert!(fixture.outbound().into_iter().eq(0..2000));
    let tasks = fixture.remote.executor().stats().tasks - before;
    assert!((2..=100).contains(&tasks), "{tasks} tasks: many events each, and not all at once");
}

#[test]
fn c03_a_batch_is_one_task_and_other_tasks_run_in_between() {
    let log = Log::new();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("silent", Offloaded::on(executor, || PassThrough))?;
        Ok(())
    });
    fixture.run_until_idle();
    for n in 0..1000 {
        fixture.write(n);
    }
    let other = log.clone();
    fixture.remote.executor().execute(move || other.push("other task")).unwrap();
    fixture.remote.run_now();
    fixture.channel.run();
    assert_eq!(log.take(), ["other task"]);
    let out = fixture.outbound().len();
    assert!(out > 0 && out < 1000, "{out} went out before");
}

#[test]
fn c03_two_offloaded_handlers_in_a_row_keep_the_order() {
    let log = Log::new();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("first", Offloaded::on(executor, || PassThrough))?;
        edit.add_last("second", Offloaded::on(executor, || AnswersTwice))?;
        edit.add_last("third", Offloaded::on(executor, || PassThrough))?;
        edit.add_last("inner", Inner(log.clone()))?;
        Ok(())
    });
    fixture.channel.write_inbound_all((1u32..=2).map(Msg::new));
    fixture.write(7);
    fixture.run_until_idle();
    let mut out = fixture.outbound();
    out.retain(|answer| *answer != 7);
    assert_eq!(out, [10, 11, 20, 21]);
    assert_eq!(fixture.inbound(), [1, 2]);
}

#[test]
fn c03_a_context_may_be_kept_and_used_from_another_thread() {
    struct Keeps(std::sync::mpsc::Sender<RemoteCtx>);
    impl RemoteHandler for Keeps {
        fn on_active(&mut self, ctx: &RemoteCtx) -> HandlerResult {
            self.0.send(ctx.clone()).unwrap();
            Ok(())
        }
    }
    let (sender, kept) = std::sync::mpsc::channel();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("keeps", Offloaded::on(executor, || Keeps(sender)))?;
        Ok(())
    });
    fixture.run_until_idle();
    let ctx = kept.recv().unwrap();
    assert_eq!((ctx.name(), ctx.is_active(), ctx.is_writable()), ("keeps", true, true));
    assert_eq!((ctx.channel(), ctx.executor()), (fixture.handle(), fixture.remote.executor()));
    let writer = std::thread::spawn(move || {
        ctx.write_and_flush(1u32);
        ctx.fire_read(2u32);
    });
    writer.join().unwrap();
    fixture.run_until_idle();
    assert_eq!((fixture.outbound(), fixture.inbound()), (vec![1], vec![2]));
}

#[test]
fn c03_an_error_goes_to_the_handlers_own_error_method() {
    struct Fails(Log);
    impl RemoteHandler for Fails {
        fn on_read(&mut self, _: &RemoteCtx, _: Msg) -> HandlerResult {
            Err("unreadable".into_error())
        }

        fn on_error(
            &mut self,
            ctx: &RemoteCtx,
            error: waterwheel_executor::Error,
        ) -> HandlerResult {
            self.0.push(format!("own {error}"));
            ctx.fire_error(error);
            Err("worse".into_error())
        }
    }
    let log = Log::new();
    let fails = log.clone();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("fails", Offloaded::on(executor, || Fails(fails)))?;
        Ok(())
    });
    fixture.channel.write_inbound(1u32);
    fixture.run_until_idle();
    assert_eq!(log.take(), ["own unreadable"]);
    assert_eq!(fixture.channel.read_error().unwrap().to_string(), "unreadable");
    let reports = fixture.reports.take();
    assert!(
        reports.len() == 1 && reports[0].contains("`fails` failed, 1 so far: worse"),
        "{reports:?}"
    );
    assert!(fixture.handle().is_open());
}

/// Converts a text into an error.
trait IntoError {
    fn into_error(self) -> waterwheel_executor::Error;
}

impl IntoError for &'static str {
    fn into_error(self) -> waterwheel_executor::Error {
        waterwheel_executor::Error::new(self)
    }
}

#[test]
fn c06_an_offloaded_handler_says_its_types_when_it_is_added() {
    let executor = EventExecutor::builder().build().unwrap();
    let strings =
        Signature::transparent().inbound(TypeTag::list::<String>(), TypeTag::list::<u32>());
    let refused = Embedded::builder().stream().build(|edit| {
        edit.add_last("silent", Offloaded::on(&executor, || PassThrough).with_signature(strings))?;
        Ok(())
    });
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("`silent` accepts") && error.contains("String"), "{error}");
}
