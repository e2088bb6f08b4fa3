//! Rule 6 and C07: pending bytes and water marks.

use std::cell::Cell;
use std::rc::Rc;

use waterwheel_channel::{
    ChannelOptions, Completion, Ctx, Events, Handler, HandlerResult, Message, Msg, WaterMarks,
};
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};
use waterwheel_testkit::recorder::RecordedMethod;

use crate::support::{
    PipelineFixture, ZeroSized, bytes, error, fixture_with, started_fixture, text,
};

/// Low-water mark 10, high-water mark 20.
fn small_marks() -> EmbeddedBuilder {
    let water_marks = WaterMarks::new(10, 20).expect("valid water marks");
    Embedded::builder()
        .options(ChannelOptions { water_marks, ..ChannelOptions::default() })
        .stream()
}

fn small_marks_fixture() -> PipelineFixture {
    let mut fixture = fixture_with(small_marks(), |edit, log| {
        let interest = Events::WRITABILITY_CHANGED;
        let told = log.clone();
        edit.add_last(
            "app",
            log.recorder().interest(interest).at(RecordedMethod::WritabilityChanged, move |ctx| {
                told.push(format!("writable: {}", ctx.is_writable()));
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.run();
    drop(fixture.log.take());
    fixture
}

fn announced(writable: bool) -> [String; 2] {
    ["app on_writability_changed".to_owned(), format!("writable: {writable}")]
}

#[test]
fn c05_rule_06_more_than_64_waiting_writes_make_the_channel_unwritable() {
    let seen = Rc::new(Cell::new(None));
    let into = seen.clone();
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "app",
            log.recorder().at(RecordedMethod::Read, move |ctx| {
                for _ in 0..64 {
                    drop(ctx.channel().write(ZeroSized));
                }
                let at_64 = ctx.is_writable() && ctx.channel().is_writable();
                drop(ctx.channel().write(ZeroSized));
                into.set(Some((at_64, ctx.is_writable(), ctx.channel().is_writable())));
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(seen.get(), Some((true, false, false)));
    assert!(fixture.channel().is_writable(), "the writes are no longer deferred");
    let changes = fixture.log.take().into_iter().filter(|line| line.contains("writability"));
    assert_eq!(changes.count(), 1, "a handler that saw the channel unwritable is notified");
}

#[test]
fn c05_rule_06_bytes_that_wait_at_a_handler_are_pending() {
    let seen = Rc::new(Cell::new((0, 0)));
    let into = seen.clone();
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last(
            "app",
            log.recorder().at(RecordedMethod::Read, move |ctx| {
                drop(ctx.channel().write(bytes(1000)));
                ctx.write(bytes(100));
                into.set((ctx.channel().pending_bytes(), ctx.bytes_before_unwritable()));
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!(seen.get(), (1100, 64 * 1024 + 1 - 1100));
    assert_eq!(fixture.channel().pending_bytes(), 1100, "in the buffer now, counted once");
    fixture.on_loop(|channel| channel.flush());
    assert_eq!(fixture.channel().pending_bytes(), 0);
}

/// Passes reads and writes on through one slot.
struct PassesBothWays;

impl Handler for PassesBothWays {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.fire_read(msg);
        Ok(())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        ctx.write_with(msg, done.take());
        Ok(())
    }
}

/// Returns how many writes of 1 KiB a handler after a codec makes while the channel is writable.
fn writes_while_writable(two_slots: bool) -> usize {
    let count = Rc::new(Cell::new(0));
    let into = count.clone();
    let mut fixture = started_fixture(|edit, log| {
        if two_slots {
            edit.add_codec("codec", PassesBothWays, PassesBothWays)?;
        } else {
            edit.add_last("codec", PassesBothWays)?;
        }
        edit.add_last(
            "app",
            log.recorder().reading(move |ctx, _| {
                while ctx.is_writable() {
                    ctx.write(bytes(1024));
                    into.set(into.get() + 1);
                    assert!(into.get() < 1000, "it never ends");
                }
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    count.get()
}

#[test]
fn c05_rule_06_writing_while_writable_ends_at_the_mark() {
    assert_eq!(writes_while_writable(true), 65);
    assert_eq!(
        writes_while_writable(false),
        65,
        "through a codec in one slot, which defers the writes"
    );
}

#[test]
fn c07_the_marks_are_strict() {
    let mut fixture = small_marks_fixture();
    fixture.set_room(0);
    fixture.on_loop(|channel| drop(channel.write(bytes(20))));
    assert!(fixture.channel().is_writable(), "at the high mark");
    assert_eq!(fixture.log.take(), Vec::<String>::new());
    fixture.on_loop(|channel| drop(channel.write(bytes(1))));
    assert!(!fixture.channel().is_writable(), "one above it");
    assert_eq!(fixture.log.take(), announced(false));
    fixture.on_loop(|channel| channel.flush());
    fixture.set_room(11);
    assert_eq!(fixture.channel().pending_bytes(), 10);
    assert!(!fixture.channel().is_writable(), "at the low mark");
    fixture.set_room(1);
    assert!(fixture.channel().is_writable(), "one below it");
    assert_eq!(fixture.log.take(), announced(true));
}

#[test]
fn c07_bytes_before_unwritable_and_bytes_before_writable_are_exact() {
    let mut fixture = small_marks_fixture();
    fixture.set_room(0);
    let ask = |fixture: &mut PipelineFixture| {
        let channel = fixture.channel().clone();
        let asked = fixture.with_pipeline(move |pipeline| {
            let numbers = Rc::new(Cell::new((0, 0)));
            let into = numbers.clone();
            let asks = waterwheel_testkit::recorder::Log::new().recorder();
            let asks = asks.at(RecordedMethod::Added, move |ctx| {
                assert_eq!(ctx.bytes_before_unwritable(), channel.bytes_before_unwritable());
                into.set((ctx.bytes_before_unwritable(), ctx.bytes_before_writable()));
                Ok(())
            });
            let slot = pipeline.add_last("asks", asks).expect("the channel is open");
            pipeline.remove(slot).expect("it is there");
            numbers.get()
        });
        asked.expect("the channel is open")
    };
    assert_eq!(ask(&mut fixture), (21, 0));
    fixture.on_loop(|channel| drop(channel.write(bytes(20))));
    assert_eq!(ask(&mut fixture), (1, 0));
    fixture.on_loop(|channel| drop(channel.write(bytes(1))));
    assert_eq!(ask(&mut fixture), (0, 12), "with 12 bytes fewer there are 9");
    fixture.on_loop(|channel| channel.flush());
    fixture.set_room(11);
    assert_eq!(ask(&mut fixture), (0, 1));
    fixture.set_room(1);
    assert_eq!(ask(&mut fixture), (12, 0));
}

#[test]
fn c07_a_write_beyond_the_hard_cap_fails() {
    let water_marks = WaterMarks::new(10, 20)
        .and_then(|marks| marks.with_hard_cap(30))
        .expect("valid water marks");
    let options = ChannelOptions { water_marks, ..ChannelOptions::default() };
    let mut fixture = fixture_with(Embedded::builder().options(options), |_, _| Ok(()));
    let log = fixture.log.clone();
    fixture.on_loop(|channel| {
        for (label, len) in [("fits", 30), ("too much", 1), ("nothing", 0)] {
            channel.write(bytes(len)).add_listener(log.listener(label));
        }
        channel.flush();
        channel.write(bytes(31)).add_listener(log.listener("alone too much"));
    });
    fixture.run();
    assert_eq!(
        fixture.log.take(),
        [
            "too much failed: write of 1 bytes refused: 30 bytes are pending, the hard cap is 30",
            "fits ok",
            "nothing ok",
            "alone too much failed: write of 31 bytes refused: 0 bytes are pending, the hard cap is 30",
        ]
    );
    assert_eq!(fixture.sent().iter().map(String::len).collect::<Vec<_>>(), [30, 0]);
}

#[test]
fn c07_a_write_that_fails_in_a_handler_is_not_pending() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("app", log.recorder().at(RecordedMethod::Write, |_| Err(error("no"))))?;
        Ok(())
    });
    fixture.on_loop(|channel| drop(channel.write(bytes(100))));
    assert_eq!(fixture.channel().pending_bytes(), 0);
}

#[test]
fn c07_pending_bytes_are_released_when_the_channel_closes() {
    let mut fixture = small_marks_fixture();
    fixture.set_room(5);
    fixture.on_loop(|channel| {
        drop(channel.write_and_flush(bytes(15)));
        drop(channel.write(bytes(6)));
    });
    assert_eq!((fixture.channel().pending_bytes(), fixture.channel().is_writable()), (16, true));
    fixture.on_loop(|channel| drop(channel.write(bytes(6))));
    assert_eq!(fixture.log.take(), announced(false));
    fixture.close();
    assert_eq!(fixture.channel().pending_bytes(), 0);
    assert!(!fixture.channel().is_writable(), "a closed channel is not writable");
    assert_eq!(
        fixture.log.take(),
        ["app on_removed", "app dropped"],
        "nobody is told that it is writable"
    );
}

#[test]
fn c07_reports_of_many_refused_writes_without_a_listener_are_throttled() {
    let water_marks =
        WaterMarks::new(0, 4).and_then(|marks| marks.with_hard_cap(4)).expect("valid water marks");
    let options = ChannelOptions { water_marks, ..ChannelOptions::default() };
    let mut fixture = fixture_with(Embedded::builder().options(options).stream(), |_, _| Ok(()));
    fixture.set_room(0);
    fixture.on_loop(|channel| (0..100).for_each(|_| channel.send(bytes(8))));
    let told = fixture.reports.take();
    assert_eq!(told.len(), 7, "the 1st, 2nd, 4th … 64th: {told:?}");
    assert!(told[6].contains("64 so far") && told[6].contains("the hard cap is 4"), "{}", told[6]);
}

#[test]
fn c07_a_handler_that_saw_submitted_writes_fill_the_channel_is_notified_when_it_is_writable() {
    let mut fixture = started_fixture(|edit, log| {
        let (seen, told) = (log.clone(), log.clone());
        let app = log.recorder().interest(Events::USER_EVENT | Events::WRITABILITY_CHANGED);
        let app = app.at(RecordedMethod::UserEvent, move |ctx| {
            seen.push(format!("looks: {}", ctx.channel().is_writable()));
            Ok(())
        });
        let app = app.at(RecordedMethod::WritabilityChanged, move |ctx| {
            told.push(format!("told: {}", ctx.is_writable()));
            Ok(())
        });
        edit.add_last("app", app)?;
        Ok(())
    });
    // Neither write alone exceeds the mark. The write on the loop is sent before the other write arrives.
    fixture.set_room(0);
    fixture.on_loop(|channel| channel.send(bytes(40 * 1024)));
    drop(fixture.channel().write_and_flush(bytes(30 * 1024)));
    fixture.on_loop(|channel| channel.fire_user_event(()));
    fixture.clear_faults();
    let log = fixture.log.take();
    assert!(log.contains(&String::from("looks: false")), "{log:?}");
    assert_eq!(log.last().map(String::as_str), Some("told: true"), "{log:?}");
}

#[test]
fn c07_a_submission_beyond_isize_max_is_refused_and_leaves_nothing_pending() {
    let mut fixture = started_fixture(|_, _| Ok(()));
    let (_waits, refused) = (
        fixture.channel().write(WithSizeHint(usize::MAX)),
        fixture.channel().write(WithSizeHint(usize::MAX)),
    );
    assert_eq!(fixture.channel().pending_bytes(), isize::MAX as usize, "pending bytes saturate");
    assert!(refused.is_done(), "the counter has no room for another message");
    fixture.channel().flush();
    fixture.run();
    assert_eq!(fixture.channel().pending_bytes(), 0);
    assert!(fixture.channel().is_writable());
}

/// A message with this `size_hint`.
struct WithSizeHint(usize);

impl Message for WithSizeHint {
    fn size_hint(&self) -> usize {
        self.0
    }
}

/// Drops every write and completes it with success.
struct DiscardsWrites;

impl Handler for DiscardsWrites {
    fn write(&mut self, _: &Ctx<'_>, _: Msg, done: &mut Completion) -> HandlerResult {
        done.take().succeed();
        Ok(())
    }
}

#[test]
fn c07_handlers_are_notified_when_a_thread_saw_the_channel_unwritable_by_submitted_writes() {
    let mut fixture = small_marks_fixture();
    fixture.with_pipeline(|pipeline| pipeline.add_last("swallows", DiscardsWrites).is_ok());
    let channel = fixture.channel().clone();
    // Off the loop: between turns this thread is not on the loop.
    drop(channel.write_and_flush(bytes(21)));
    assert_eq!((channel.is_writable(), channel.bytes_before_unwritable()), (false, 0));
    fixture.run();
    assert!(channel.is_writable());
    assert_eq!(
        fixture.log.take(),
        announced(true),
        "the loop itself never saw the channel unwritable"
    );
    drop(channel.write_and_flush(bytes(21)));
    fixture.run();
    assert_eq!(fixture.log.take(), Vec::<String>::new(), "nobody looked");
}
