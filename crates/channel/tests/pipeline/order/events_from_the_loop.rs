//! Rule 8: events that only the loop starts.

use std::cell::RefCell;
use std::rc::Rc;

use waterwheel_channel::{Ctx, Events};
use waterwheel_testkit::recorder::RecordedMethod;

use crate::support::{bytes, started_fixture, text};

#[test]
fn c05_rule_08_writability_is_announced_after_the_call_that_changed_it() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("first", log.recorder().interest(Events::WRITABILITY_CHANGED))?;
        let told = log.clone();
        edit.add_last(
            "app",
            log.recorder().interest(Events::READ).at(RecordedMethod::Read, move |ctx| {
                ctx.write(bytes(64 * 1024 + 1));
                assert!(!ctx.is_writable());
                told.push("app returns");
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.set_room(0);
    fixture.write_inbound(text("x"));
    let lines = ["app on_read x", "app returns", "first on_writability_changed"];
    assert_eq!(fixture.log.take(), lines);
}

#[test]
fn c05_rule_08_a_handler_that_saw_the_channel_unwritable_is_notified_when_it_is_writable() {
    let mut fixture = started_fixture(|edit, log| {
        let interest = Events::WRITABILITY_CHANGED | Events::READ;
        edit.add_last(
            "app",
            log.recorder().interest(interest).at(RecordedMethod::Read, |ctx| {
                ctx.write(bytes(64 * 1024 + 1));
                assert!(!ctx.is_writable());
                ctx.flush_now();
                assert!(ctx.is_writable());
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(fixture.log.take(), ["app on_read x", "app on_writability_changed"]);
}

#[test]
fn c05_rule_08_a_handler_that_writes_up_to_the_mark_and_flushes_can_continue() {
    let mut fixture = started_fixture(|edit, log| {
        let (told, mut left) = (log.clone(), 100);
        let pour = move |ctx: &Ctx<'_>| {
            while ctx.is_writable() && left > 0 {
                ctx.write(bytes(16 * 1024));
                left -= 1;
            }
            // Above the mark this writes at once, and the channel is writable again when the method returns.
            ctx.flush();
            if left == 0 {
                told.push("all written");
            }
            Ok(())
        };
        let pour = Rc::new(RefCell::new(pour));
        let again = pour.clone();
        let app = log.recorder().interest(Events::WRITABILITY_CHANGED | Events::READ);
        let app = app.at(RecordedMethod::Read, move |ctx| (pour.borrow_mut())(ctx));
        let app = app.at(RecordedMethod::WritabilityChanged, move |ctx| (again.borrow_mut())(ctx));
        edit.add_last("app", app)?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert!(fixture.log.take().contains(&String::from("all written")), "it was told each time");
}

#[test]
fn c05_rule_08_writability_is_announced_once_for_each_change() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("app", log.recorder().interest(Events::WRITABILITY_CHANGED))?;
        Ok(())
    });
    fixture.set_room(0);
    for _ in 0..3 {
        fixture.on_loop(|channel| drop(channel.write_and_flush(bytes(64 * 1024 + 1))));
        fixture.run();
    }
    assert_eq!(fixture.log.take(), ["app on_writability_changed"]);
    fixture.clear_faults();
    assert_eq!(fixture.log.take(), ["app on_writability_changed"]);
}

#[test]
fn c05_rule_08_a_handler_may_fill_the_channel_in_on_writability_changed() {
    let mut fixture = started_fixture(|edit, log| {
        let (told, mut left) = (log.clone(), 2);
        let app = log.recorder().interest(Events::WRITABILITY_CHANGED);
        edit.add_last(
            "app",
            app.at(RecordedMethod::WritabilityChanged, move |ctx| {
                told.push(format!("writable: {}", ctx.is_writable()));
                if ctx.is_writable() && left > 0 {
                    left -= 1;
                    ctx.write(bytes(64 * 1024 + 1));
                    told.push("full again");
                }
                ctx.flush();
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.on_loop(|channel| drop(channel.write(bytes(64 * 1024 + 1))));
    fixture.run();
    let (event, no, yes) = ("app on_writability_changed", "writable: false", "writable: true");
    let full = "full again";
    assert_eq!(
        fixture.log.take(),
        [event, no, event, yes, full, event, yes, full, event, yes],
        "told each time, until it writes no more"
    );
}

#[test]
fn c05_rule_08_on_inactive_comes_after_the_call_that_closed() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("first", log.recorder().interest(Events::INBOUND))?;
        let told = log.clone();
        edit.add_last(
            "app",
            log.recorder().reading(move |ctx, _| {
                ctx.close();
                assert!(!ctx.is_active() && !ctx.channel().is_open());
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
            "first on_inactive",
            "app on_inactive",
            "first on_unregistered",
            "app on_unregistered",
            "app on_removed",
            "app dropped",
            "first on_removed",
            "first dropped",
        ]
    );
}

#[test]
fn c05_rule_08_on_unregistered_comes_after_the_call_that_deregistered() {
    let mut fixture = started_fixture(|edit, log| {
        let told = log.clone();
        let app = log.recorder().interest(Events::USER_EVENT | Events::UNREGISTERED);
        edit.add_last(
            "app",
            app.at(RecordedMethod::UserEvent, move |ctx| {
                ctx.deregister();
                told.push("app returns");
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.on_loop(|channel| channel.fire_user_event(text("x")));
    let lines = ["app on_user_event x", "app returns", "app on_unregistered"];
    assert_eq!(fixture.log.take(), lines);
}
