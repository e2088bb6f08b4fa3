//! C02: lifecycle events of a channel.

use waterwheel_channel::{Address, Ctx, Events, HandlerResult};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::RecordedMethod;

use crate::support::{PipelineFixture, error, fixture, fixture_with, started_fixture, text};

fn close(ctx: &Ctx<'_>) -> HandlerResult {
    ctx.close();
    Ok(())
}

/// Builds a channel with two recorders; the second calls `act` in a method. The log starts with the opening
/// events.
fn two_recorders(
    method: RecordedMethod,
    act: impl Fn(&Ctx<'_>) -> HandlerResult + 'static,
) -> PipelineFixture {
    fixture(|edit, log| {
        edit.add_last("a", log.recorder())?;
        edit.add_last("b", log.recorder().at(method, act))?;
        let log = log.clone();
        edit.channel().closed().add_listener(log.listener("closed"));
        Ok(())
    })
}

const OPENING_LINES: [&str; 6] = [
    "a on_added",
    "b on_added",
    "a on_registered",
    "b on_registered",
    "a on_active",
    "b on_active",
];

const CLOSING_LINES: [&str; 9] = [
    "closed ok",
    "a on_inactive",
    "b on_inactive",
    "a on_unregistered",
    "b on_unregistered",
    "b on_removed",
    "b dropped",
    "a on_removed",
    "a dropped",
];

fn lines(parts: &[&[&str]]) -> Vec<String> {
    parts.concat().into_iter().map(str::to_owned).collect()
}

#[test]
fn c02_lifecycle_events_come_in_order() {
    let mut fixture = two_recorders(RecordedMethod::Read, |_| Ok(()));
    assert_eq!(fixture.log.take(), lines(&[&OPENING_LINES, &["b read", "a read"]]));
    fixture.close();
    assert_eq!(fixture.log.take(), lines(&[&["b close", "a close"], &CLOSING_LINES]));
}

#[test]
fn c02_a_channel_may_be_closed_in_on_active() {
    let mut fixture = two_recorders(RecordedMethod::Active, close);
    assert_eq!(fixture.log.take(), lines(&[&OPENING_LINES, &["a close"], &CLOSING_LINES]));
    fixture.close();
    assert_eq!(fixture.log.take(), Vec::<String>::new(), "no further event comes");
}

#[test]
fn c02_a_channel_may_be_closed_in_on_registered() {
    let fixture = two_recorders(RecordedMethod::Registered, close);
    let expected =
        lines(&[&OPENING_LINES[..4], &["a close", "a on_active", "b on_active"], &CLOSING_LINES]);
    let found = fixture.log.take();
    // `a` runs when `b` closes: the close is deferred there.
    assert_eq!(found, expected, "on_active comes once, and on_inactive after it");
}

#[test]
fn c02_a_channel_may_be_closed_in_on_read() {
    let mut fixture = two_recorders(RecordedMethod::Read, close);
    drop(fixture.log.take());
    fixture.write_inbound_all([text("1").into(), text("2").into()]);
    assert_eq!(
        fixture.log.take(),
        lines(&[&["a on_read 1", "b on_read 1", "a close"], &CLOSING_LINES])
    );
    assert_eq!(fixture.unread(), 1, "the second message stays unread");
}

#[test]
fn c02_a_channel_may_be_closed_again_while_it_closes() {
    for method in [
        RecordedMethod::Inactive,
        RecordedMethod::Unregistered,
        RecordedMethod::Removed,
        RecordedMethod::Close,
    ] {
        let mut left = Some(());
        let mut fixture = two_recorders(method, |_| Ok(()));
        fixture.close();
        let once = fixture.log.take();
        let again = move |ctx: &Ctx<'_>| {
            if left.take().is_some() {
                ctx.close_then(|result| {
                    assert!(result.is_ok(), "a close of a closing channel succeeds")
                });
            }
            Ok(())
        };
        let again = std::cell::RefCell::new(again);
        let mut fixture = two_recorders(method, move |ctx| (again.borrow_mut())(ctx));
        fixture.close();
        let twice: Vec<_> = fixture.log.take().into_iter().collect();
        let closes = |line: &&String| !line.ends_with(" close");
        assert_eq!(
            twice.iter().filter(closes).collect::<Vec<_>>(),
            once.iter().filter(closes).collect::<Vec<_>>(),
            "at {method:?}"
        );
        assert_eq!(fixture.reports.take(), Vec::<String>::new(), "at {method:?}");
    }
}

