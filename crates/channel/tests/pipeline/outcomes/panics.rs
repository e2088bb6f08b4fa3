//! Rule 11: panics of handlers, completions and destructors.

use std::cell::RefCell;
use std::rc::Rc;

use waterwheel_channel::{Channel, Completion, Events};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::{Log, RecordedMethod, Recorder};

use crate::support::{
    PipelineFixture, error, fixture, fixture_with, start_timer, started_fixture, text,
    trigger_every_method,
};

const HANDLER: &str = "waterwheel_testkit::recorder::Recorder";

/// Builds a channel whose `app`, between `first` and `last`, panics in this method.
fn panicking(method: RecordedMethod) -> PipelineFixture {
    let builder = Embedded::builder();
    fixture_with(builder, |edit, log| {
        edit.add_last("first", log.recorder().holds(RecordedMethod::Disconnect))?;
        let app = log.recorder().at(RecordedMethod::Added, start_timer);
        edit.add_last("app", app.at(method, |_| panic!("oh")))?;
        edit.add_last("last", log.recorder())?;
        Ok(())
    })
}

/// Returns the methods that are called after the channel was built.
fn methods_after_build() -> impl Iterator<Item = RecordedMethod> {
    RecordedMethod::ALL.into_iter().filter(|method| *method != RecordedMethod::Added)
}

#[test]
fn c05_rule_11_a_panic_at_any_moment_closes_the_channel_and_names_the_handler() {
    for method in methods_after_build() {
        let mut fixture = panicking(method);
        let other = fixture.another("other", |_| Ok(())).expect("the channel can be built");
        let id = fixture.channel().id();
        trigger_every_method(&mut fixture);
        let told = format!("the handler from {HANDLER} panicked: `app` of channel {id}: oh");
        assert_eq!(fixture.reports.take(), [told], "at {method:?}");
        assert!(!fixture.channel().is_open(), "at {method:?}");
        assert!(fixture.channel().closed().is_done(), "at {method:?}");
        assert!(
            fixture.with_pipeline(|_| ()).is_none(),
            "the channel is deregistered, at {method:?}"
        );
        assert!(other.is_open(), "at {method:?}");
        fixture.on_loop(|_| other.send(text("alive")));
        assert_eq!(fixture.log.take().last().map(String::as_str), Some("other sends alive"));
    }
}

#[test]
fn c05_rule_11_handlers_on_the_stack_are_only_dropped_and_the_others_are_removed() {
    for method in methods_after_build() {
        let mut fixture = panicking(method);
        trigger_every_method(&mut fixture);
        let lines = fixture.log.take();
        let panicked = format!("app {}", method.name());
        let at = lines.iter().position(|line| line.starts_with(&panicked));
        let after = &lines[at.unwrap_or_else(|| panic!("{method:?} does not come")) + 1..];
        let told = |line: &str| after.iter().filter(|it| *it == line).count();
        for name in ["first", "app", "last"] {
            let dropped = format!("{name} dropped");
            let times = lines.iter().filter(|it| **it == dropped).count();
            assert_eq!(times, 1, "{name} at {method:?}: {lines:?}");
        }
        // Inbound events pass `first`, outbound ones pass `last`; others reach `app` alone.
        let inbound = RecordedMethod::ALL[2..11].contains(&method);
        let outbound = RecordedMethod::ALL[12..].contains(&method);
        assert_eq!(told("app on_removed"), 0, "at {method:?}");
        assert_eq!(told("first on_removed"), usize::from(!inbound), "at {method:?}: {after:?}");
        // When `app` is removed, `last` was removed before.
        let last_left = !outbound && method != RecordedMethod::Removed;
        assert_eq!(told("last on_removed"), usize::from(last_left), "at {method:?}: {after:?}");
    }
}

#[test]
fn c05_rule_11_a_panic_in_the_middle_of_a_pipeline_closes_it_in_order() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("first", log.recorder())?;
        let write = log.completion("write");
        let mut write = Some(write);
        edit.add_last(
            "app",
            log.recorder().at(RecordedMethod::Read, move |ctx| {
                ctx.write_with(text("1"), write.take().unwrap_or_default());
                panic!("oh")
            }),
        )?;
        edit.add_last("last", log.recorder())?;
        Ok(())
    });
    let log = fixture.log.clone();
    fixture.channel().closed().add_listener(log.listener("closed"));
    fixture.write_inbound(text("x"));
    assert_eq!(
        fixture.log.take(),
        [
            "first on_read x",
            "app on_read x",
            "first dropped",
            "app dropped",
            &format!("write failed: the channel is closed: code from {HANDLER} panicked: oh"),
            "closed ok",
            "last on_inactive",
            "last on_unregistered",
            "last on_removed",
            "last dropped",
        ]
    );
}

