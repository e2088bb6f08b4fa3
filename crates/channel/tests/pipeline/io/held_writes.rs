//! K09: bytes that handlers hold, and channels that handlers declare unwritable.

use std::cell::RefCell;
use std::fs::File;
use std::rc::Rc;

use bytes::Bytes;
use proptest::prelude::*;
use waterwheel_channel::{
    ChannelError, ChannelOptions, Completion, Ctx, Events, FileRegion, Handler, HandlerResult,
    HeldBytes, Msg, PauseReads, PendingWriteQueue, Unwritable, WaterMarks,
};
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};
use waterwheel_testkit::recorder::RecordedMethod;

use crate::support::{PipelineFixture, bytes, fixture_with, text};

/// Code that the handler that holds writes runs, sent to it as a user event.
type Request = Box<dyn FnOnce(&mut Holder, &Ctx<'_>) + Send>;

struct Ask(Request);

impl waterwheel_channel::Message for Ask {}

/// Holds all writes, and does what the test asks.
#[derive(Default)]
struct Holder {
    queue: PendingWriteQueue,
    declarations: Vec<Unwritable>,
    held: Vec<HeldBytes>,
    /// True if the queue is not written on removal.
    is_careless: bool,
}

impl Handler for Holder {
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        self.queue.push(ctx, msg, done.take());
        Ok(())
    }

    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.queue.flush();
        ctx.flush();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        match event.take::<Ask>() {
            Ok(Ask(request)) => request(self, ctx),
            Err(other) => ctx.fire_user_event(other),
        }
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        if !self.is_careless {
            self.queue.write_all(ctx);
        }
    }
}

/// Low-water mark 10, high-water mark 20, hard cap 100.
fn small_marks() -> EmbeddedBuilder {
    let water_marks = WaterMarks::new(10, 20).and_then(|marks| marks.with_hard_cap(100));
    let water_marks = water_marks.expect("valid water marks");
    Embedded::builder()
        .options(ChannelOptions { water_marks, ..ChannelOptions::default() })
        .stream()
}

fn holder_fixture(builder: EmbeddedBuilder) -> PipelineFixture {
    let mut fixture = fixture_with(builder, |edit, log| {
        edit.add_last("holder", Holder::default())?;
        let told = log.clone();
        let app = log.recorder().at(RecordedMethod::WritabilityChanged, move |ctx| {
            told.push(format!("writable: {}", ctx.is_writable()));
            Ok(())
        });
        edit.add_last("app", app)?;
        Ok(())
    });
    fixture.run();
    drop(fixture.log.take());
    fixture
}

