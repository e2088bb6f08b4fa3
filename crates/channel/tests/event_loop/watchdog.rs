//! O02: the watchdog names the call that holds an event loop beyond the limit while it still runs: the
//! handler, its channel and the method.
//!
//! Slow code in these tests waits for the watchdog's report, so that no report can come too late.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::{Interest, Readiness, TaskOnly};
use waterwheel_channel::{
    Completion, Ctx, Edit, EventLoopGroup, Foreign, Handler, HandlerResult, Msg, Offloaded,
    RemoteCtx, RemoteHandler, on_ready,
};
use waterwheel_executor::{Error, EventExecutorGroup, SlowWork, UserCode, Watchdog};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::loop_suite::{Bench, panic_quietly};
use waterwheel_testkit::manual::Manual;
use waterwheel_testkit::recorder::{Log, RecordedMethod};

use crate::slow_reports::{LIMIT, SlowReports};

fn embedded(
    watchdog: &Watchdog,
    make: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>,
) -> Embedded {
    let mut channel = Embedded::builder().watchdog(watchdog).build(make).unwrap();
    channel.run();
    channel
}

/// Matches reports of a handler's method that still runs.
fn handler_call(name: &'static str, method: &'static str) -> impl Fn(&SlowWork) -> bool {
    move |work| {
        let site = work.activity.call_site.as_ref();
        !work.is_over && site.is_some_and(|site| &*site.name == name && site.method == method)
    }
}

fn user_code(what: UserCode) -> impl Fn(&SlowWork) -> bool {
    move |work| work.activity.what == what && !work.is_over
}

#[test]
fn o02_a_handler_is_named_with_its_channel_and_what_it_was_called_for() {
    let (watchdog, reports) = SlowReports::watchdog();
    let (log, inside) = (Log::new(), reports.clone());
    let (tell, slow) = mpsc::channel();
    let mut channel = embedded(&watchdog, |edit| {
        let read = move |_: &Ctx<'_>| {
            tell.send(inside.next(handler_call("app", "on_read"))).unwrap();
            Ok(())
        };
        edit.add_last("app", log.recorder().at(RecordedMethod::Read, read))?;
        Ok(())
    });
    channel.write_inbound(Bytes::from_static(b"hello"));
    let slow = slow.try_recv().unwrap();
    let site = slow.activity.call_site.as_ref().unwrap();
    assert_eq!(&*site.owner, format!("{:?}", channel.channel().id()));
    assert_eq!(slow.activity.what, UserCode::Handler);
    let kind = slow.activity.origin.label().unwrap();
    assert!(kind.ends_with("Recorder"), "{kind}");
    let id = channel.channel().id();
    let text = format!("the handler `app` of channel {id}, in on_read, has held the loop for ");
    assert!(slow.to_string().starts_with(&text), "{slow}");
    let metrics = channel.channel().event_loop().metrics();
    assert!(metrics.slow_works >= 1 && metrics.longest_hold >= LIMIT);
}

/// Passes reads on and is slow before or after that.
struct Slow {
    reports: SlowReports,
    name: &'static str,
    before: bool,
    tell: mpsc::Sender<SlowWork>,
}

impl Handler for Slow {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let slow =
            || self.tell.send(self.reports.next(handler_call(self.name, "on_read"))).unwrap();
        if self.before {
            slow();
        }
        ctx.fire_read(msg);
        if !self.before {
            slow();
        }
        Ok(())
    }
}

#[test]
fn o02_of_nested_handlers_the_innermost_is_named_and_then_the_outer_again() {
    let (watchdog, reports) = SlowReports::watchdog();
    let (tell, slow) = mpsc::channel();
    let handler =
        |name, before| Slow { reports: reports.clone(), name, before, tell: tell.clone() };
    let mut channel = embedded(&watchdog, |edit| {
        edit.add_last("outer", handler("outer", false))?;
        edit.add_last("inner", handler("inner", true))?;
        Ok(())
    });
    channel.write_inbound(Bytes::from_static(b"hello"));
    let (inner, outer) = (slow.try_recv().unwrap(), slow.try_recv().unwrap());
    assert!(inner.report_count < outer.report_count, "one call holds the loop all along");
    assert!(inner.enclosing.is_some());
    let handler_name = |work: &SlowWork| work.activity.call_site.clone().unwrap().name;
    assert_eq!((&*handler_name(&inner), &*handler_name(&outer)), ("inner", "outer"));
}