#[test]
fn c02_a_channel_closed_in_on_added_is_never_registered() {
    let log = waterwheel_testkit::recorder::Log::new();
    let made = Embedded::new(|edit| {
        edit.add_last("a", log.recorder())?;
        edit.add_last("b", log.recorder().at(RecordedMethod::Added, close))?;
        edit.channel().closed().add_listener(log.listener("closed"));
        Ok(())
    });
    assert_eq!(made.expect_err("the channel is closed").to_string(), "the channel is closed");
    assert_eq!(
        log.take(),
        lines(&[&["a on_added", "b on_added", "a close", "closed ok"], &CLOSING_LINES[5..]])
    );
}

#[test]
fn c02_every_close_completes() {
    let mut fixture = two_recorders(RecordedMethod::Read, |_| Ok(()));
    drop(fixture.log.take());
    fixture.ask(|channel, log| {
        for label in ["first", "second"] {
            channel.close().add_listener(log.listener(label));
        }
    });
    let begun = ["b close", "a close", "b close", "a close", "closed ok", "first ok", "second ok"];
    assert_eq!(fixture.log.take(), lines(&[&begun, &CLOSING_LINES[1..]]));
    let log = fixture.log.clone();
    fixture.on_loop(|channel| channel.close().add_listener(log.listener("third")));
    assert_eq!(fixture.log.take(), ["third ok"]);
}

#[test]
fn c02_writes_fail_before_the_close_future_completes_and_that_before_on_inactive() {
    for method in [RecordedMethod::Active, RecordedMethod::Read, RecordedMethod::UserEvent] {
        let mut fixture = fixture(|edit, log| {
            let told = log.clone();
            let app =
                log.recorder().interest(Events::INACTIVE).at(RecordedMethod::Inactive, |_| Ok(()));
            let interest = Events::INACTIVE | Events::ACTIVE | Events::READ | Events::USER_EVENT;
            edit.add_last(
                "app",
                app.interest(interest).at(method, move |ctx| {
                    ctx.write_with(text("1"), told.completion("write"));
                    ctx.close_with(told.completion("close"));
                    Ok(())
                }),
            )?;
            edit.channel().closed().add_listener(log.listener("closed"));
            Ok(())
        });
        fixture.write_inbound(text("x"));
        fixture.on_loop(|channel| channel.fire_user_event(text("x")));
        fixture.run();
        let found = fixture.log.take();
        let call_line = format!("app {}", method.name());
        let at = found
            .iter()
            .position(|line| line.starts_with(&call_line))
            .expect("the method is called");
        assert_eq!(
            found[at + 1..],
            [
                "write failed: the channel is closed",
                "closed ok",
                "close ok",
                "app on_inactive",
                "app on_removed",
                "app dropped",
            ],
            "at {method:?}"
        );
    }
}

#[test]
fn c02_a_connect_completes_before_on_active() {
    let mut fixture = fixture_with(Embedded::builder().unconnected(), |edit, log| {
        edit.add_last("app", log.recorder())?;
        Ok(())
    });
    assert_eq!(fixture.log.take(), ["app on_added", "app on_registered"]);
    assert!(!fixture.channel().is_active());
    fixture.ask(|channel, log| {
        channel.connect(Address::local("there")).add_listener(log.listener("connect"));
        channel.connect(Address::local("there")).add_listener(log.listener("again"));
    });
    assert_eq!(
        fixture.log.take(),
        [
            "app connect local:there",
            "app connect local:there",
            "connect ok",
            "again failed: the channel is active already",
            "app on_active",
            "app read",
        ]
    );
    assert_eq!(fixture.channel().peer_address(), Some(Address::local("there")));
}