fn ask(fixture: &mut PipelineFixture, f: impl FnOnce(&mut Holder, &Ctx<'_>) + Send + 'static) {
    fixture.fire_user_event(Ask(Box::new(f)));
    fixture.run();
}

/// Takes the announced writability.
fn announced(fixture: &PipelineFixture) -> Vec<String> {
    fixture.log.take().into_iter().filter(|line| line.starts_with("writable")).collect()
}

#[test]
fn k09_a_channel_is_unwritable_until_the_last_declaration_is_dropped() {
    let mut fixture = holder_fixture(small_marks());
    ask(&mut fixture, |holder, ctx| {
        holder.declarations.extend([ctx.declare_unwritable(), ctx.declare_unwritable()]);
        assert!(!ctx.is_writable() && ctx.bytes_before_unwritable() == 0);
    });
    assert!(!fixture.channel().is_writable());
    assert_eq!(announced(&fixture), ["writable: false"]);
    ask(&mut fixture, |holder, _| drop(holder.declarations.pop()));
    assert!(!fixture.channel().is_writable(), "one is left");
    assert_eq!(announced(&fixture), [""; 0]);
    ask(&mut fixture, |holder, _| drop(holder.declarations.pop()));
    assert!(fixture.channel().is_writable());
    assert_eq!(announced(&fixture), ["writable: true"]);
}

#[test]
fn k09_writes_are_not_refused_while_a_declaration_exists() {
    let mut fixture = holder_fixture(small_marks());
    ask(&mut fixture, |holder, ctx| holder.declarations.push(ctx.declare_unwritable()));
    ask(&mut fixture, |_, ctx| ctx.write_and_flush(bytes(5)));
    assert_eq!(fixture.sent(), ["xxxxx"]);
}

#[test]
fn k09_a_declaration_and_the_water_marks_do_not_end_each_other() {
    let mut fixture = holder_fixture(small_marks());
    // Between the marks: the declaration ends, and the channel is writable at once.
    ask(&mut fixture, |holder, ctx| {
        ctx.write(bytes(15));
        holder.declarations.push(ctx.declare_unwritable());
    });
    ask(&mut fixture, |holder, _| holder.declarations.clear());
    assert!(fixture.channel().is_writable());
    // Above the high mark: the channel stays unwritable until it is below the low one.
    ask(&mut fixture, |holder, ctx| {
        holder.declarations.push(ctx.declare_unwritable());
        ctx.write(bytes(15));
    });
    ask(&mut fixture, |holder, _| holder.declarations.clear());
    assert!(!fixture.channel().is_writable(), "30 bytes are pending");
    ask(&mut fixture, |holder, ctx| {
        holder.declarations.push(ctx.declare_unwritable());
        ctx.flush();
    });
    assert_eq!(fixture.channel().pending_bytes(), 0);
    assert!(!fixture.channel().is_writable(), "the declaration is left");
    ask(&mut fixture, |holder, _| holder.declarations.clear());
    assert!(fixture.channel().is_writable());
}

#[test]
fn k09_reads_pause_while_a_declaration_exists() {
    let options =
        ChannelOptions { pause_reads_while_unwritable: PauseReads::Always, ..Default::default() };
    let mut fixture = holder_fixture(Embedded::builder().options(options).stream());
    ask(&mut fixture, |holder, ctx| holder.declarations.push(ctx.declare_unwritable()));
    fixture.write_inbound(text("late"));
    assert_eq!(fixture.unread(), 1);
    ask(&mut fixture, |holder, _| holder.declarations.clear());
    assert_eq!(fixture.unread(), 0);
}

#[test]
fn k09_a_declaration_may_outlive_its_handler_and_its_channel() {
    let mut fixture = holder_fixture(small_marks());
    let kept = Rc::new(RefCell::new(None));
    let into = kept.clone();
    let declare = OnAdded(Some(Box::new(move |ctx| {
        *into.borrow_mut() = Some(ctx.declare_unwritable());
    })));
    fixture.with_pipeline(|pipeline| pipeline.edit(|edit| edit.add_last("other", declare)));
    fixture.with_pipeline(|pipeline| pipeline.edit(|edit| edit.remove("other")));
    fixture.run();
    assert!(kept.borrow().is_some() && !fixture.channel().is_writable());
    fixture.close();
    drop(kept.take());
    assert!(!fixture.channel().is_writable());
}

type Added = Box<dyn FnOnce(&Ctx<'_>)>;

struct OnAdded(Option<Added>);

impl Handler for OnAdded {
    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if let Some(f) = self.0.take() {
            f(ctx);
        }
        Ok(())
    }
}

#[test]
fn k09_held_bytes_are_pending_bytes() {
    let mut fixture = holder_fixture(small_marks());
    ask(&mut fixture, |holder, ctx| holder.held.push(ctx.count_held_bytes(15)));
    assert_eq!(fixture.channel().pending_bytes(), 15);
    assert!(fixture.channel().is_writable());
    ask(&mut fixture, |holder, _| holder.held[0].set(21));
    assert!(!fixture.channel().is_writable());
    ask(&mut fixture, |holder, _| holder.held[0].set(10));
    assert!(!fixture.channel().is_writable(), "not below the low mark yet");
    ask(&mut fixture, |holder, _| holder.held[0].set(9));
    assert!(fixture.channel().is_writable());
    ask(&mut fixture, |holder, _| holder.held.clear());
    assert_eq!(fixture.channel().pending_bytes(), 0);
    assert_eq!(announced(&fixture), ["writable: false", "writable: true"]);
}

#[test]
fn k09_held_bytes_that_outlive_their_channel_end_their_count() {
    let mut fixture = holder_fixture(small_marks());
    let kept = Rc::new(RefCell::new(None));
    let into = kept.clone();
    let hold = OnAdded(Some(Box::new(move |ctx| {
        *into.borrow_mut() = Some(ctx.count_held_bytes(5));
    })));
    fixture.with_pipeline(|pipeline| pipeline.edit(|edit| edit.add_last("other", hold)));
    fixture.close();
    fixture.run();
    assert_eq!(fixture.channel().pending_bytes(), 5);
    drop(kept.take());
    assert_eq!(fixture.channel().pending_bytes(), 0);
}

#[test]
fn k09_the_end_of_a_declaration_is_announced_wherever_it_is_dropped() {
    let mut fixture = holder_fixture(small_marks());
    let kept = Rc::new(RefCell::new(None));
    let into = kept.clone();
    let declare = OnAdded(Some(Box::new(move |ctx| {
        *into.borrow_mut() = Some(ctx.declare_unwritable());
    })));
    fixture.with_pipeline(|pipeline| pipeline.edit(|edit| edit.add_last("other", declare)));
    fixture.run();
    fixture.on_loop(|_| {
        let here = waterwheel_channel::LocalLoop::current().expect("on the loop");
        drop(here.spawn_local(async move { drop(kept.take()) }));
    });
    fixture.run();
    assert_eq!(announced(&fixture), ["writable: false", "writable: true"]);
}

#[test]
fn k09_queued_writes_are_pending_and_pass_on_without_an_announcement_in_between() {
    let mut fixture = holder_fixture(small_marks());
    let (first, second) = (fixture.write(bytes(11)), fixture.write(bytes(12)));
    assert_eq!(fixture.channel().pending_bytes(), 23);
    assert_eq!(announced(&fixture), ["writable: false"]);
    ask(&mut fixture, |holder, ctx| {
        assert_eq!((holder.queue.len(), holder.queue.bytes()), (2, 23));
        assert_eq!(holder.queue.write_next(ctx), Some(11));
        assert_eq!(holder.queue.write_next(ctx), Some(12));
        assert_eq!(holder.queue.write_next(ctx), None);
    });
    assert_eq!(fixture.channel().pending_bytes(), 23, "in the channel's buffer now");
    assert_eq!(announced(&fixture), [""; 0], "there was no room in between");
    ask(&mut fixture, |_, ctx| ctx.flush());
    assert!(first.join().is_ok() && second.join().is_ok());
    assert_eq!(announced(&fixture), ["writable: true"]);
}

#[test]
fn k09_a_held_message_on_its_way_to_the_transport_leaves_no_room() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let sees = seen.clone();
    let mut fixture = fixture_with(small_marks(), |edit, log| {
        let outer = log.recorder().at(RecordedMethod::Write, move |ctx| {
            sees.borrow_mut().push(ctx.is_writable());
            Ok(())
        });
        edit.add_last("outer", outer.interest(Events::WRITE))?;
        edit.add_last("holder", Holder::default())?;
        Ok(())
    });
    fixture.on_loop(|channel| channel.send(bytes(21)));
    assert!(!fixture.channel().is_writable());
    ask(&mut fixture, |holder, ctx| holder.queue.write_all(ctx));
    assert_eq!(*seen.borrow(), [false], "the bytes are not in the buffer yet");
}