#[test]
fn o02_each_method_of_a_handler_has_its_name() {
    let methods = [
        (RecordedMethod::Added, "on_added"),
        (RecordedMethod::Active, "on_active"),
        (RecordedMethod::UserEvent, "on_user_event"),
        (RecordedMethod::Write, "write"),
        (RecordedMethod::Flush, "flush"),
        (RecordedMethod::Close, "close"),
        (RecordedMethod::Inactive, "on_inactive"),
        (RecordedMethod::Removed, "on_removed"),
    ];
    for (method, name) in methods {
        let (watchdog, reports) = SlowReports::watchdog();
        let log = Log::new();
        let (tell, slow) = mpsc::channel();
        let mut channel = embedded(&watchdog, |edit| {
            let held = move |_: &Ctx<'_>| {
                tell.send(reports.next(handler_call("app", name))).unwrap();
                Ok(())
            };
            edit.add_last("app", log.recorder().at(method, held))?;
            Ok(())
        });
        channel.on_loop(|channel| {
            channel.fire_user_event(Bytes::from_static(b"event"));
            channel.send(Bytes::from_static(b"out"));
        });
        channel.run();
        channel.close();
        assert!(slow.try_recv().is_ok(), "{name}");
    }
}

#[test]
fn o02_timers_and_destructors_of_handlers_are_named() {
    struct SlowTimerAndDrop(SlowReports, mpsc::Sender<SlowWork>);
    impl Handler for SlowTimerAndDrop {
        fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
            ctx.schedule(Duration::from_secs(1), 7);
            Ok(())
        }
        fn on_timer(&mut self, _: &Ctx<'_>, _: u32) -> HandlerResult {
            self.1.send(self.0.next(handler_call("late", "on_timer"))).unwrap();
            Ok(())
        }
    }
    impl Drop for SlowTimerAndDrop {
        fn drop(&mut self) {
            self.1.send(self.0.next(handler_call("late", "drop"))).unwrap();
        }
    }
    let (watchdog, reports) = SlowReports::watchdog();
    let (tell, slow) = mpsc::channel();
    let mut channel = embedded(&watchdog, |edit| {
        edit.add_last("late", SlowTimerAndDrop(reports, tell))?;
        Ok(())
    });
    channel.advance(Duration::from_secs(1));
    assert_eq!(slow.try_recv().unwrap().enclosing.unwrap().what, UserCode::Command);
    channel.close();
    assert_eq!(slow.try_recv().unwrap().activity.what, UserCode::Handler);
}

#[test]
fn o02_a_completion_is_named_inside_of_what_completes_it() {
    let (watchdog, reports) = SlowReports::watchdog();
    let (tell, slow) = mpsc::channel();
    let mut channel = embedded(&watchdog, |_| Ok(()));
    let done =
        Completion::local(move |_| tell.send(reports.next(user_code(UserCode::Listener))).unwrap());
    channel.with_pipeline(|pipeline| {
        pipeline.write_with(Bytes::from_static(b"out"), done);
        pipeline.flush();
    });
    let origin = slow.try_recv().unwrap().activity.origin;
    assert_eq!(origin.location().unwrap().file(), file!());
}

#[test]
fn o02_a_watched_handler_that_panics_is_no_longer_shown_as_running() {
    let (watchdog, _reports) = SlowReports::watchdog();
    let reports = Log::new();
    let builder = Embedded::builder().watchdog(&watchdog).reporter(Arc::new(reports.clone()));
    let log = Log::new();
    let make = |edit: &mut Edit<'_>| {
        edit.add_last("first", log.recorder())?;
        edit.add_last(
            "broken",
            log.recorder().at(RecordedMethod::Read, |_| panic_quietly("broken")),
        )?;
        Ok(())
    };
    let mut channel = builder.build(make).unwrap();
    channel.write_inbound(Bytes::from_static(b"hello"));
    assert!(!channel.channel().is_open());
    assert!(reports.take()[0].contains("`broken` of channel"), "named as ever");
    assert_eq!(channel.channel().event_loop().running(), None);
}