#[test]
fn c02_a_connect_requested_in_on_registered_completes_before_on_active() {
    let mut fixture = fixture_with(Embedded::builder().unconnected(), |edit, log| {
        let told = log.clone();
        edit.add_last(
            "app",
            log.recorder().at(RecordedMethod::Registered, move |ctx| {
                ctx.connect_with(Address::local("there"), told.completion("connect"));
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.run();
    assert_eq!(
        fixture.log.take(),
        ["app on_added", "app on_registered", "connect ok", "app on_active", "app read"]
    );
}

#[test]
fn c02_a_bind_completes_before_on_active() {
    let mut fixture = fixture_with(Embedded::builder().unconnected(), |edit, log| {
        edit.add_last("app", log.recorder())?;
        Ok(())
    });
    drop(fixture.log.take());
    fixture.ask(|channel, log| {
        channel.bind(Address::local("here")).add_listener(log.listener("bind"));
    });
    assert_eq!(fixture.log.take(), ["app bind local:here", "bind ok", "app on_active", "app read"]);
}

#[test]
fn c02_a_channel_that_was_never_active_does_not_become_inactive() {
    let mut fixture = fixture_with(Embedded::builder().unconnected(), |edit, log| {
        edit.add_last("app", log.recorder())?;
        Ok(())
    });
    drop(fixture.log.take());
    fixture.close();
    let expected = ["app close", "app on_unregistered", "app on_removed", "app dropped"];
    assert_eq!(fixture.log.take(), expected);
}

#[test]
fn c02_the_end_or_failure_of_the_network_closes_the_channel() {
    let ended = ["app on_inactive", "app on_unregistered", "app on_removed", "app dropped"];
    let one = || {
        started_fixture(|edit, log| {
            edit.add_last("app", log.recorder())?;
            Ok(())
        })
    };
    let mut fixture = one();
    fixture.finish_inbound();
    assert_eq!(fixture.log.take(), ended);
    let mut fixture = one();
    fixture.fail(error("reset"));
    assert_eq!(fixture.log.take(), lines(&[&["app on_error reset"], &ended]));
    let mut written = fixture.on_loop(|channel| channel.write(text("x")));
    let failed = written
        .try_take()
        .expect("the future completes at once")
        .expect_err("the channel is closed");
    assert_eq!(failed.to_string(), "the channel is closed: reset");
}

#[test]
fn c02_handlers_added_while_the_channel_closes_are_removed_too() {
    for method in [RecordedMethod::Inactive, RecordedMethod::Unregistered] {
        let mut fixture = started_fixture(|edit, log| {
            let late = log.clone();
            edit.add_last(
                "app",
                log.recorder().at(method, move |ctx| {
                    ctx.pipeline().add_last("late", late.recorder())?;
                    Ok(())
                }),
            )?;
            Ok(())
        });
        fixture.close();
        let found = fixture.log.take();
        let of_late: Vec<_> = found.iter().filter(|line| line.starts_with("late")).collect();
        let last = ["late on_removed", "late dropped"];
        assert_eq!(of_late[0], "late on_added", "at {method:?}");
        assert_eq!(of_late[of_late.len() - 2..], last, "at {method:?}");
        assert_eq!(found.last().map(String::as_str), Some("app dropped"), "{found:?}");
    }
}

#[test]
fn c04_a_channel_can_be_deregistered_and_registered_again() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("app", log.recorder())?;
        Ok(())
    });
    fixture.ask(|channel, log| {
        channel.register().add_listener(log.listener("too early"));
        channel.deregister().add_listener(log.listener("leave"));
        channel.deregister().add_listener(log.listener("again"));
    });
    fixture.write_inbound(text("x"));
    assert!(fixture.channel().is_active() && !fixture.channel().is_registered());
    assert_eq!(
        fixture.log.take(),
        [
            "app deregister",
            "app deregister",
            "too early failed: the channel is registered with its loop already",
            "leave ok",
            "again failed: the channel is not registered with its loop",
            "app on_unregistered",
        ],
        "and nothing is read"
    );
    fixture.ask(|channel, log| channel.register().add_listener(log.listener("come")));
    fixture.close();
    assert_eq!(
        fixture.log.take(),
        [
            "come ok",
            "app on_registered",
            "app read",
            "app on_read x",
            "app on_read_complete",
            "app read",
            "app close",
            "app on_inactive",
            "app on_unregistered",
            "app on_removed",
            "app dropped",
        ]
    );
}
