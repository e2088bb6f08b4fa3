//! C05: a protocol upgrade with left-over bytes, in a hand-written decoder.

use bytes::{Buf, Bytes, BytesMut};
use waterwheel_channel::{Ctx, Events, Handler, HandlerResult, Msg};
use waterwheel_testkit::recorder::Log;

use crate::support::{PipelineFixture, started_fixture, text};

/// Splits its input into lines. When it is removed it passes its unread bytes on.
#[derive(Default)]
struct Lines {
    unread: BytesMut,
}

impl Lines {
    fn hand_on(&mut self, ctx: &Ctx<'_>) {
        if !self.unread.is_empty() {
            ctx.fire_read(std::mem::take(&mut self.unread).freeze());
        }
    }
}

impl Handler for Lines {
    fn interest(&self) -> Events {
        Events::READ
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.unread.extend_from_slice(&msg.take::<Bytes>().expect("the message is bytes"));
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line = self.unread.split_to(end).freeze();
            self.unread.advance(1);
            ctx.fire_read(line);
            if ctx.is_removed() {
                break;
            }
        }
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.hand_on(ctx);
    }
}

/// Decodes lines until one requests the other protocol: then `raw` replaces the decoder.
fn upgrading(in_place: bool) -> PipelineFixture {
    started_fixture(|edit, log| {
        edit.add_last("lines", Lines::default())?;
        let raw: Log = log.clone();
        edit.add_last(
            "app",
            log.recorder().interest(Events::READ).reading(move |ctx, msg| {
                if msg.get::<Bytes>().is_some_and(|line| line == "upgrade") {
                    ctx.write_and_flush(text("switching"));
                    let new = raw.recorder().interest(Events::READ);
                    if in_place {
                        ctx.pipeline().replace("lines", "raw", new)?;
                    } else {
                        ctx.pipeline().edit(|edit| {
                            edit.add_after("app", "raw", new)?;
                            edit.remove("lines")?;
                            edit.remove("app")
                        })?;
                    }
                    return Ok(());
                }
                ctx.fire_read(msg);
                Ok(())
            }),
        )?;
        Ok(())
    })
}

#[test]
fn c05_an_upgrade_loses_no_bytes() {
    let mut fixture = upgrading(false);
    fixture.write_inbound(text("a\nupgrade\nraw\nby"));
    assert_eq!(
        fixture.log.take(),
        [
            "app on_read a",
            "app on_read upgrade",
            "raw on_added",
            "app on_removed", // `app` has returned; `lines` has not.
            "app dropped",
            "raw on_read raw\\nby",
        ]
    );
    fixture.write_inbound(text("tes\n"));
    assert_eq!(fixture.log.take(), ["raw on_read tes\\n"]);
    assert_eq!(fixture.passed(), ["a", "raw\\nby", "tes\\n"]);
    assert_eq!(
        (fixture.sent(), fixture.names()),
        (vec!["switching".into()], vec!["raw".to_owned()])
    );
}

#[test]
fn c05_an_upgrade_in_place_hands_left_over_bytes_to_the_successor() {
    let mut fixture = upgrading(true);
    fixture.write_inbound(text("upgrade\nrest"));
    assert_eq!(
        fixture.log.take(),
        ["app on_read upgrade", "raw on_added", "raw on_read rest", "app on_read rest"]
    );
    assert_eq!(fixture.names(), ["raw", "app"]);
}

#[test]
fn c05_an_upgrade_works_byte_by_byte() {
    let mut fixture = upgrading(false);
    for byte in "a\nupgrade\nxy".bytes() {
        fixture.write_inbound(Bytes::copy_from_slice(&[byte]));
    }
    assert_eq!(fixture.passed(), ["a", "x", "y"]);
}

#[test]
fn c05_edits_while_data_flows_lose_nothing() {
    // Each message adds a handler before the handler that reads it, and removes the handler added last.
    let mut fixture = started_fixture(|edit, log| {
        let more = log.clone();
        let mut last = None;
        edit.add_last(
            "app",
            log.recorder().interest(Events::READ).reading(move |ctx, msg| {
                let pipeline = ctx.pipeline();
                if let Some(slot) = last.take() {
                    pipeline.remove(slot)?;
                }
                let passing = more.recorder().interest(Events::READ | Events::WRITE);
                last =
                    Some(pipeline.add_before("app", waterwheel_channel::Name::auto(), passing)?);
                ctx.write_and_flush(msg);
                Ok(())
            }),
        )?;
        Ok(())
    });
    let texts = ["1", "2", "3", "4"];
    fixture.write_inbound_all(texts.map(|it| text(it).into()));
    assert_eq!(fixture.sent(), texts);
    let lines = fixture.log.take();
    assert_eq!(
        lines[..8],
        [
            "app on_read 1",
            "Recorder#0 on_added",
            "Recorder#0 write 1",
            "Recorder#0 on_read 2",
            "app on_read 2",
            "Recorder#1 on_added",
            "Recorder#1 write 2", // Recorder#0 runs and was removed: the write passes it.
            "Recorder#0 on_removed",
        ]
    );
}
