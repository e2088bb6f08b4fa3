//! Rule 10: errors of handlers and operations.

use std::time::Duration;

use waterwheel_channel::{Completion, Events};
use waterwheel_testkit::recorder::RecordedMethod;

use crate::support::{PipelineFixture, error, fixture, start_timer, started_fixture, text};

/// Builds a channel with `first`, an `app` that fails in this method, and `last`.
fn failing(method: RecordedMethod) -> PipelineFixture {
    fixture(|edit, log| {
        edit.add_last(
            "first",
            log.recorder().holds(RecordedMethod::Disconnect).interest(Events::ALL),
        )?;
        let app = log.recorder().at(RecordedMethod::Added, start_timer);
        edit.add_last("app", app.at(method, |_| Err(error("no"))))?;
        edit.add_last("last", log.recorder())?;
        Ok(())
    })
}

#[test]
fn c05_rule_10_an_inbound_error_goes_to_the_handlers_own_error_method() {
    let inbound = [
        RecordedMethod::Registered,
        RecordedMethod::Unregistered,
        RecordedMethod::Active,
        RecordedMethod::Inactive,
        RecordedMethod::Read,
        RecordedMethod::ReadComplete,
        RecordedMethod::UserEvent,
        RecordedMethod::WritabilityChanged,
        RecordedMethod::Timer,
        // The next two methods are outbound and have no completion.
        RecordedMethod::BeginRead,
        RecordedMethod::Flush,
    ];
    for method in inbound {
        let mut fixture = failing(method);
        crate::support::trigger_every_method(&mut fixture);
        let lines = fixture.log.take();
        let failed =
            lines.iter().position(|line| line.starts_with(&format!("app {}", method.name())));
        let failed = failed.unwrap_or_else(|| panic!("{method:?} does not come: {lines:?}"));
        let what_follows = &lines[failed + 1..failed + 3];
        assert_eq!(what_follows, ["app on_error no", "last on_error no"], "at {method:?}");
        assert!(fixture.errors().contains(&"no".to_owned()), "at {method:?}");
        assert_eq!(fixture.reports.take(), Vec::<String>::new(), "at {method:?}");
    }
}

#[test]
fn c05_rule_10_an_event_that_failed_goes_no_further_and_the_next_one_does() {
    let mut left = Some(());
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "app",
            log.recorder()
                .interest(Events::READ | Events::ERROR)
                .at(RecordedMethod::Read, move |_| {
                    left.take().map_or(Ok(()), |()| Err(error("no")))
                }),
        )?;
        Ok(())
    });
    fixture.write_inbound_all([text("1").into(), text("2").into()]);
    assert_eq!(fixture.log.take(), ["app on_read 1", "app on_error no", "app on_read 2"]);
    assert_eq!((fixture.passed(), fixture.errors()), (vec!["2".to_owned()], vec!["no".to_owned()]));
}

#[test]
fn c05_rule_10_an_outbound_error_goes_to_the_completion() {
    for method in [
        RecordedMethod::Bind,
        RecordedMethod::Connect,
        RecordedMethod::Disconnect,
        RecordedMethod::Close,
        RecordedMethod::Deregister,
        RecordedMethod::Write,
    ] {
        let mut fixture = failing(method);
        fixture.run();
        drop(fixture.log.take());
        let log = fixture.log.clone();
        fixture.on_loop(|channel| {
            let mut asked = match method {
                RecordedMethod::Bind => channel.bind(waterwheel_channel::Address::local("here")),
                RecordedMethod::Connect => {
                    channel.connect(waterwheel_channel::Address::local("there"))
                }
                RecordedMethod::Disconnect => channel.disconnect(),
                RecordedMethod::Close => channel.close(),
                RecordedMethod::Deregister => channel.deregister(),
                _ => channel.write(text("x")),
            };
            asked.add_listener(log.listener("it"));
        });
        fixture.run();
        let lines = fixture.log.take();
        assert!(lines[0].starts_with(&format!("last {}", method.name())), "{lines:?}");
        assert!(lines[1].starts_with(&format!("app {}", method.name())), "{lines:?}");
        assert_eq!(lines[2..], ["it failed: no"], "no other handler is called");
        assert_eq!((fixture.errors(), fixture.reports.take()), (vec![], vec![]), "at {method:?}");
        assert!(fixture.channel().is_open(), "at {method:?}");
    }
}

