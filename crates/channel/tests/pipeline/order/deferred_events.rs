//! Rules 1 to 3: events for a handler that runs are deferred.

use std::time::Duration;

use bytes::Bytes;
use waterwheel_testkit::recorder::{Log, RecordedMethod, Recorder};

use crate::support::{error, fixture, start_timer, started_fixture, text, trigger_every_method};

#[test]
fn c05_rule_01_a_handler_may_do_anything_at_any_moment() {
    for method in RecordedMethod::ALL {
        let mut fixture = fixture(|edit, log| {
            let (mut left, did) = (Some(()), log.clone());
            let app =
                log.recorder().at(RecordedMethod::Added, start_timer).at(method, move |ctx| {
                    if left.take().is_none() {
                        return Ok(());
                    }
                    let pipeline = ctx.pipeline();
                    assert!(
                        pipeline.with_handler("app", |_: &mut Recorder| ()).is_none(),
                        "it runs"
                    );
                    let added = pipeline.add_last("guest", Log::new().recorder());
                    let removed = added.and_then(|slot| pipeline.remove(slot));
                    assert!(removed.is_ok() || method == RecordedMethod::Removed, "{removed:?}");
                    ctx.write(text("a"));
                    ctx.channel().send(text("b"));
                    pipeline.fire_user_event(text("c"));
                    ctx.fire_user_event(text("d"));
                    ctx.fire_error(error("e"));
                    ctx.flush_now();
                    ctx.schedule(Duration::from_secs(1), 9);
                    ctx.channel().set_auto_read(false);
                    ctx.channel().set_auto_read(true);
                    did.push("everything");
                    Ok(())
                });
            edit.add_last("first", log.recorder().holds(RecordedMethod::Disconnect))?;
            edit.add_last("app", app)?;
            edit.add_last("last", log.recorder())?;
            Ok(())
        });
        trigger_every_method(&mut fixture);
        assert_eq!(fixture.reports.take(), Vec::<String>::new(), "at {method:?}");
        let lines = fixture.log.take();
        let calls = lines.iter().filter(|line| *line == "everything").count();
        assert_eq!(calls, 1, "at {method:?}: {lines:#?}");
    }
}

#[test]
fn c05_rule_02_an_event_for_a_running_handler_is_deferred() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("first", log.recorder())?;
        let told = log.clone();
        edit.add_last(
            "app",
            log.recorder().reading(move |ctx, _| {
                drop(ctx.channel().write(text("1")));
                drop(ctx.channel().write(text("2")));
                ctx.channel().flush();
                told.push("app returns");
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(
        fixture.log.take(),
        [
            "first on_read x",
            "app on_read x",
            "app returns",
            "app write 1", // `first` runs too: the writes are deferred there again.
            "app write 2",
            "app flush",
            "first write 1",
            "first write 2",
            "first flush",
            "first on_read_complete",
            "app on_read_complete",
            "app read",
            "first read",
        ]
    );
    assert_eq!(fixture.sent(), ["1", "2"]);
}

#[test]
fn c05_rule_02_inbound_events_are_deferred_in_order_too() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("first", log.recorder())?;
        let (told, mut left) = (log.clone(), Some(()));
        edit.add_last(
            "app",
            log.recorder().at(RecordedMethod::UserEvent, move |ctx| {
                if left.take().is_some() {
                    ctx.pipeline().fire_read(text("1"));
                    ctx.pipeline().fire_user_event(text("2"));
                    ctx.pipeline().fire_error(error("3"));
                    told.push("app returns");
                }
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.on_loop(|channel| channel.fire_user_event(text("go")));
    assert_eq!(
        fixture.log.take(),
        [
            "first on_user_event go",
            "app on_user_event go",
            "app returns",
            "first on_read 1",
            "app on_read 1",
            "first on_user_event 2",
            "app on_user_event 2",
            "first on_error 3",
            "app on_error 3",
        ]
    );
    assert_eq!(fixture.passed(), ["1"]);
}

#[test]
fn c05_rule_02_deferred_events_are_delivered_before_the_handler_is_reinstalled() {
    let mut fixture = started_fixture(|edit, log| {
        let told = log.clone();
        let later = log.clone();
        edit.add_last(
            "app",
            log.recorder()
                .reading(move |ctx, _| {
                    drop(ctx.channel().write(text("1")));
                    told.push("app returns from on_read");
                    Ok(())
                })
                .writing(move |ctx, msg, done| {
                    // The handler is running, so this write is deferred as well.
                    ctx.pipeline().fire_user_event(text("2"));
                    ctx.write_with(msg, done);
                    later.push("app returns from write");
                    Ok(())
                }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(
        fixture.log.take()[..5],
        [
            "app on_read x",
            "app returns from on_read",
            "app write 1",
            "app returns from write",
            "app on_user_event 2",
        ]
    );
}

#[test]
fn c05_rule_03_events_a_handler_emits_go_behind_its_deferred_events() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "app",
            log.recorder().reading(|ctx, _| {
                ctx.write(text("1"));
                drop(ctx.channel().write(text("2")));
                ctx.write(text("3"));
                drop(ctx.channel().write(text("4")));
                ctx.write(text("5"));
                ctx.flush();
                ctx.write(text("not flushed"));
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(fixture.sent(), ["1", "2", "3", "4", "5"]);
    assert_eq!(fixture.log.take()[..3], ["app on_read x", "app write 2", "app write 4"]);
}

#[test]
fn c05_rule_03_a_deferred_call_emits_before_younger_events() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "app",
            log.recorder()
                .reading(|ctx, _| {
                    for number in ["a", "b"] {
                        drop(ctx.channel().write(text(number)));
                    }
                    ctx.write(text("c"));
                    ctx.flush();
                    Ok(())
                })
                .writing(|ctx, msg, _| {
                    let msg = msg.take::<Bytes>().expect("the message is bytes");
                    ctx.write(msg.clone());
                    ctx.write(msg);
                    Ok(())
                }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(fixture.sent(), ["a", "a", "b", "b", "c"]);
}

#[test]
fn c05_rule_03_a_close_does_not_overtake_deferred_events() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "app",
            log.recorder().reading(|ctx, _| {
                ctx.channel().send(text("1"));
                ctx.close();
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(fixture.sent(), ["1"]);
    assert!(!fixture.channel().is_open());
}