#[test]
fn c05_rule_11_a_panic_in_on_added_fails_the_registration() {
    let log = Log::new();
    let made = Embedded::new(|edit| {
        edit.add_last("first", log.recorder())?;
        edit.add_last("app", log.recorder().at(RecordedMethod::Added, |_| panic!("oh")))?;
        edit.add_last("last", log.recorder())?;
        Ok(())
    });
    assert!(made.expect_err("the initialiser panicked").to_string().contains("panicked: oh"));
    assert_eq!(
        log.take(),
        [
            "first on_added",
            "app on_added",
            "never-added dropped",
            "app dropped",
            "first on_removed",
            "first dropped",
        ]
    );
}

#[test]
fn c05_rule_11_a_panic_in_an_initialiser_fails_the_registration() {
    let log = Log::new();
    let made = Embedded::new(|edit| {
        edit.add_last("first", log.recorder())?;
        panic!("oh")
    });
    assert!(made.expect_err("the initialiser panicked").to_string().contains("panicked: oh"));
    assert_eq!(log.take(), ["never-added dropped"]);
}

#[test]
fn c05_rule_11_a_panic_in_an_edit_undoes_it_and_closes_the_channel() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("app", log.recorder())?;
        Ok(())
    });
    let log = fixture.log.clone();
    let edited = fixture.with_pipeline(move |pipeline| {
        pipeline.edit(|edit| -> Result<(), waterwheel_channel::PipelineError> {
            edit.remove("app")?;
            edit.add_last("new", log.recorder())?;
            panic!("oh")
        })
    });
    assert!(edited.is_none());
    assert_eq!(
        fixture.log.take(),
        [
            "never-added dropped",
            "app on_inactive",
            "app on_unregistered",
            "app on_removed",
            "app dropped",
        ]
    );
    assert_eq!(fixture.reports.take().len(), 1);
}

#[test]
fn c05_rule_11_a_panic_of_a_destructor_is_reported_and_the_channel_stays_open() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("app", log.recorder().dropping(|| panic!("oh")))?;
        edit.add_last("last", log.recorder().interest(Events::READ))?;
        Ok(())
    });
    let removed = fixture.with_pipeline(|pipeline| pipeline.remove("app").is_ok());
    assert_eq!(removed, Some(true));
    assert_eq!(fixture.reports.take(), [format!("the destructor from {HANDLER} panicked: oh")]);
    fixture.write_inbound(text("x"));
    assert_eq!(fixture.log.take(), ["app on_removed", "app dropped", "last on_read x"]);
}

#[test]
fn c05_rule_11_a_destructor_may_panic_after_a_panic() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("first", log.recorder().dropping(|| panic!("and first")))?;
        let app = log.recorder().at(RecordedMethod::Read, |_| panic!("oh"));
        edit.add_last("app", app.dropping(|| panic!("and app")))?;
        Ok(())
    });
    let id = fixture.channel().id();
    fixture.write_inbound(text("x"));
    assert_eq!(
        fixture.reports.take(),
        [
            format!("the destructor from {HANDLER} panicked: and first"),
            format!("the destructor from {HANDLER} panicked: and app"),
            format!("the handler from {HANDLER} panicked: `app` of channel {id}: oh"),
        ]
    );
    assert!(!fixture.channel().is_open());
}

#[test]
fn c05_rule_11_a_staged_handler_may_panic_when_a_panicking_edit_is_undone() {
    let mut fixture = started_fixture(|_, _| Ok(()));
    let log = fixture.log.clone();
    let edited = fixture.with_pipeline(move |pipeline| {
        pipeline.edit(|edit| -> Result<(), waterwheel_channel::PipelineError> {
            edit.add_last("new", log.recorder().dropping(|| panic!("and new")))?;
            panic!("oh")
        })
    });
    assert!(edited.is_none() && !fixture.channel().is_open());
    assert_eq!(fixture.reports.take().len(), 2);
}

