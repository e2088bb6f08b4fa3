//! Rule 12: events skip handlers that are not interested in them.

use waterwheel_channel::Events;
use waterwheel_testkit::recorder::RecordedMethod;

use crate::support::{fixture, start_timer, text, trigger_every_method};

/// Every event with its handler method.
const EVENTS: [(Events, RecordedMethod); 18] = [
    (Events::REGISTERED, RecordedMethod::Registered),
    (Events::UNREGISTERED, RecordedMethod::Unregistered),
    (Events::ACTIVE, RecordedMethod::Active),
    (Events::INACTIVE, RecordedMethod::Inactive),
    (Events::READ, RecordedMethod::Read),
    (Events::READ_COMPLETE, RecordedMethod::ReadComplete),
    (Events::USER_EVENT, RecordedMethod::UserEvent),
    (Events::WRITABILITY_CHANGED, RecordedMethod::WritabilityChanged),
    (Events::ERROR, RecordedMethod::Error),
    (Events::BIND, RecordedMethod::Bind),
    (Events::CONNECT, RecordedMethod::Connect),
    (Events::DISCONNECT, RecordedMethod::Disconnect),
    (Events::CLOSE, RecordedMethod::Close),
    (Events::DEREGISTER, RecordedMethod::Deregister),
    (Events::BEGIN_READ, RecordedMethod::BeginRead),
    (Events::WRITE, RecordedMethod::Write),
    (Events::FLUSH, RecordedMethod::Flush),
    (Events::SHUTDOWN_OUTPUT, RecordedMethod::ShutdownOutput),
];

/// Returns the methods called on a handler with this interest, each once.
fn called_for(interest: Events) -> Vec<String> {
    let mut fixture = fixture(|edit, log| {
        edit.add_last("first", log.recorder().holds(RecordedMethod::Disconnect))?;
        let app = log.recorder().at(RecordedMethod::Added, start_timer).interest(interest);
        edit.add_last("app", app)?;
        edit.add_last("last", log.recorder())?;
        Ok(())
    });
    trigger_every_method(&mut fixture);
    let lines = fixture.log.take();
    for (_, method) in EVENTS {
        for other in ["first", "last"] {
            let call = format!("{other} {}", method.name());
            assert!(lines.iter().any(|line| line.starts_with(&call)), "no {call} in {lines:?}");
        }
    }
    let mine = lines.iter().filter_map(|line| line.strip_prefix("app "));
    let mut methods: Vec<_> = mine.map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    methods.sort();
    methods.dedup();
    methods
}

#[test]
fn c05_rule_12_a_handler_is_called_for_the_events_of_its_interest_only() {
    for (event, method) in EVENTS {
        let mut expected = ["on_added", "on_timer", "on_removed", "dropped", method.name()];
        expected.sort();
        assert_eq!(called_for(event), expected, "{event:?}");
    }
}

#[test]
fn c05_rule_12_a_handler_without_interest_is_called_for_its_own_lifecycle_only() {
    assert_eq!(called_for(Events::NONE), ["dropped", "on_added", "on_removed", "on_timer"]);
}

#[test]
fn c04_a_handler_interested_in_all_events_receives_all() {
    assert_eq!(called_for(Events::ALL).len(), EVENTS.len() + 4);
}

#[test]
fn c04_every_event_goes_through_every_handler_in_order() {
    let mut fixture = fixture(|edit, log| {
        edit.add_last("a", log.recorder().holds(RecordedMethod::Disconnect))?;
        edit.add_last("b", log.recorder())?;
        edit.add_last("c", log.recorder())?;
        Ok(())
    });
    trigger_every_method(&mut fixture);
    let lines = fixture.log.take();
    for (event, method) in EVENTS {
        let called = |line: &&String| line.split(' ').nth(1) == Some(method.name());
        let names: String = lines.iter().filter(called).map(|line| &line[..1]).collect();
        let order = if Events::INBOUND.contains(event) { "abc" } else { "cba" };
        let times = names.len() / 3;
        assert!(times > 0, "{event:?}");
        assert_eq!(names, order.repeat(times), "{event:?}");
    }
}

