//! C07: outcomes of writes.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::Events;
use waterwheel_testkit::embedded::Embedded;

use crate::support::{PipelineFixture, ZeroSized, bytes, fixture_with, started_fixture, text};

/// Builds a channel over a stream of bytes, without handlers.
fn stream() -> PipelineFixture {
    fixture_with(Embedded::builder().stream(), |_, _| Ok(()))
}

/// Writes these texts, each with a log line on completion, then flushes.
fn write_all(fixture: &mut PipelineFixture, texts: &[&'static str]) {
    fixture.ask(|channel, log| {
        for it in texts {
            let label = if it.is_empty() { "empty" } else { it };
            channel.write(text(it)).add_listener(log.listener(label));
        }
        channel.flush();
    });
}

#[test]
fn c07_completions_come_in_the_order_of_the_writes() {
    let mut fixture = stream();
    write_all(&mut fixture, &["1", "", "22", "", "", "3"]);
    assert_eq!(fixture.log.take(), ["1 ok", "empty ok", "22 ok", "empty ok", "empty ok", "3 ok"]);
    assert_eq!((fixture.sent().concat(), fixture.writes()), ("1223".to_owned(), 1));
}

#[test]
fn c07_a_single_empty_message_is_written() {
    for mut fixture in [stream(), started_fixture(|_, _| Ok(()))] {
        write_all(&mut fixture, &[""]);
        assert_eq!(fixture.log.take(), ["empty ok"]);
        assert_eq!(fixture.channel().pending_bytes(), 0);
    }
}

#[test]
fn c07_short_writes_lose_nothing_and_complete_the_messages_sent() {
    let mut fixture = stream();
    fixture.short_writes(2);
    write_all(&mut fixture, &["abc", "", "d", "efg"]);
    assert_eq!(
        fixture.sent(),
        ["ab", "c", "d", "ef", "g"],
        "one write may end one and begin the next"
    );
    assert_eq!(fixture.log.take(), ["abc ok", "empty ok", "d ok", "efg ok"]);
    assert_eq!((fixture.channel().pending_bytes(), fixture.writes()), (0, 4));
}

#[test]
fn c07_a_write_in_many_parts_does_not_starve_tasks() {
    let mut fixture = stream();
    fixture.short_writes(1);
    let log = fixture.log.clone();
    fixture.ask(|channel, log| {
        channel.write_and_flush(bytes(40)).add_listener(log.listener("long"));
    });
    assert_eq!(fixture.log.take(), ["long ok"], "the loop has run until it was idle");
    fixture.on_loop(|channel| {
        let event_loop = channel.event_loop();
        channel.write_and_flush(bytes(40)).add_listener(log.listener("long"));
        let told = log.clone();
        drop(event_loop.execute(move || told.push("task")));
    });
    let sent = fixture.sent().len();
    assert_eq!(sent - 40, 16, "so many at once");
    fixture.run();
    assert_eq!(
        (fixture.log.take().join(", "), fixture.sent().len()),
        ("task, long ok".to_owned(), 24)
    );
}

#[test]
fn c07_a_write_that_finds_no_room_waits_for_it() {
    let mut fixture = stream();
    fixture.set_room(0);
    write_all(&mut fixture, &["abc", "de"]);
    write_all(&mut fixture, &["f"]);
    assert_eq!(
        (fixture.log.take(), fixture.sent(), fixture.writes()),
        (vec![], vec![], 1),
        "asked once"
    );
    fixture.set_room(4);
    assert_eq!(
        (fixture.log.take(), fixture.sent().concat()),
        (vec!["abc ok".to_owned()], "abcd".into())
    );
    assert_eq!(fixture.channel().pending_bytes(), 2);
    fixture.clear_faults();
    assert_eq!(
        (fixture.log.take().join(", "), fixture.sent().concat()),
        ("de ok, f ok".into(), "ef".into())
    );
}

#[test]
fn c07_messages_wait_for_room_one_by_one() {
    let mut fixture = started_fixture(|_, _| Ok(()));
    fixture.set_room(2);
    write_all(&mut fixture, &["1", "2", "3"]);
    assert_eq!(
        (fixture.log.take().join(", "), fixture.sent()),
        ("1 ok, 2 ok".into(), vec!["1".into(), "2".into()])
    );
    fixture.set_room(1);
    assert_eq!((fixture.log.take().join(", "), fixture.sent()), ("3 ok".into(), vec!["3".into()]));
}

#[test]
fn c07_a_write_that_fails_closes_the_channel_and_fails_the_rest() {
    let mut fixture = fixture_with(Embedded::builder().stream(), |edit, log| {
        edit.add_last("app", log.recorder().interest(Events::INACTIVE | Events::ERROR))?;
        edit.channel().closed().add_listener(log.listener("closed"));
        Ok(())
    });
    drop(fixture.log.take());
    fixture.fail_write(io::Error::other("broken"));
    fixture.ask(|channel, log| {
        for label in ["1", "2"] {
            channel.write(text(label)).add_listener(log.listener(label));
        }
        channel.flush();
        channel.write(text("3")).add_listener(log.listener("not flushed"));
    });
    assert_eq!(
        fixture.log.take(),
        [
            "1 failed: the channel is closed: broken",
            "2 failed: the channel is closed: broken",
            "not flushed failed: the channel is closed: broken",
            "closed ok",
            "app on_inactive",
            "app on_removed",
            "app dropped",
        ]
    );
    assert_eq!(fixture.channel().pending_bytes(), 0);
}

#[test]
fn c07_a_write_that_fails_after_a_part_was_sent_fails() {
    let mut fixture = stream();
    fixture.set_room(4);
    write_all(&mut fixture, &["abc", "def"]);
    fixture.fail_write(io::Error::other("broken"));
    fixture.set_room(10);
    assert_eq!(fixture.log.take(), ["abc ok", "def failed: the channel is closed: broken"]);
    assert_eq!(fixture.sent().concat(), "abcd");
}

#[test]
fn c07_a_cancelled_write_is_not_sent() {
    for mut fixture in [stream(), started_fixture(|_, _| Ok(()))] {
        let (mut first, mut second, mut third) = fixture.on_loop(|channel| {
            let write = |it| channel.write(text(it));
            (write("first"), write("second"), write("third"))
        });
        assert!(second.cancel());
        assert_eq!(fixture.channel().pending_bytes(), 16, "until it is flushed");
        fixture.on_loop(|channel| channel.flush());
        assert_eq!(
            (fixture.sent().concat(), fixture.channel().pending_bytes()),
            ("firstthird".into(), 0)
        );
        assert!(!first.cancel() && !third.cancel(), "too late");
        assert!(
            matches!(first.try_take(), Some(Ok(()))) && matches!(third.try_take(), Some(Ok(())))
        );
        assert!(second.try_take().is_some_and(|it| it.is_err_and(|error| error.is_cancelled())));
    }
}

#[test]
fn c07_a_flushed_write_cannot_be_cancelled() {
    let mut fixture = stream();
    fixture.set_room(0);
    let written = fixture.on_loop(|channel| channel.write_and_flush(text("x")));
    assert!(!written.cancel());
    fixture.clear_faults();
    assert_eq!(fixture.sent(), ["x"]);
}

#[test]
fn c07_when_all_writes_are_cancelled_nothing_is_written() {
    let mut fixture = stream();
    let written = fixture.on_loop(|channel| channel.write(text("x")));
    assert!(written.cancel());
    fixture.on_loop(|channel| channel.flush());
    assert_eq!((fixture.writes(), fixture.channel().pending_bytes()), (0, 0));
}

#[test]
fn c07_a_write_before_the_connect_fails_at_the_flush() {
    let mut fixture = fixture_with(Embedded::builder().unconnected(), |_, _| Ok(()));
    fixture.ask(|channel, log| {
        channel.write(text("1")).add_listener(log.listener("1"));
    });
    assert_eq!(fixture.log.take(), Vec::<String>::new());
    fixture.ask(|channel, log| {
        channel.flush();
        channel.write(text("2")).add_listener(log.listener("2"));
    });
    assert_eq!(fixture.log.take(), ["1 failed: the channel is not connected yet"]);
    fixture.on_loop(|channel| {
        drop(channel.connect(waterwheel_channel::Address::local("there")));
        channel.flush();
    });
    fixture.run();
    assert_eq!((fixture.log.take().join(""), fixture.sent().join("")), ("2 ok".into(), "2".into()));
}

#[test]
fn c07_a_write_after_the_close_fails() {
    let mut fixture = stream();
    let log = fixture.log.clone();
    fixture.ask(|channel, log| {
        drop(channel.close());
        channel.write(text("x")).add_listener(log.listener("closing"));
    });
    fixture
        .on_loop(|channel| channel.write_and_flush(text("x")).add_listener(log.listener("closed")));
    let channel = fixture.channel().clone();
    let asked = std::thread::spawn(move || channel.write_and_flush(text("x")));
    asked.join().expect("the thread does not panic").add_listener(log.listener("from afar"));
    fixture.run();
    let failed = ["closing", "closed", "from afar"];
    assert_eq!(fixture.log.take(), failed.map(|it| format!("{it} failed: the channel is closed")));
    fixture.on_loop(|channel| channel.send(text("x")));
    assert_eq!(
        fixture.reports.take(),
        Vec::<String>::new(),
        "a write that fails because the channel is closed is not reported"
    );
    assert_eq!(fixture.channel().pending_bytes(), 0);
}

#[test]
fn c07_a_message_the_transport_cannot_write_fails_and_is_named() {
    let mut fixture = stream();
    let weightless = std::any::type_name::<ZeroSized>();
    let message = |ty: &str| {
        format!(
            "a message of type {ty} cannot be written: the transport `embedded` accepts bytes::bytes::Bytes or waterwheel_channel::payload::file_region::FileRegion"
        )
    };
    fixture.ask(|channel, log| {
        channel.write(ZeroSized).add_listener(log.listener("it"));
        channel.write_and_flush(text("x")).add_listener(log.listener("next"));
        channel.send(5u32);
    });
    assert_eq!(
        fixture.log.take(),
        [format!("it failed: {}", message(weightless)), "next ok".into()]
    );
    let id = fixture.channel().id();
    assert_eq!(
        fixture.reports.take(),
        [format!("channel {id}: a write was refused, 1 so far: {}", message("u32"))],
        "nobody waited"
    );
    assert_eq!(fixture.sent(), ["x"]);
}

#[test]
fn c07_a_write_that_fails_with_its_future_dropped_is_reported() {
    let mut fixture = stream();
    let channel = fixture.channel().clone();
    let afar = channel.clone();
    // A write from another thread, which drops the future before the loop runs the write.
    std::thread::spawn(move || drop(afar.write_and_flush(5u32)))
        .join()
        .expect("the thread does not panic");
    fixture.run();
    let reports = fixture.reports.take();
    let told = "an operation failed whose future was dropped, 1 so far: a message of type u32";
    assert!(reports.len() == 1 && reports[0].contains(told), "{reports:?}");
    // A write from a pipeline call, which drops the future before the write completes.
    fixture.on_loop(|channel| {
        let again = channel.clone();
        drop(channel.with_pipeline(move |_| drop(again.write_and_flush(5u32))));
    });
    let reports = fixture.reports.take();
    assert!(reports.len() == 1 && reports[0].contains("2 so far"), "{reports:?}");
    // No report: a listener waits, or the write was cancelled, or the channel is closed.
    let afar = channel.clone();
    let waits = std::thread::spawn(move || afar.write_and_flush(5u32));
    let waits = waits.join().expect("the thread does not panic");
    fixture.run();
    assert!(waits.is_done());
    fixture.on_loop(|channel| drop(channel.close()));
    std::thread::spawn(move || drop(channel.write(text("x"))))
        .join()
        .expect("the thread does not panic");
    fixture.run();
    assert_eq!(fixture.reports.take(), Vec::<String>::new());
}

#[test]
fn c07_a_listener_may_write_and_close() {
    let mut fixture = stream();
    let (channel, log) = (fixture.channel().clone(), fixture.log.clone());
    fixture.ask(|_, _| {
        let (again, told) = (channel.clone(), log.clone());
        channel.write_and_flush(text("1")).on_complete(move |_| {
            told.push("1 written");
            let (last, more) = (again.clone(), told.clone());
            again.write_and_flush(text("2")).on_complete(move |_| {
                more.push("2 written");
                last.send(text("3"));
                last.close().on_complete(move |_| more.push("closed"));
            });
        });
    });
    assert_eq!(fixture.log.take(), ["1 written", "2 written", "closed"]);
    assert_eq!(fixture.sent(), ["1", "2", "3"]);
}

#[test]
fn c07_a_completion_may_write_and_close() {
    let mut fixture = started_fixture(|edit, log| {
        let told = log.clone();
        edit.add_last(
            "app",
            log.recorder().interest(Events::READ).reading(move |ctx, _| {
                let (later, told) = (ctx.to_local(), told.clone());
                ctx.write_then(text("1"), move |result| {
                    told.push(format!("1 {result:?}"));
                    let closing = told.completion("close");
                    let run = later.run(move |ctx| {
                        ctx.write_and_flush(text("2"));
                        ctx.close_with(closing);
                    });
                    assert!(run.is_ok());
                });
                ctx.flush();
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    let lines = ["app on_read x", "1 Ok(())", "close ok", "app on_removed", "app dropped"];
    assert_eq!(fixture.log.take(), lines);
    assert_eq!(fixture.sent(), ["1", "2"]);
}

#[test]
fn c05_writes_through_the_context_and_through_the_channel_keep_their_order() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("first", log.recorder().interest(Events::WRITE))?;
        edit.add_last(
            "app",
            log.recorder().interest(Events::READ).reading(|ctx, _| {
                for it in ["1", "2", "3"] {
                    ctx.write(text(it));
                    drop(ctx.channel().write(text(it)));
                }
                ctx.pipeline().write(text("4"));
                ctx.flush();
                Ok(())
            }),
        )?;
        edit.add_last("last", log.recorder().interest(Events::WRITE))?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(fixture.sent(), ["1", "1", "2", "2", "3", "3", "4"]);
    let lines = fixture.log.take();
    assert_eq!(lines[..4], ["app on_read x", "first write 1", "last write 1", "first write 1"]);
}

#[test]
fn c05_writes_made_inside_a_write_come_before_later_writes() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "header",
            log.recorder().writing(|ctx, msg, done| {
                ctx.write(text("header"));
                ctx.write_with(msg, done);
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.on_loop(|channel| {
        drop(channel.write(text("1")));
        drop(channel.write(text("2")));
        channel.flush();
    });
    assert_eq!(fixture.sent(), ["header", "1", "header", "2"]);
}

#[test]
fn c08_writes_from_another_thread_are_pending_from_their_submission_on() {
    let mut fixture = stream();
    let channel = fixture.channel().clone();
    let asked = std::thread::spawn(move || {
        drop(channel.write(bytes(64 * 1024)));
        let at_the_mark = channel.is_writable();
        drop(channel.write(bytes(1)));
        (at_the_mark, channel.is_writable(), channel.pending_bytes())
    });
    assert_eq!(asked.join().expect("the thread does not panic"), (true, false, 64 * 1024 + 1));
    fixture.run();
    fixture.on_loop(|channel| channel.flush());
    fixture.run();
    assert_eq!((fixture.channel().pending_bytes(), fixture.sent().len()), (0, 2));
    assert!(fixture.channel().is_writable());
}

#[test]
fn c07_completions_may_be_kept_in_a_list() {
    let results = Rc::new(RefCell::new(Vec::new()));
    let into = results.clone();
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "app",
            log.recorder().reading(move |ctx, _| {
                for number in 0..3 {
                    let into = into.clone();
                    let it: Bytes = text("x");
                    ctx.write_then(it, move |result| {
                        into.borrow_mut().push((number, result.is_ok()))
                    });
                }
                ctx.flush();
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(*results.borrow(), [(0, true), (1, true), (2, true)]);
}