#[test]
fn c05_rule_11_a_panic_of_a_completion_is_reported_and_the_channel_stays_open() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "app",
            log.recorder().interest(Events::READ).reading(|ctx, _| {
                ctx.write_then(text("1"), |_| panic!("oh"));
                ctx.write_with(text("2"), Completion::none());
                ctx.flush();
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    fixture.write_inbound(text("y"));
    assert_eq!(fixture.sent(), ["1", "2", "1", "2"]);
    let reports = fixture.reports.take();
    assert_eq!(reports.len(), 2);
    assert!(reports[0].starts_with("the listener from") && reports[0].contains("panics.rs"));
}

#[test]
fn c05_rule_11_a_panic_of_a_kept_context_closes_the_channel() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "app",
            log.recorder().at(RecordedMethod::Read, |ctx| {
                let later = ctx.to_local();
                ctx.event_loop().spawn_local(async move {
                    assert!(later.is_live());
                    assert!(later.run(|_| panic!("oh")).is_ok());
                    assert!(!later.is_live());
                    assert!(later.run(|_| unreachable!("it is gone")).is_err());
                });
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert!(!fixture.channel().is_open());
    assert_eq!(fixture.reports.take().len(), 1);
}

#[test]
fn c05_rule_11_events_deferred_at_a_panicking_handler_fail() {
    let mut fixture = started_fixture(|edit, log| {
        let told = log.clone();
        edit.add_last(
            "app",
            log.recorder().at(RecordedMethod::Read, move |ctx| {
                let mut written = ctx.channel().write(text("1"));
                written.add_listener(told.listener("write"));
                panic!("oh")
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    let lines = fixture.log.take();
    assert_eq!(lines[..2], ["app on_read x", "app dropped"]);
    assert!(lines[2].starts_with("write failed: the channel is closed"), "{lines:?}");
    assert_eq!(fixture.channel().pending_bytes(), 0);
}

/// Makes a recorder call the other channel in its `on_user_event`.
fn calls(recorder: Recorder, other: &Rc<RefCell<Option<Channel>>>) -> Recorder {
    let other = other.clone();
    recorder.at(RecordedMethod::UserEvent, move |_| {
        let to = other.borrow().clone();
        to.into_iter().for_each(|to| to.send(text("x")));
        Ok(())
    })
}

#[test]
fn c05_rule_11_a_panic_stays_in_the_channel_it_happened_in() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("app", log.recorder().at(RecordedMethod::Write, |_| panic!("oh")))?;
        Ok(())
    });
    let callee = Rc::new(RefCell::new(Some(fixture.channel().clone())));
    let recorder = calls(fixture.log.recorder(), &callee);
    let caller = fixture.another("caller", |edit| {
        edit.add_last("caller", recorder)?;
        Ok(())
    });
    let caller = caller.expect("the channel can be built");
    fixture.on_loop(|_| caller.fire_user_event(text("go")));
    assert!(!fixture.channel().is_open() && caller.is_open());
    let id = fixture.channel().id();
    let told = format!("the handler from {HANDLER} panicked: `app` of channel {id}: oh");
    assert_eq!(fixture.reports.take(), [told]);
}

#[test]
fn c05_rule_11_a_panic_two_channels_deep_stays_in_the_channel_it_happened_in() {
    // `left` calls `right`, whose handler calls `left`, where another handler panics.
    let (to_left, to_right) = (Rc::new(RefCell::new(None::<Channel>)), Rc::default());
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("outer", calls(log.recorder().interest(Events::USER_EVENT), &to_right))?;
        let inner = log.recorder().interest(Events::WRITE);
        edit.add_last("inner", inner.at(RecordedMethod::Write, |_| panic!("oh")))?;
        edit.add_last("after", log.recorder().interest(Events::USER_EVENT | Events::INACTIVE))?;
        Ok(())
    });
    let relay = {
        let to = to_left.clone();
        fixture.log.recorder().interest(Events::WRITE).writing(move |ctx, msg, done| {
            let left = to.borrow().clone();
            left.into_iter().for_each(|left| left.send(text("deep")));
            ctx.write_with(msg, done);
            Ok(())
        })
    };
    let right = fixture.another("right", |edit| {
        edit.add_last("relay", relay)?;
        Ok(())
    });
    let right = right.expect("the channel can be built");
    drop(fixture.log.take());
    *to_right.borrow_mut() = Some(right.clone());
    *to_left.borrow_mut() = Some(fixture.channel().clone());
    fixture.on_loop(|channel| channel.fire_user_event(text("go")));
    fixture.run();
    let id = fixture.channel().id();
    let told = format!("the handler from {HANDLER} panicked: `inner` of channel {id}: oh");
    assert_eq!(fixture.reports.take(), [told]);
    assert!(right.is_open(), "the caller did not panic");
    assert!(!fixture.channel().is_open());
    assert_eq!(
        fixture.log.take(),
        [
            "outer on_user_event go",
            "relay write x",
            "inner write deep",
            "inner dropped",
            "after on_user_event go", // The panic did not unwind through `outer`, which continues.
            "after on_inactive",
            "after on_removed",
            "after dropped",
            "outer on_removed",
            "outer dropped",
            "right sends x",
        ]
    );
}

#[test]
fn c05_rule_11_many_panics_do_not_disturb_other_channels_on_the_loop() {
    let mut fixture = started_fixture(|_, _| Ok(()));
    for round in 0..100 {
        let log = Log::new();
        let panicking = fixture.another("panicking", |edit| {
            edit.add_last(
                "panicking",
                log.recorder().at(RecordedMethod::UserEvent, |_| panic!("oh")),
            )?;
            Ok(())
        });
        let panicking = panicking.expect("the channel can be built");
        fixture.on_loop(|_| panicking.fire_user_event(text("x")));
        assert!(!panicking.is_open(), "in round {round}");
    }
    fixture.write_inbound(text("still here"));
    assert_eq!(fixture.passed(), ["still here"]);
    let left = fixture.on_loop(|_| {
        waterwheel_channel::LocalLoop::current().map(|here| here.registered_channels().len())
    });
    assert_eq!(left, Some(1));
}

#[test]
fn c05_rule_11_an_error_does_not_close_the_channel() {
    let mut fixture = fixture(|edit, log| {
        edit.add_last("app", log.recorder().at(RecordedMethod::Read, |_| Err(error("no"))))?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert!(fixture.channel().is_open());
}
