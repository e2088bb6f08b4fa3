//! The examples of `docs/PIPELINE.md`.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{
    Completion, Ctx, Events, Handler, HandlerResult, Msg, PipelineError, WaterMarks,
};
use waterwheel_testkit::embedded::Embedded;

type Log = Rc<RefCell<Vec<String>>>;

fn text(msg: Msg) -> String {
    msg.take().unwrap()
}

/// Splits reads into characters and sends a ping after the first.
struct Codec(Log);

impl Codec {
    fn decode(&self, ctx: &Ctx<'_>, msg: Msg) {
        for (i, part) in text(msg).chars().enumerate() {
            self.0.borrow_mut().push(format!("decode {part}"));
            ctx.fire_read(part.to_string());
            if i == 0 {
                ctx.write(String::from("ping"));
            }
        }
    }

    fn encode(&self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) {
        let part = text(msg);
        self.0.borrow_mut().push(format!("encode {part}"));
        ctx.write_with(format!("<{part}>"), done.take());
    }
}

impl Handler for Codec {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.decode(ctx, msg);
        Ok(())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        self.encode(ctx, msg, done);
        Ok(())
    }
}

struct Decoder(Codec);

impl Handler for Decoder {
    fn interest(&self) -> Events {
        Events::READ
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.decode(ctx, msg);
        Ok(())
    }
}

struct Encoder(Codec);

impl Handler for Encoder {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        self.0.encode(ctx, msg, done);
        Ok(())
    }
}

/// Answers each text in capitals.
struct App(Log);

impl Handler for App {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let part = text(msg);
        self.0.borrow_mut().push(format!("app {part}"));
        ctx.write(part.to_uppercase());
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}

fn sent(channel: &mut Embedded) -> Vec<String> {
    std::iter::from_fn(|| channel.read_outbound()).collect()
}

#[test]
fn c05_a_codec_in_one_slot_receives_deferred_writes_and_does_not_overtake_them() {
    let log = Log::default();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("codec", Codec(log.clone()))?;
        edit.add_last("app", App(log.clone()))?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(String::from("ab"));
    assert_eq!(sent(&mut channel), ["<A>", "ping", "<B>"]);
    let calls = ["decode a", "app a", "decode b", "app b", "encode A", "encode B"];
    assert_eq!(*log.borrow(), calls);
}

#[test]
fn c05_a_codec_in_two_slots_defers_nothing() {
    let log = Log::default();
    let mut channel = Embedded::new(|edit| {
        let halves = (Decoder(Codec(log.clone())), Encoder(Codec(log.clone())));
        edit.add_codec("codec", halves.0, halves.1)?;
        edit.add_last("app", App(log.clone()))?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(String::from("ab"));
    assert_eq!(sent(&mut channel), ["<A>", "ping", "<B>"]);
    let calls = ["decode a", "app a", "encode A", "decode b", "app b", "encode B"];
    assert_eq!(*log.borrow(), calls);
}

/// Passes the first character on, and the rest if the receiver removed this handler.
struct Http(Log);

impl Handler for Http {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let mut first = text(msg);
        let rest = first.split_off(1);
        ctx.fire_read(first);
        if ctx.is_removed() {
            self.0.borrow_mut().push(String::from("http hands on"));
            ctx.fire_read(rest);
        }
        Ok(())
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.0.borrow_mut().push(String::from("http removed"));
    }
}

struct Ws(Log);

impl Handler for Ws {
    fn on_added(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.0.borrow_mut().push(String::from("ws added"));
        Ok(())
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.borrow_mut().push(format!("ws {}", text(msg)));
        Ok(())
    }
}

struct Upgrades(Log);

impl Handler for Upgrades {
    fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        ctx.pipeline().replace("http", "ws", Ws(self.0.clone()))?;
        Ok(())
    }
}

#[test]
fn c05_an_upgrade_hands_the_left_over_bytes_to_the_new_handler() {
    let log = Log::default();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("http", Http(log.clone()))?;
        edit.add_last("app", Upgrades(log.clone()))?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(String::from("Urest"));
    assert_eq!(*log.borrow(), ["ws added", "http hands on", "ws rest", "http removed"]);
}

