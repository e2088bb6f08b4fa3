//! Rule 9: when flushed messages are written.

use bytes::Bytes;
use waterwheel_channel::{Completion, Ctx, Events};
use waterwheel_executor::Error;
use waterwheel_testkit::recorder::{Log, RecordedMethod};

use crate::support::{PipelineFixture, bytes, started_fixture, text};

/// Builds a channel whose handler calls `answer` for each message.
fn answering(answer: impl Fn(&Ctx<'_>, &Log) -> Result<(), Error> + 'static) -> PipelineFixture {
    let mut fixture = started_fixture(|edit, log| {
        let told = log.clone();
        edit.add_last("app", Log::new().recorder().reading(move |ctx, _| answer(ctx, &told)))?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    fixture
}

#[test]
fn c05_rule_09_three_answers_are_one_write() {
    let mut fixture = answering(|ctx, _| {
        for answer in ["1", "2", "3"] {
            ctx.write_and_flush(text(answer));
        }
        Ok(())
    });
    assert_eq!((fixture.sent().join(" "), fixture.writes()), ("1 2 3".to_owned(), 1));
}

#[test]
fn c05_three_pipelined_requests_are_answered_in_one_write() {
    let mut fixture = started_fixture(|edit, log| {
        let decoder = log.recorder().interest(Events::READ).reading(|ctx, msg| {
            let bytes = msg.take::<Bytes>().expect("the message is bytes");
            for request in bytes.split(|byte| *byte == b' ') {
                ctx.fire_read(Bytes::copy_from_slice(request));
            }
            Ok(())
        });
        edit.add_codec("http", decoder, log.recorder().interest(Events::WRITE))?;
        let app = log.recorder().interest(Events::READ | Events::READ_COMPLETE);
        edit.add_last(
            "app",
            app.reading(|ctx, msg| {
                ctx.write_and_flush(msg);
                Ok(())
            }),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("1 2 3"));
    assert_eq!(
        fixture.log.take(),
        [
            "http/decoder on_read 1 2 3",
            "app on_read 1",
            "http/encoder write 1",
            "app on_read 2",
            "http/encoder write 2",
            "app on_read 3",
            "http/encoder write 3",
            "app on_read_complete",
        ]
    );
    assert_eq!((fixture.sent().join(" "), fixture.writes()), ("1 2 3".to_owned(), 1));
}

#[test]
fn c05_rule_09_nothing_is_written_before_the_outermost_call_returns() {
    let mut fixture = started_fixture(|_, _| Ok(()));
    let (log, other) = (fixture.log.clone(), fixture.channel().clone());
    let caller = fixture.another("caller", |edit| {
        edit.add_last(
            "caller",
            log.recorder().at(RecordedMethod::UserEvent, move |ctx| {
                other.send(text("1"));
                assert_eq!(
                    other.pending_bytes(),
                    1,
                    "it belongs to the call into the other channel"
                );
                ctx.write_and_flush(text("2"));
                Ok(())
            }),
        )?;
        Ok(())
    });
    let caller = caller.expect("the channel can be built");
    fixture.on_loop(|_| caller.fire_user_event(text("go")));
    assert_eq!(fixture.sent(), ["1"]);
    assert_eq!(fixture.log.take().last().map(String::as_str), Some("caller sends 2"));
}

#[test]
fn c05_rule_09_a_flush_above_the_high_water_mark_is_written_at_once() {
    let mut fixture = answering(|ctx, log| {
        let channel = ctx.channel();
        ctx.write_and_flush(bytes(64 * 1024));
        log.push(format!("at the mark {}", channel.pending_bytes()));
        ctx.write_and_flush(bytes(1));
        log.push(format!("above it {}", channel.pending_bytes()));
        Ok(())
    });
    assert_eq!(fixture.log.take(), ["at the mark 65536", "above it 0"]);
    assert_eq!((fixture.sent().len(), fixture.writes()), (2, 1));
}

#[test]
fn c05_rule_09_flush_now_does_not_wait() {
    let mut fixture = answering(|ctx, log| {
        ctx.write_and_flush(text("1"));
        log.push(format!("{} pending", ctx.channel().pending_bytes()));
        ctx.write(text("2"));
        ctx.flush_now();
        log.push(format!("{} pending", ctx.channel().pending_bytes()));
        ctx.write_and_flush(text("3"));
        Ok(())
    });
    assert_eq!(fixture.log.take(), ["1 pending", "0 pending"]);
    assert_eq!((fixture.sent().join(" "), fixture.writes()), ("1 2 3".to_owned(), 2));
}

#[test]
fn c05_a_write_before_a_close_is_delivered() {
    let mut fixture = answering(|ctx, log| {
        ctx.write_with(text("1"), log.completion("flushed"));
        ctx.flush();
        ctx.write_with(text("2"), log.completion("not flushed"));
        ctx.close_with(log.completion("close"));
        Ok(())
    });
    assert_eq!(
        fixture.log.take(),
        ["flushed ok", "not flushed failed: the channel is closed", "close ok"]
    );
    assert_eq!(fixture.sent(), ["1"]);
}

#[test]
fn c05_rule_09_every_operation_that_ends_the_channel_flushes_first() {
    let ends: [fn(&Ctx<'_>); 5] = [
        |ctx| ctx.close(),
        |ctx| ctx.disconnect(),
        |ctx| ctx.deregister(),
        |ctx| drop(ctx.channel().close()),
        |ctx| ctx.pipeline().close_with(Completion::none()),
    ];
    for (at, end) in ends.into_iter().enumerate() {
        let mut fixture = answering(move |ctx, _| {
            ctx.write_and_flush(text("1"));
            end(ctx);
            ctx.write_and_flush(text("2"));
            Ok(())
        });
        // A channel that was only deregistered can still write.
        let expected = if at == 2 { vec!["1", "2"] } else { vec!["1"] };
        assert_eq!(fixture.sent(), expected, "at {at}");
    }
}

#[test]
fn c05_from_another_thread_a_write_before_a_close_is_delivered() {
    let mut fixture = started_fixture(|_, _| Ok(()));
    let channel = fixture.channel().clone();
    let asked = std::thread::spawn(move || (channel.write_and_flush(text("1")), channel.close()));
    let (mut written, mut closed) = asked.join().expect("the thread does not panic");
    fixture.run();
    assert!(
        matches!(written.try_take(), Some(Ok(()))) && matches!(closed.try_take(), Some(Ok(())))
    );
    assert_eq!(fixture.sent(), ["1"]);
}