#[test]
fn c05_rule_12_a_skipped_slot_defers_no_events() {
    let mut fixture = fixture(|edit, log| {
        let told = log.clone();
        edit.add_last(
            "app",
            log.recorder().interest(Events::READ).reading(move |ctx, _| {
                // The handler runs; events it is not interested in pass it.
                drop(ctx.channel().write(text("1")));
                told.push(format!("{} pending", ctx.channel().pending_bytes()));
                ctx.write(text("2"));
                ctx.flush();
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(fixture.log.take()[1..], ["app on_read x", "1 pending"]);
    assert_eq!(fixture.sent(), ["1", "2"]);
}

#[test]
fn c05_rule_12_events_without_interest_do_not_overtake_queued_ones() {
    let mut fixture = fixture(|edit, log| {
        // `codec` runs while `app` answers: the write is queued, and nothing after it may pass.
        edit.add_last("codec", log.recorder().interest(Events::READ | Events::WRITE))?;
        edit.add_last(
            "app",
            log.recorder().interest(Events::READ).reading(|ctx, _| {
                ctx.write_and_flush(text("answer"));
                ctx.close();
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(fixture.sent(), ["answer"], "not overtaken by the flush and the close");
    assert!(!fixture.channel().is_open());
}

#[test]
fn c05_rule_12_a_handler_is_skipped_again_when_its_queue_is_empty() {
    let mut fixture = fixture(|edit, log| {
        edit.add_last("first", log.recorder().interest(Events::FLUSH | Events::USER_EVENT))?;
        let told = log.clone();
        let codec = log.recorder().interest(Events::READ | Events::WRITE | Events::USER_EVENT);
        edit.add_last("codec", codec)?;
        edit.add_last(
            "app",
            log.recorder().interest(Events::READ).reading(move |ctx, _| {
                ctx.write(text("a"));
                ctx.flush();
                told.push("after the flush");
                // An inbound event is queued at a running handler too.
                ctx.pipeline().fire_read_complete();
                ctx.channel().fire_user_event(7u32);
                ctx.pipeline().fire_read_complete();
                Ok(())
            }),
        )?;
        edit.add_last("last", log.recorder().interest(Events::READ_COMPLETE | Events::USER_EVENT))?;
        Ok(())
    });
    drop(fixture.log.take());
    fixture.write_inbound(text("x"));
    let expected = [
        "codec on_read x",
        "app on_read x",
        "after the flush",
        "last on_read_complete",
        "first on_user_event u32",
        "codec write a",
        "first flush",
        "codec on_user_event u32",
        "last on_user_event u32",
        "last on_read_complete",
        "last on_read_complete",
    ];
    assert_eq!(fixture.log.take(), expected);
    drop(fixture.channel().write(text("b")));
    fixture.run();
    drop(fixture.log.take());
    fixture.on_loop(|channel| channel.flush());
    fixture.run();
    assert_eq!(fixture.log.take(), ["first flush"], "the codec is skipped");
    assert_eq!(fixture.sent(), ["a", "b"]);
}

#[test]
fn c05_rule_12_a_handler_is_skipped_again_after_a_removal_that_was_undone() {
    let mut fixture = fixture(|edit, log| {
        let mut is_first = true;
        let codec = log.recorder().interest(Events::USER_EVENT);
        let codec = codec.at(RecordedMethod::UserEvent, move |ctx| {
            if std::mem::take(&mut is_first) {
                ctx.channel().fire_user_event(2_u32);
            }
            Ok(())
        });
        edit.add_last("codec", codec)?;
        Ok(())
    });
    drop(fixture.log.take());
    let channel = fixture.channel().clone();
    let undone = fixture.with_pipeline(move |pipeline| {
        pipeline.edit(|edit| {
            edit.remove("codec")?;
            channel.fire_user_event(1_u32); // Queues the second one while the handler is to be removed.
            edit.remove("nobody")
        })
    });
    assert!(undone.is_some_and(|undone| undone.is_err()));
    assert_eq!(fixture.log.take(), ["codec on_user_event u32", "codec on_user_event u32"]);
    fixture.write_inbound(text("x"));
    assert_eq!(fixture.log.take(), [""; 0], "not interested in reads");
}