#[test]
fn c05_rule_10_an_outbound_error_nobody_waits_for_is_reported() {
    let mut fixture = failing(RecordedMethod::Write);
    fixture.on_loop(|channel| channel.send(text("x")));
    let id = fixture.channel().id();
    assert_eq!(fixture.reports.take(), [format!("channel {id}: `app` failed, 1 so far: no")]);
}

#[test]
fn c05_rule_10_an_error_after_the_operation_was_passed_on_is_reported() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "app",
            log.recorder().writing(|ctx, msg, done| {
                ctx.write_with(msg, done);
                Err(error("too late"))
            }),
        )?;
        Ok(())
    });
    let log = fixture.log.clone();
    fixture.on_loop(|channel| channel.write_and_flush(text("x")).add_listener(log.listener("it")));
    assert_eq!(fixture.log.take(), ["app write x", "app flush", "it ok"]);
    let id = fixture.channel().id();
    assert_eq!(fixture.reports.take(), [format!("channel {id}: `app` failed, 1 so far: too late")]);
}

#[test]
fn c05_rule_10_an_error_in_the_error_method_is_reported() {
    let mut fixture = started_fixture(|edit, log| {
        let app = log.recorder().at(RecordedMethod::Read, |_| Err(error("first")));
        edit.add_last("app", app.at(RecordedMethod::Error, |_| Err(error("second"))))?;
        edit.add_last("last", log.recorder().interest(Events::ERROR))?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(fixture.log.take()[..2], ["app on_read x", "app on_error first"]);
    let id = fixture.channel().id();
    let report = format!("channel {id}: `on_error` of `app` failed, 1 so far: second");
    assert_eq!((fixture.errors(), fixture.reports.take()), (vec![], vec![report]));
    assert!(fixture.channel().is_open());
}

#[test]
fn c05_rule_10_an_operation_that_a_handler_drops_fails_and_names_the_handler() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("app", log.recorder().holds(RecordedMethod::Write))?;
        Ok(())
    });
    let log = fixture.log.clone();
    fixture.on_loop(|channel| channel.write(text("x")).add_listener(log.listener("it")));
    let failed = "it failed: the handler `app` neither passed the operation on nor completed it";
    assert_eq!(fixture.log.take(), ["app write x", failed]);
}

#[test]
fn c05_rule_10_an_operation_may_be_completed_later() {
    let mut fixture = started_fixture(|edit, log| {
        let mut kept: Option<Completion> = None;
        let kept_too = std::rc::Rc::new(std::cell::RefCell::new(kept.take()));
        let later = kept_too.clone();
        let app = log.recorder().writing(move |ctx, _, done| {
            *kept_too.borrow_mut() = Some(done);
            ctx.schedule(Duration::from_secs(1), 1);
            Ok(())
        });
        edit.add_last(
            "app",
            app.at(RecordedMethod::Timer, move |_| {
                later.borrow_mut().take().into_iter().for_each(Completion::succeed);
                Ok(())
            }),
        )?;
        Ok(())
    });
    let log = fixture.log.clone();
    fixture.on_loop(|channel| channel.write(text("x")).add_listener(log.listener("it")));
    fixture.advance(Duration::from_secs(1));
    assert_eq!(fixture.log.take(), ["app write x", "app on_timer 1", "it ok"]);
}

#[test]
fn c05_an_error_after_a_write_does_not_undo_it() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "app",
            log.recorder().interest(Events::READ).reading(|ctx, msg| {
                ctx.write_and_flush(msg);
                Err(error("after writing"))
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound_all([text("1").into(), text("2").into()]);
    assert_eq!((fixture.sent(), fixture.errors().len()), (vec!["1".to_owned(), "2".to_owned()], 2));
}