#[test]
fn o02_a_watchdog_changes_nothing_that_handlers_see() {
    let (watchdog, _reports) = SlowReports::watchdog();
    let scene = |builder: waterwheel_testkit::embedded::EmbeddedBuilder| {
        let log = Log::new();
        let make = |edit: &mut Edit<'_>| {
            edit.add_last("first", log.recorder())?;
            edit.add_last("second", log.recorder())?;
            Ok(())
        };
        let mut channel = builder.build(make).unwrap();
        channel.run();
        channel.write_inbound(Bytes::from_static(b"in"));
        let found = channel.with_pipeline(|pipeline| {
            use waterwheel_testkit::recorder::Recorder;
            let slot = pipeline.slot_of::<Recorder>();
            (slot, pipeline.with_handler("second", |_: &mut Recorder| ()).is_some())
        });
        channel.on_loop(|channel| {
            channel.fire_user_event(Bytes::from_static(b"event"));
            channel.send(Bytes::from_static(b"out"));
            channel.read();
            drop(channel.shutdown_output());
        });
        channel.fail(Error::new(std::io::Error::other("failed")));
        channel.close();
        (log.take(), found)
    };
    let watched = scene(Embedded::builder().watchdog(&watchdog));
    assert!(watched.0.len() > 20, "{watched:?}");
    assert!(watched.1.is_some_and(|(slot, found)| slot.is_some() && found));
    assert_eq!(watched, scene(Embedded::builder()));
}

#[test]
fn o02_futures_and_callbacks_are_named() {
    let (watchdog, reports) = SlowReports::watchdog();
    let group = EventLoopGroup::builder(TaskOnly).threads(2).name("io").watchdog(&watchdog);
    let group = group.build().unwrap();
    let inside = reports.clone();
    let future = async move { inside.next(user_code(UserCode::Future)) };
    let slow = group.spawn(future).unwrap().join().unwrap();
    assert_eq!(slow.activity.origin.location().unwrap().file(), file!());
    assert!(slow.executor.starts_with("io-") && slow.thread.unwrap().starts_with("io-"));

    let manual = Manual::readiness();
    let mut bench = Bench::with(&manual, |builder| builder.watchdog(&watchdog));
    let (end, source) = manual.foreign_source();
    let (tell, slow) = mpsc::channel();
    let foreign = Foreign::new(Arc::new(()), end);
    let handler = on_ready(move |(): &(), _, _| {
        tell.send(reports.next(user_code(UserCode::Callback))).unwrap();
        Ok(())
    });
    bench.here(|here| here.register_foreign(foreign, Interest::READABLE, handler)).unwrap();
    source.set_ready(Readiness::READABLE);
    bench.turn();
    let slow = slow.try_recv().unwrap();
    assert!(slow.enclosing.is_none() && &*slow.executor == "bench");
    assert_eq!(slow.activity.origin.location().unwrap().file(), file!());
}

/// A remote handler with a slow `on_read`.
struct SlowRemoteHandler(SlowReports, mpsc::Sender<SlowWork>);

impl RemoteHandler for SlowRemoteHandler {
    fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
        self.1.send(self.0.next(handler_call("far", "on_read"))).unwrap();
        ctx.fire_read(msg);
        Ok(())
    }
}

#[test]
fn o02_an_offloaded_handler_is_named_on_its_executor() {
    let (watchdog, reports) = SlowReports::watchdog();
    let group = EventExecutorGroup::builder().threads(1).name("far").watchdog(&watchdog);
    let group = group.build().unwrap();
    let (tell, slow) = mpsc::channel();
    let make = |edit: &mut Edit<'_>| {
        edit.add_last("far", Offloaded::new(&group, move || SlowRemoteHandler(reports, tell)))?;
        Ok(())
    };
    let mut channel = Embedded::new(make).unwrap();
    channel.run();
    channel.write_inbound(Bytes::from_static(b"hello"));
    // The loop is driven manually: events that the executor sends back wait for a turn.
    let turned = (0..10_000).find_map(|_| {
        channel.run();
        slow.recv_timeout(Duration::from_millis(2)).ok()
    });
    let slow = turned.unwrap();
    assert_eq!(&*slow.executor, "far-0");
    let site = slow.activity.call_site.unwrap();
    assert_eq!(&*site.owner, format!("{:?}", channel.channel().id()));
    assert_eq!(slow.enclosing.unwrap().what, UserCode::Task);
}
