//! Events that a handler fires when its call has returned: answers reach the handler directly.

use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};
use waterwheel_testkit::recorder::{Log, RecordedMethod, show};

use crate::support::{error, started_fixture, text};

/// Passes reads and their end on when its calls have returned, and logs its calls.
struct OnReturn(Log);

impl Handler for OnReturn {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.push(format!("codec on_read {}", show(&msg)));
        ctx.fire_read_on_return(msg);
        self.0.push("codec returns");
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_read_complete_on_return();
        self.0.push("codec returns");
        Ok(())
    }

    fn write(
        &mut self,
        ctx: &Ctx<'_>,
        msg: Msg,
        done: &mut waterwheel_channel::Completion,
    ) -> HandlerResult {
        self.0.push(format!("codec write {}", show(&msg)));
        ctx.write_with(msg, done.take());
        Ok(())
    }

    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.push("codec flush");
        ctx.flush();
        Ok(())
    }
}

#[test]
fn c05_rule_02_an_answer_to_an_event_on_return_is_not_deferred() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("codec", OnReturn(log.clone()))?;
        let told = log.clone();
        let app = log.recorder().reading(move |ctx, msg| {
            ctx.write(msg);
            told.push("app goes on");
            Ok(())
        });
        edit.add_last(
            "app",
            app.at(RecordedMethod::ReadComplete, |ctx| {
                ctx.flush();
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    let log = fixture.log.take();
    assert_eq!(
        log[..8],
        [
            "codec on_read x",
            "codec returns",
            "app on_read x",
            "codec write x", // With `fire_read` it would come after `app goes on`.
            "app goes on",
            "codec returns",
            "app on_read_complete",
            "codec flush",
        ]
    );
    assert_eq!(fixture.sent(), ["x"]);
}

#[test]
fn c05_rule_02_of_several_events_on_return_all_but_the_last_are_fired_at_once() {
    let mut fixture = started_fixture(|edit, log| {
        let told = log.clone();
        edit.add_last(
            "first",
            log.recorder().reading(move |ctx, _| {
                ctx.fire_read_on_return(text("1"));
                ctx.fire_read_on_return(text("2"));
                ctx.fire_read_on_return(text("3"));
                told.push("first returns");
                Ok(())
            }),
        )?;
        edit.add_last("app", log.recorder())?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(
        fixture.log.take()[..5],
        ["first on_read x", "app on_read 1", "app on_read 2", "first returns", "app on_read 3"]
    );
}

#[test]
fn c05_rule_03_an_event_on_return_comes_before_the_events_queued_meanwhile() {
    let mut fixture = started_fixture(|edit, log| {
        let told = log.clone();
        let mut left = Some(());
        edit.add_last(
            "first",
            log.recorder().reading(move |ctx, msg| {
                ctx.fire_read_on_return(msg);
                if left.take().is_some() {
                    ctx.pipeline().fire_read(text("2"));
                    ctx.pipeline().fire_error(error("3"));
                    told.push("first returns");
                }
                Ok(())
            }),
        )?;
        edit.add_last("app", log.recorder())?;
        Ok(())
    });
    fixture.write_inbound(text("1"));
    let log = fixture.log.take();
    assert_eq!(
        log[..6],
        [
            "first on_read 1",
            "first returns",
            "app on_read 1",
            "first on_read 2",
            "app on_read 2", // Also passed on when its call, out of the queue, has returned.
            "first on_error 3",
        ]
    );
    assert_eq!(fixture.reports.take(), Vec::<String>::new());
}

#[test]
fn c05_rule_04_a_handler_that_was_removed_still_fires_its_event_on_return() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "first",
            log.recorder().reading(move |ctx, msg| {
                ctx.pipeline().remove(ctx.slot())?;
                ctx.fire_read_on_return(msg);
                Ok(())
            }),
        )?;
        edit.add_last("app", log.recorder())?;
        Ok(())
    });
    fixture.write_inbound(text("1"));
    fixture.write_inbound(text("2"));
    let reads: Vec<_> =
        fixture.log.take().into_iter().filter(|line| !line.contains("complete")).collect();
    let position = |line: &str| reads.iter().position(|other| other == line);
    assert!(position("app on_read 1") < position("app on_read 2"), "{reads:?}");
    assert!(position("app on_read 1").is_some() && position("first on_removed").is_some());
}

#[test]
fn c05_rule_11_an_event_on_return_of_a_call_that_panics_is_dropped() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "first",
            log.recorder().reading(move |ctx, msg| {
                ctx.fire_read_on_return(msg);
                panic!("on purpose")
            }),
        )?;
        edit.add_last("app", log.recorder())?;
        Ok(())
    });
    fixture.write_inbound(text("1"));
    let log = fixture.log.take();
    assert!(!log.iter().any(|line| line.starts_with("app on_read")), "{log:?}");
    assert!(!fixture.channel().is_open());
}

/// The handler is out of its slot while its event is fired: others wait behind it there.
#[test]
fn c05_rule_11_a_panic_in_an_event_on_return_before_queued_events_discards_both_handlers() {
    for removes in [false, true] {
        let mut fixture = started_fixture(|edit, log| {
            let told = log.clone();
            let flag = DropFlag(log.clone());
            edit.add_last(
                "first",
                log.recorder().reading(move |ctx, msg| {
                    let _kept = &flag;
                    ctx.fire_read_on_return(msg);
                    match removes {
                        true => drop(ctx.pipeline().remove(ctx.slot())?),
                        false => ctx.pipeline().fire_user_event(text("queued")),
                    }
                    told.push("first returns");
                    Ok(())
                }),
            )?;
            edit.add_last("app", log.recorder().reading(|_, _| panic!("on purpose")))?;
            Ok(())
        });
        fixture.write_inbound(text("1"));
        fixture.run();
        assert!(!fixture.channel().is_open());
        let log = fixture.log.take();
        assert!(log.iter().any(|line| line == "first dropped outside of the unwinding"), "{log:?}");
    }
}

/// Logs its destructor.
struct DropFlag(Log);

impl Drop for DropFlag {
    fn drop(&mut self) {
        let when = if std::thread::panicking() { "during" } else { "outside of" };
        self.0.push(format!("first dropped {when} the unwinding"));
    }
}