#[test]
fn k09_a_held_write_beyond_the_hard_cap_is_refused() {
    let mut fixture = holder_fixture(small_marks());
    let held = fixture.write(bytes(90));
    let refused = fixture.write(bytes(11));
    let error = refused.join().unwrap_err().to_string();
    assert!(error.contains("90") && error.contains("100") && error.contains("11"), "{error}");
    assert_eq!(fixture.channel().pending_bytes(), 90);
    ask(&mut fixture, |holder, ctx| holder.queue.write_all(ctx));
    fixture.flush();
    assert!(held.join().is_ok(), "bytes that move on are not counted twice");
}

#[test]
fn k09_a_handler_asks_before_it_holds_a_message() {
    let mut fixture = holder_fixture(small_marks());
    ask(&mut fixture, |_, ctx| {
        assert!(ctx.held_write_error(100).is_none());
        assert!(matches!(ctx.held_write_error(101), Some(ChannelError::BufferFull { .. })));
        ctx.shutdown_output();
        assert!(matches!(ctx.held_write_error(0), Some(ChannelError::OutputShutDown)));
        ctx.close();
        assert!(matches!(ctx.held_write_error(0), Some(ChannelError::Closed { .. })));
    });
    assert!(!fixture.channel().is_open() && fixture.channel().close_cause().is_none(), "no panic");
}

#[test]
fn k09_removing_a_handler_with_held_writes_loses_nothing_and_keeps_the_flush_mark() {
    let mut fixture = holder_fixture(small_marks());
    let flushed = [fixture.write(bytes(3)), fixture.write(bytes(4))];
    fixture.flush();
    let unflushed = fixture.write(bytes(5));
    assert_eq!(fixture.sent(), [""; 0]);
    fixture.with_pipeline(|pipeline| pipeline.edit(|edit| edit.remove("holder")));
    fixture.run();
    assert!(flushed.into_iter().all(|write| write.join().is_ok()));
    assert_eq!(
        (fixture.sent().join(","), fixture.channel().pending_bytes()),
        ("xxx,xxxx".into(), 5)
    );
    assert!(!unflushed.is_done());
    fixture.flush();
    assert!(unflushed.join().is_ok());
    assert_eq!(fixture.sent(), ["xxxxx"]);
}

