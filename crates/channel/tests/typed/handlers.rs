//! Typed handlers: one direction and one type; everything else passes.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{
    Address, Completion, ConnectTarget, Ctx, Events, Handler, HandlerResult, In, InboundHandler,
    Msg, Out, OutboundHandler, Types,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

type Log = Rc<RefCell<Vec<&'static str>>>;

/// Adds one to numbers in either direction.
struct Increment;

impl InboundHandler for Increment {
    type In = u32;

    fn on_read(&mut self, ctx: &Ctx<'_>, number: u32) -> HandlerResult {
        ctx.fire_read(number + 1);
        Ok(())
    }
}

impl OutboundHandler for Increment {
    type In = u32;

    fn write(&mut self, ctx: &Ctx<'_>, number: u32, done: &mut Completion) -> HandlerResult {
        ctx.write_with(number + 1, done.take());
        Ok(())
    }
}

#[test]
fn c06_messages_of_other_types_pass_a_typed_handler_unchanged() {
    let mut channel = Embedded::new(|edit| {
        edit.add_last("in", In(Increment))?;
        edit.add_last("out", Out(Increment))?;
        Ok(())
    })
    .unwrap();
    let text = String::from("text");
    let at = text.as_ptr();
    channel.write_inbound_all([Msg::from(1u32), text.into(), Bytes::from_static(b"b").into()]);
    assert_eq!(channel.read_inbound::<u32>(), Some(2), "by the inbound one alone");
    let text = channel.read_inbound::<String>().unwrap();
    assert_eq!((text.as_ptr(), &*text), (at, "text"));
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "b");

    let (number, text) = channel
        .on_loop(|channel| (channel.write(1u32), channel.write_and_flush(String::from("text"))));
    channel.run();
    assert!(number.join().is_ok() && text.join().is_ok());
    assert_eq!(channel.read_outbound::<u32>(), Some(2), "by the outbound one alone");
    assert_eq!(channel.read_outbound::<String>().unwrap(), "text");
}

/// Declares interest in an event of the other direction, and not in its own messages.
struct InterestedInOtherDirection;

impl InboundHandler for InterestedInOtherDirection {
    type In = u32;

    fn interest(&self) -> Events {
        Events::WRITE | Events::ACTIVE
    }

    fn on_read(&mut self, _: &Ctx<'_>, _: u32) -> HandlerResult {
        Ok(())
    }
}

impl OutboundHandler for InterestedInOtherDirection {
    type In = u32;

    fn interest(&self) -> Events {
        Events::READ | Events::FLUSH
    }

    fn write(&mut self, _: &Ctx<'_>, _: u32, _: &mut Completion) -> HandlerResult {
        Ok(())
    }
}

#[test]
fn c04_a_typed_handler_is_called_in_its_own_direction_only() {
    assert_eq!(In(Increment).interest(), Events::INBOUND);
    assert_eq!(Out(Increment).interest(), Events::OUTBOUND);
    assert_eq!(In(InterestedInOtherDirection).interest(), Events::ACTIVE | Events::READ);
    assert_eq!(Out(InterestedInOtherDirection).interest(), Events::FLUSH | Events::WRITE);
}

/// Logs every call and does what the default method does.
struct RecordingHandler(Log);

impl RecordingHandler {
    fn note(&self, what: &'static str) -> HandlerResult {
        self.0.borrow_mut().push(what);
        Ok(())
    }
}

impl InboundHandler for RecordingHandler {
    type In = u32;

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.schedule(Duration::from_millis(5), 1);
        self.note("added")
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.0.borrow_mut().push("removed");
    }

    fn on_timer(&mut self, _: &Ctx<'_>, _: u32) -> HandlerResult {
        self.note("timer")
    }

    fn on_registered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_registered();
        self.note("registered")
    }

    fn on_unregistered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_unregistered();
        self.note("unregistered")
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_active();
        self.note("active")
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_inactive();
        self.note("inactive")
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, number: u32) -> HandlerResult {
        ctx.fire_read(number);
        self.note("read")
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_read_complete();
        self.note("read complete")
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        ctx.fire_user_event(event);
        self.note("user event")
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_writability_changed();
        self.note("writability")
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        ctx.fire_error(error);
        self.note("error")
    }
}

