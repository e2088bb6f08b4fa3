//! Rule 8: events that start from the loop only.

use waterwheel_channel::Events;
use waterwheel_testkit::recorder::Moment;

use crate::support::{bytes, quiet, text};

#[test]
fn c05_rule_08_writability_is_announced_after_the_call_that_changed_it() {
    let mut bench = quiet(|edit, log| {
        edit.add_last("first", log.recorder().interest(Events::WRITABILITY_CHANGED))?;
        let told = log.clone();
        edit.add_last(
            "app",
            log.recorder().interest(Events::READ).at(Moment::Read, move |ctx| {
                ctx.write(bytes(64 * 1024 + 1));
                assert!(!ctx.is_writable());
                told.push("app returns");
                Ok(())
            }),
        )?;
        Ok(())
    });
    bench.set_room(0);
    bench.write_inbound(text("x"));
    let lines = ["app on_read x", "app returns", "first on_writability_changed"];
    assert_eq!(bench.log.take(), lines);
}

#[test]
fn c05_rule_08_what_changes_and_changes_back_is_not_announced() {
    let mut bench = quiet(|edit, log| {
        let interest = Events::WRITABILITY_CHANGED | Events::READ;
        edit.add_last(
            "app",
            log.recorder().interest(interest).at(Moment::Read, |ctx| {
                ctx.write(bytes(64 * 1024 + 1));
                assert!(!ctx.is_writable());
                ctx.flush_now();
                assert!(ctx.is_writable());
                Ok(())
            }),
        )?;
        Ok(())
    });
    bench.write_inbound(text("x"));
    assert_eq!(bench.log.take(), ["app on_read x"]);
}

#[test]
fn c05_rule_08_writability_is_announced_once_for_each_change() {
    let mut bench = quiet(|edit, log| {
        edit.add_last("app", log.recorder().interest(Events::WRITABILITY_CHANGED))?;
        Ok(())
    });
    bench.set_room(0);
    for _ in 0..3 {
        bench.on_loop(|channel| drop(channel.write_and_flush(bytes(64 * 1024 + 1))));
        bench.run();
    }
    assert_eq!(bench.log.take(), ["app on_writability_changed"]);
    bench.clear_faults();
    assert_eq!(bench.log.take(), ["app on_writability_changed"]);
}

#[test]
fn c05_rule_08_a_handler_may_write_too_much_in_the_announcement_itself() {
    let mut bench = quiet(|edit, log| {
        let (told, mut left) = (log.clone(), 2);
        let app = log.recorder().interest(Events::WRITABILITY_CHANGED);
        edit.add_last(
            "app",
            app.at(Moment::WritabilityChanged, move |ctx| {
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
    bench.on_loop(|channel| drop(channel.write(bytes(64 * 1024 + 1))));
    bench.run();
    let (event, no, yes) = ("app on_writability_changed", "writable: false", "writable: true");
    assert_eq!(
        bench.log.take(),
        [
            event,
            no, //
            event,
            yes,
            "full again", // Flushed above the mark: at once, so it is writable again.
        ]
    );
    assert!(bench.channel().is_writable());
}

#[test]
fn c05_rule_08_the_end_is_announced_after_the_call_that_closed() {
    let mut bench = quiet(|edit, log| {
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
    bench.write_inbound(text("x"));
    assert_eq!(
        bench.log.take(),
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
fn c05_rule_08_leaving_the_loop_is_announced_after_the_call() {
    let mut bench = quiet(|edit, log| {
        let told = log.clone();
        let app = log.recorder().interest(Events::USER_EVENT | Events::UNREGISTERED);
        edit.add_last(
            "app",
            app.at(Moment::UserEvent, move |ctx| {
                ctx.deregister();
                told.push("app returns");
                Ok(())
            }),
        )?;
        Ok(())
    });
    bench.on_loop(|channel| channel.fire_user_event(text("x")));
    let lines = ["app on_user_event x", "app returns", "app on_unregistered"];
    assert_eq!(bench.log.take(), lines);
}