#[test]
fn c07_the_marks_are_strict_on_both_sides() {
    let mut channel = Embedded::builder().stream().build(|_| Ok(())).unwrap();
    channel.set_room(0);
    let look = |channel: &mut Embedded| {
        channel.on_loop(|channel| (channel.is_writable(), channel.bytes_before_unwritable()))
    };
    assert_eq!(look(&mut channel), (true, 65_537));
    channel.on_loop(|channel| channel.send(Bytes::from(vec![0; 65_536])));
    assert_eq!(look(&mut channel), (true, 1));
    channel.on_loop(|channel| channel.send(Bytes::from_static(b"1")));
    assert_eq!(look(&mut channel), (false, 0));
    channel.set_room(65_537 - 32_768);
    assert_eq!((channel.channel().pending_bytes(), look(&mut channel).0), (32_768, false));
    channel.set_room(1);
    assert_eq!((channel.channel().pending_bytes(), look(&mut channel).0), (32_767, true));
    assert_eq!(WaterMarks::default().hard_cap(), usize::MAX, "no cap unless asked for");
}

/// Writes through its context, through the channel, and through its context again.
struct WritesBothWays;

impl Handler for WritesBothWays {
    fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        ctx.write(String::from("context"));
        ctx.channel().send(String::from("channel"));
        ctx.write_and_flush(String::from("context again"));
        Ok(())
    }
}

#[test]
fn c05_writes_by_context_and_by_channel_keep_their_order() {
    let mut channel = Embedded::new(|edit| {
        edit.add_last("mixes", WritesBothWays)?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(());
    assert_eq!(sent(&mut channel), ["context", "channel", "context again"]);
}

/// Closes the channel in `on_registered`, and keeps a log.
struct ClosesWhenRegistered(Log);

impl ClosesWhenRegistered {
    fn log(&self, what: &str) -> HandlerResult {
        self.0.borrow_mut().push(what.to_owned());
        Ok(())
    }
}

impl Handler for ClosesWhenRegistered {
    fn on_registered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.log("registered")?;
        ctx.close();
        self.log("goes on")
    }

    fn on_active(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.log("active")
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.log("inactive")
    }

    fn on_unregistered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.log("unregistered")
    }
}

#[test]
fn c02_on_active_comes_even_if_the_channel_is_closed_in_on_registered() {
    let log = Log::default();
    let channel = Embedded::new(|edit| {
        edit.add_last("hasty", ClosesWhenRegistered(log.clone()))?;
        Ok(())
    });
    assert!(!channel.unwrap().channel().is_open());
    assert_eq!(*log.borrow(), ["registered", "goes on", "active", "inactive", "unregistered"]);
}

/// Refuses to be added, or logs that it was added and removed.
struct MayRefuse(Log, bool);

impl Handler for MayRefuse {
    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.borrow_mut().push(format!("{} added", ctx.name()));
        if self.1 { Err(PipelineError::Closed.into()) } else { Ok(()) }
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.0.borrow_mut().push(format!("{} removed", ctx.name()));
    }
}

#[test]
fn c03_a_handler_that_refuses_to_be_added_is_removed_and_the_rest_of_the_edit_stays() {
    let log = Log::default();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("old", MayRefuse(log.clone(), false))?;
        Ok(())
    })
    .unwrap();
    log.borrow_mut().clear();
    let inside = log.clone();
    let edited = channel.with_pipeline(move |pipeline| {
        let edited = pipeline.edit(|edit| {
            edit.remove("old")?;
            edit.add_last("refuses", MayRefuse(inside.clone(), true))?;
            edit.add_last("stays", MayRefuse(inside.clone(), false))
        });
        (edited.unwrap_err().to_string(), pipeline.names())
    });
    let (error, names) = edited.unwrap();
    assert!(error.starts_with("`refuses` could not be added"), "{error}");
    assert_eq!(names, ["stays"]);
    let told = ["old removed", "refuses added", "refuses removed", "stays added"];
    assert_eq!(*log.borrow(), told, "in the order of the changes");
}