#[test]
fn k09_held_writes_of_a_closed_channel_fail_with_its_cause() {
    let mut fixture = holder_fixture(small_marks());
    let held = fixture.write(bytes(3));
    fixture.flush();
    fixture.fail(waterwheel_executor::Error::new("cable cut"));
    fixture.run();
    let error = format!("{:#}", held.join().unwrap_err());
    assert!(error.contains("cable cut"), "{error}");
    let late = fixture.write(bytes(3)).join().unwrap_err().to_string();
    assert!(late.contains("closed"), "{late}");
    assert_eq!(fixture.channel().pending_bytes(), 0);
}

#[test]
fn k09_a_queue_that_is_dropped_fails_its_writes_and_no_longer_counts() {
    let mut fixture = holder_fixture(small_marks());
    let held = fixture.write(bytes(25));
    ask(&mut fixture, |holder, _| holder.is_careless = true);
    fixture.with_pipeline(|pipeline| pipeline.edit(|edit| edit.remove("holder")));
    fixture.run();
    assert!(held.join().is_err());
    assert!(fixture.channel().pending_bytes() == 0 && fixture.channel().is_writable());
}

#[test]
fn k09_failing_all_held_writes_fails_each_completion_once() {
    let mut fixture = holder_fixture(small_marks());
    let held = [fixture.write(bytes(3)), fixture.write(text("four"))];
    ask(&mut fixture, |holder, ctx| {
        holder.queue.fail_all(ctx, &waterwheel_executor::Error::new("no handshake"));
        assert!(holder.queue.is_empty() && holder.queue.front().is_none());
    });
    for write in held {
        assert_eq!(write.join().unwrap_err().to_string(), "no handshake");
    }
    assert_eq!(fixture.channel().pending_bytes(), 0);
}

#[test]
fn k09_a_part_of_a_held_message_is_written_and_its_completion_follows_the_last_part() {
    let mut fixture = holder_fixture(small_marks());
    let write = fixture.write(bytes(10));
    fixture.flush();
    ask(&mut fixture, |holder, ctx| {
        assert_eq!(holder.queue.write_part(ctx, 0), Some(0));
        assert_eq!(holder.queue.write_part(ctx, 4), Some(4));
        assert_eq!((holder.queue.len(), holder.queue.flushed(), holder.queue.bytes()), (1, 1, 6));
        ctx.flush();
    });
    assert_eq!(fixture.sent(), ["xxxx"]);
    assert!(!write.cancel(), "a part was sent");
    ask(&mut fixture, |holder, ctx| {
        assert_eq!(holder.queue.write_part(ctx, 6), Some(6));
        ctx.flush();
    });
    assert_eq!(fixture.sent(), ["xxxxxx"]);
    assert!(write.join().is_ok());
}

/// Refuses the messages that begin with a `c`.
struct RefusesC;

impl Handler for RefusesC {
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        if msg.get::<Bytes>().is_some_and(|bytes| bytes.starts_with(b"c")) {
            return Err(waterwheel_executor::Error::new("no c"));
        }
        ctx.write_with(msg, done.take());
        Ok(())
    }
}

#[test]
fn k09_a_refused_part_of_a_message_closes_the_channel() {
    let mut fixture = holder_fixture(small_marks());
    fixture.with_pipeline(|pipeline| pipeline.add_first("refuses", RefusesC)).unwrap().unwrap();
    let (whole, next) = (fixture.write(text("abcdef")), fixture.write(text("ghi")));
    for _ in 0..3 {
        ask(&mut fixture, |holder, ctx| {
            holder.queue.write_part(ctx, 2);
            ctx.flush();
        });
    }
    assert_eq!(fixture.read_outbound::<Bytes>().unwrap(), "ab");
    assert!(fixture.read_outbound_any().is_none(), "nothing follows the gap");
    assert!(whole.join().is_err() && next.join().is_err());
    assert_eq!(fixture.channel().close_cause().unwrap().to_string(), "no c");
}

