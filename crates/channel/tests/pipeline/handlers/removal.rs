//! Rules 4 and 5: handlers removed while they run.

use bytes::Bytes;
use waterwheel_testkit::recorder::RecordedMethod;

use crate::support::{started_fixture, text};

#[test]
fn c05_rule_04_a_removed_handler_keeps_its_place_until_its_deferred_events_are_delivered() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("first", log.recorder().interest(waterwheel_channel::Events::OUTBOUND))?;
        let told = log.clone();
        edit.add_last(
            "app",
            log.recorder().reading(move |ctx, _| {
                drop(ctx.channel().write(text("1")));
                ctx.pipeline().remove("app")?;
                drop(ctx.channel().write(text("2")));
                ctx.write(text("3"));
                ctx.flush();
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
            "app on_read x",
            "app returns",
            "app write 1", // Written before the removal: the handler receives it.
            "first write 1",
            "first write 2", // Bypasses the handler, after its deferred event.
            "first write 3",
            "first flush",
            "app on_removed",
            "app dropped",
            "first read",
        ]
    );
    assert_eq!(fixture.sent(), ["1", "2", "3"]);
    assert_eq!(fixture.names(), ["first"]);
}

#[test]
fn c05_rule_04_without_deferred_events_a_removed_handler_is_passed_at_once() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("first", log.recorder().interest(waterwheel_channel::Events::WRITE))?;
        let told = log.clone();
        edit.add_last(
            "app",
            log.recorder().reading(move |ctx, _| {
                ctx.pipeline().remove("app")?;
                drop(ctx.channel().write(text("1")));
                ctx.write(text("2"));
                told.push("app returns");
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    let lines = ["app on_read x", "first write 1", "first write 2", "app returns"];
    assert_eq!(fixture.log.take()[..4], lines);
}

#[test]
fn c05_rule_04_inbound_events_do_not_overtake_deferred_events() {
    let mut fixture = started_fixture(|edit, log| {
        let mut left = Some(());
        edit.add_last(
            "app",
            log.recorder().reading(move |ctx, msg| {
                if left.take().is_some() {
                    ctx.pipeline().fire_read(text("1"));
                    ctx.pipeline().remove("app")?;
                    ctx.pipeline().fire_read(text("2"));
                    return Ok(());
                }
                ctx.fire_read(msg);
                Ok(())
            }),
        )?;
        edit.add_last("last", log.recorder())?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(
        fixture.log.take()[..6],
        [
            "app on_read x",
            "app on_read 1",
            "last on_read 1",
            "last on_read 2",
            "app on_removed",
            "app dropped",
        ]
    );
}

#[test]
fn c05_rule_04_events_during_on_removed_keep_their_order() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("first", log.recorder().interest(waterwheel_channel::Events::WRITE))?;
        let app = log.recorder().reading(|ctx, _| {
            drop(ctx.channel().write(text("1")));
            Ok(ctx.pipeline().remove("app")?)
        });
        edit.add_last(
            "app",
            app.at(RecordedMethod::Removed, |ctx| {
                drop(ctx.channel().write(text("2")));
                ctx.write(text("3"));
                drop(ctx.channel().write(text("4")));
                ctx.flush();
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    fixture.on_loop(|channel| channel.flush());
    fixture.run();
    assert_eq!(
        fixture.log.take(),
        [
            "app on_read x",
            "app write 1",
            "first write 1",
            "app on_removed",
            "first write 2",
            "first write 3",
            "first write 4",
            "app dropped",
        ]
    );
    assert_eq!(fixture.sent(), ["1", "2", "3", "4"]);
}

#[test]
fn c05_rule_05_a_removed_handler_may_still_pass_on_events() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "lines",
            log.recorder().reading(|ctx, msg| {
                let bytes = msg.take::<Bytes>().expect("the message is bytes");
                ctx.fire_read(bytes.slice(..1));
                assert!(ctx.is_removed());
                ctx.fire_read(bytes.slice(1..));
                ctx.write(text("bye"));
                ctx.flush();
                Ok(())
            }),
        )?;
        edit.add_last(
            "upgrade",
            log.recorder().reading(|ctx, msg| {
                if ctx.pipeline().slot("lines").is_some() {
                    ctx.pipeline().remove("lines")?;
                }
                ctx.fire_read(msg);
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("abc"));
    assert_eq!(
        fixture.log.take()[..5],
        [
            "lines on_read abc",
            "upgrade on_read a",
            "upgrade on_read bc",
            "lines on_removed",
            "lines dropped",
        ]
    );
    assert_eq!(fixture.passed(), ["a", "bc"]);
    assert_eq!(fixture.sent(), ["bye"]);
}

#[test]
fn c05_rule_05_neighbours_removed_meanwhile_are_skipped() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("one", log.recorder())?;
        edit.add_last(
            "two",
            log.recorder().at(RecordedMethod::Read, |ctx| {
                for name in ["one", "two", "three"] {
                    ctx.pipeline().remove(name)?;
                }
                ctx.write(text("out"));
                ctx.flush();
                Ok(())
            }),
        )?;
        edit.add_last("three", log.recorder())?;
        edit.add_last("four", log.recorder())?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(
        fixture.log.take(),
        [
            "one on_read x",
            "two on_read x",
            "three on_removed", // Does not run, so it is removed at once.
            "three dropped",
            "four on_read x",
            "two on_removed",
            "two dropped",
            "one on_removed",
            "one dropped",
            "four on_read_complete",
            "four read",
        ]
    );
    assert_eq!(
        (fixture.sent(), fixture.names()),
        (vec!["out".to_owned()], vec!["four".to_owned()])
    );
}

#[test]
fn c05_rule_05_events_fired_by_a_replaced_handler_reach_its_successor() {
    let mut fixture = started_fixture(|edit, log| {
        let successor = log.clone();
        edit.add_last(
            "old",
            log.recorder().reading(move |ctx, msg| {
                ctx.pipeline().replace("old", "new", successor.recorder())?;
                assert!(ctx.is_removed());
                ctx.fire_read(msg);
                ctx.write(text("out"));
                ctx.flush();
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(
        fixture.log.take(),
        [
            "old on_read x",
            "new on_added",
            "new on_read x",
            "old on_removed",
            "old dropped",
            "new on_read_complete",
            "new read",
        ],
        "the writes of the replaced handler do not pass its successor"
    );
    assert_eq!((fixture.sent(), fixture.passed()), (vec!["out".to_owned()], vec!["x".to_owned()]));
}