impl OutboundHandler for RecordingHandler {
    type In = u32;

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.schedule(Duration::from_millis(5), 1);
        self.note("added")
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.0.borrow_mut().push("removed");
    }

    fn on_timer(&mut self, _: &Ctx<'_>, _: u32) -> HandlerResult {
        self.note("timer")
    }

    fn write(&mut self, ctx: &Ctx<'_>, number: u32, done: &mut Completion) -> HandlerResult {
        ctx.write_with(number, done.take());
        self.note("write")
    }

    fn bind(&mut self, ctx: &Ctx<'_>, to: Address, done: &mut Completion) -> HandlerResult {
        ctx.bind_with(to, done.take());
        self.note("bind")
    }

    fn connect(
        &mut self,
        ctx: &Ctx<'_>,
        to: ConnectTarget,
        done: &mut Completion,
    ) -> HandlerResult {
        ctx.connect_with(to, done.take());
        self.note("connect")
    }

    fn disconnect(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        ctx.disconnect_with(done.take());
        self.note("disconnect")
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        ctx.close_with(done.take());
        self.note("close")
    }

    fn deregister(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        ctx.deregister_with(done.take());
        self.note("deregister")
    }

    fn read(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.read();
        self.note("begin read")
    }

    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        self.note("flush")
    }
}