#[test]
fn k09_a_held_file_region_is_split_unless_another_part_would_exceed_the_hard_cap() {
    let region = || FileRegion::whole(File::open("Cargo.toml").unwrap()).unwrap();
    let len = region().len();
    for (room, parts) in [(FileRegion::PENDING_BYTES, vec![100, len - 100]), (100, vec![len])] {
        let water_marks = WaterMarks::new(10, 20)
            .and_then(|marks| marks.with_hard_cap(FileRegion::PENDING_BYTES + room))
            .expect("valid water marks");
        let options = ChannelOptions { water_marks, ..ChannelOptions::default() };
        let mut fixture = holder_fixture(Embedded::builder().options(options));
        let written = fixture.write_outbound(region());
        ask(&mut fixture, move |holder, ctx| {
            let whole = if room > 100 { 0 } else { FileRegion::PENDING_BYTES };
            assert_eq!(holder.queue.write_part(ctx, 100), Some(whole));
            holder.queue.write_flushed(ctx);
            ctx.flush();
        });
        let sent = std::iter::from_fn(|| fixture.read_outbound::<FileRegion>());
        assert_eq!(sent.map(|region| region.len()).collect::<Vec<_>>(), parts);
        written.join().unwrap();
        assert_eq!(fixture.channel().pending_bytes(), 0);
    }
}

#[test]
fn k09_a_flushed_write_that_was_cancelled_does_not_bring_an_unflushed_one_forward() {
    let mut fixture = holder_fixture(small_marks());
    let cancelled = fixture.write(bytes(10));
    assert!(cancelled.cancel());
    fixture.flush();
    let unflushed = fixture.write(bytes(11));
    ask(&mut fixture, |holder, _| {
        assert!(holder.queue.pop().is_none(), "nothing flushed is left");
        assert_eq!((holder.queue.len(), holder.queue.flushed(), holder.queue.bytes()), (1, 0, 11));
        let (msg, done) = holder.queue.pop().expect("the unflushed write");
        assert_eq!(msg.size_hint(), 11);
        done.succeed();
    });
    assert!(unflushed.join().is_ok());
}

#[test]
fn k09_a_cancelled_write_leaves_the_queue_without_being_sent() {
    let mut fixture = holder_fixture(small_marks());
    let writes = [fixture.write(bytes(10)), fixture.write(bytes(11)), fixture.write(bytes(12))];
    assert!(writes[0].cancel() && writes[1].cancel());
    ask(&mut fixture, |holder, ctx| {
        assert_eq!(holder.queue.write_part(ctx, 4), Some(10), "left to the channel's buffer");
        let (msg, done) = holder.queue.pop().expect("the third write");
        assert_eq!(msg.size_hint(), 12);
        ctx.write_and_flush_with(msg, done);
    });
    assert_eq!(fixture.sent(), ["xxxxxxxxxxxx"]);
    assert_eq!(fixture.channel().pending_bytes(), 0);
}

proptest! {
    /// Whatever a handler does with the queue, the bytes come out in order, each once, and the count is exact.
    #[test]
    fn k09_a_queue_keeps_order_flush_marks_and_count(
        steps in proptest::collection::vec((0_u8..6, 1_usize..9), 1..40)
    ) {
        let options = ChannelOptions::default();
        let mut fixture = holder_fixture(Embedded::builder().options(options).stream());
        let (mut next, mut expected) = (0_u8, Vec::new());
        for (step, n) in steps {
            match step {
                0 | 1 => {
                    let msg: Vec<u8> = (0..n).map(|i| next.wrapping_add(i as u8)).collect();
                    next = next.wrapping_add(n as u8);
                    expected.extend_from_slice(&msg);
                    drop(fixture.write(Bytes::from(msg)));
                }
                2 => fixture.flush(),
                3 => ask(&mut fixture, |holder, ctx| _ = holder.queue.write_next(ctx)),
                4 => ask(&mut fixture, move |holder, ctx| _ = holder.queue.write_part(ctx, n)),
                _ => ask(&mut fixture, |holder, ctx| holder.queue.write_flushed(ctx)),
            }
            let buffered = fixture.channel().pending_bytes();
            ask(&mut fixture, move |holder, _| {
                let queue = &holder.queue;
                assert!(queue.flushed() <= queue.len() && queue.bytes() <= buffered);
                assert_eq!(queue.is_empty(), queue.bytes() == 0);
            });
        }
        fixture.with_pipeline(|pipeline| pipeline.edit(|edit| edit.remove("holder")));
        fixture.run();
        fixture.flush();
        let mut sent = Vec::new();
        while let Some(bytes) = fixture.read_outbound::<Bytes>() {
            sent.extend_from_slice(&bytes);
        }
        prop_assert_eq!(sent, expected);
        prop_assert_eq!(fixture.channel().pending_bytes(), 0);
    }
}