/// Builds an unconnected channel with the handlers that `handler` adds, and returns their log with it.
fn channel_with_recorder(
    handler: impl FnOnce(Log) -> Box<dyn FnOnce(&mut waterwheel_channel::Edit<'_>)>,
) -> (Log, Embedded) {
    let log = Log::default();
    let add = handler(log.clone());
    let channel = Embedded::builder().unconnected().build(|edit| {
        add(edit);
        Ok(())
    });
    (log, channel.unwrap())
}

fn address() -> Address {
    Address::from(std::net::SocketAddr::from(([127, 0, 0, 1], 7)))
}

#[test]
fn c04_every_inbound_event_reaches_a_typed_handler_and_passes_one_with_default_methods() {
    let (log, mut channel) = channel_with_recorder(|log| {
        Box::new(|edit| {
            edit.add_last("plain", In(Increment)).unwrap();
            edit.add_last("noted", In(RecordingHandler(log))).unwrap();
        })
    });
    assert_eq!(log.take(), ["added", "registered"]);
    channel.on_loop(|channel| drop(channel.connect(address())));
    channel.run();
    channel.write_inbound(1u32);
    channel.on_loop(|channel| channel.fire_user_event(()));
    channel.with_pipeline(|it| it.fire_error(Error::new("wrong")));
    assert_eq!(log.take(), ["active", "read", "read complete", "user event", "error"]);
    channel.set_room(0);
    channel.on_loop(|channel| channel.send(Bytes::from(vec![0; 100_000])));
    channel.run();
    channel.advance(Duration::from_millis(5));
    assert_eq!(log.take(), ["writability", "timer"]);
    channel.close();
    assert_eq!(log.take().last(), Some(&"removed"));
}

#[test]
fn c04_every_outbound_event_reaches_a_typed_handler_and_passes_one_with_default_methods() {
    let (log, mut channel) = channel_with_recorder(|log| {
        Box::new(|edit| {
            edit.add_last("noted", Out(RecordingHandler(log))).unwrap();
            edit.add_last("plain", Out(Increment)).unwrap();
        })
    });
    channel.on_loop(|channel| drop(channel.connect(address())));
    channel.run();
    assert_eq!(log.take(), ["added", "connect", "begin read"]);
    channel.on_loop(|channel| drop(channel.write_and_flush(1u32)));
    channel.on_loop(|channel| drop(channel.bind(address())));
    channel.advance(Duration::from_millis(5));
    assert_eq!(log.take(), ["write", "flush", "bind", "timer"]);
    channel.on_loop(|channel| drop(channel.deregister()));
    channel.on_loop(|channel| drop(channel.disconnect()));
    channel.run();
    assert_eq!(log.take()[..2], ["deregister", "disconnect"]);

    let (log, mut channel) = channel_with_recorder(|log| {
        Box::new(|edit| {
            edit.add_last("noted", Out(RecordingHandler(log))).unwrap();
            edit.add_last("plain", Out(Increment)).unwrap();
        })
    });
    channel.close();
    assert_eq!(log.take(), ["added", "close", "removed"]);
}

/// Accepts numbers, fires text, answers with flags.
struct Typed;

impl InboundHandler for Typed {
    type In = u32;

    fn fires(&self) -> Types {
        Types::of::<String>()
    }

    fn answers(&self) -> Types {
        Types::of::<bool>()
    }

    fn on_read(&mut self, _: &Ctx<'_>, _: u32) -> HandlerResult {
        Ok(())
    }
}

/// Writes flags as bytes.
struct Flags;

impl OutboundHandler for Flags {
    type In = bool;

    fn emits(&self) -> Types {
        Types::of::<Bytes>()
    }

    fn write(&mut self, ctx: &Ctx<'_>, flag: bool, done: &mut Completion) -> HandlerResult {
        ctx.write_with(Bytes::from_static(if flag { b"1" } else { b"0" }), done.take());
        Ok(())
    }
}

/// Turns bytes into numbers.
struct Lengths;

impl InboundHandler for Lengths {
    type In = Bytes;

    fn fires(&self) -> Types {
        Types::of::<u32>()
    }

    fn on_read(&mut self, _: &Ctx<'_>, _: Bytes) -> HandlerResult {
        Ok(())
    }
}

fn refusal(init: impl FnOnce(&mut waterwheel_channel::Edit<'_>) -> Result<(), Error>) -> String {
    Embedded::builder().stream().build(init).unwrap_err().to_string()
}

#[test]
fn c06_typed_handlers_that_do_not_fit_are_refused_with_both_names() {
    let wrong = refusal(|edit| {
        edit.add_last("lengths", In(Lengths))?;
        edit.add_last("flags", Out(Flags))?;
        edit.add_last("typed", In(Typed))?;
        edit.add_last("again", In(Typed))?;
        Ok(())
    });
    assert_eq!(wrong, "`again` accepts u32 but `typed` before it emits alloc::string::String");
    let wrong = refusal(|edit| {
        edit.add_last("lengths", In(Lengths))?;
        edit.add_last("typed", In(Typed))?;
        Ok(())
    });
    assert_eq!(
        wrong,
        "`embedded` accepts bytes::bytes::Bytes or waterwheel_channel::payload::file_region::FileRegion but `typed` after it emits bool"
    );
}

#[test]
fn c06_an_edit_that_would_not_fit_leaves_the_pipeline_as_it_was() {
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_last("lengths", In(Lengths))?;
            edit.add_last("flags", Out(Flags))?;
            edit.add_last("typed", In(Typed))?;
            Ok(())
        })
        .unwrap();
    let refused = channel.with_pipeline(|it| it.remove("flags")).unwrap().unwrap_err();
    assert!(refused.to_string().contains("`typed` after it emits bool"), "{refused}");
    let refused = channel.with_pipeline(|it| it.remove("lengths")).unwrap().unwrap_err();
    assert!(refused.to_string().contains("`typed` accepts u32 but `embedded`"), "{refused}");
    let names = channel.with_pipeline(|it| it.names()).unwrap();
    assert_eq!(names, ["lengths", "flags", "typed"]);
}

/// Keeps the output open.
struct KeepOpen;

impl OutboundHandler for KeepOpen {
    type In = u32;

    fn write(&mut self, ctx: &Ctx<'_>, number: u32, done: &mut Completion) -> HandlerResult {
        ctx.write_with(number, done.take());
        Ok(())
    }

    fn shutdown_output(&mut self, _: &Ctx<'_>, _: &mut Completion) -> HandlerResult {
        Err(Error::new("it stays open"))
    }
}

#[test]
fn c10_an_outbound_handler_is_asked_before_the_output_is_shut_down() {
    let mut channel = Embedded::new(|edit| {
        edit.add_last("keep", Out(KeepOpen))?;
        Ok(())
    })
    .unwrap();
    let shut = channel.on_loop(|channel| channel.shutdown_output());
    channel.run();
    assert_eq!(shut.join().unwrap_err().to_string(), "it stays open");
}
