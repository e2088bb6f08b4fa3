//! An embedded channel whose decoder makes several messages of one, with flow control and an application after it.

use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use waterwheel_channel::{
    ChannelOptions, Ctx, Events, HalfClosed, Handler, HandlerResult, In, InboundHandler, Message,
    Msg,
};
use waterwheel_executor::Error;
use waterwheel_handlers::FlowControl;
use waterwheel_testkit::embedded::Embedded;

/// The messages of one read: a number for each, an error for zero.
pub(crate) struct Batch(pub(crate) Vec<u32>);

impl Message for Batch {}

pub(crate) fn batch(numbers: impl IntoIterator<Item = u32>) -> Batch {
    Batch(numbers.into_iter().collect())
}

/// Makes the messages of a batch, as a decoder does.
struct Unpack;

impl InboundHandler for Unpack {
    type In = Batch;

    fn on_read(&mut self, ctx: &Ctx<'_>, batch: Batch) -> HandlerResult {
        for number in batch.0 {
            match number {
                0 => ctx.fire_error(Error::new("bad")),
                number => ctx.fire_read(number),
            }
        }
        Ok(())
    }
}

/// Writes down what it is called for. It does something at a message if the test says so.
#[derive(Clone, Default)]
pub(crate) struct App {
    pub(crate) seen: Rc<RefCell<Vec<String>>>,
    at_message: Rc<RefCell<Option<AtMessage>>>,
    /// True if the application requests the next message in `on_read_complete`.
    pub(crate) reads_on: Rc<Cell<bool>>,
}

type AtMessage = Box<dyn FnMut(&Ctx<'_>, u32)>;

impl Handler for App {
    fn interest(&self) -> Events {
        Events::INBOUND.without(Events::REGISTERED | Events::ACTIVE | Events::UNREGISTERED)
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let number = *msg.get::<u32>().expect("a number");
        self.seen.borrow_mut().push(number.to_string());
        let act = self.at_message.take();
        if let Some(mut act) = act {
            act(ctx, number);
            *self.at_message.borrow_mut() = Some(act);
        }
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.seen.borrow_mut().push("/".to_owned());
        if self.reads_on.get() {
            ctx.read();
        }
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.seen.borrow_mut().push(error.to_string());
        Ok(())
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        let name = if event.is::<HalfClosed>() { "end" } else { "event" };
        self.seen.borrow_mut().push(name.to_owned());
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.seen.borrow_mut().push("inactive".to_owned());
        Ok(())
    }
}

pub(crate) struct Bench {
    channel: Embedded,
    pub(crate) app: App,
}

/// A channel without auto-read; half-closure is allowed.
pub(crate) fn bench() -> Bench {
    bench_with(ChannelOptions { auto_read: false, ..ChannelOptions::default() })
}

pub(crate) fn bench_with(options: ChannelOptions) -> Bench {
    let app = App::default();
    let handler = app.clone();
    let options = ChannelOptions { allow_half_closure: true, ..options };
    let channel = Embedded::builder().options(options).build(|edit| {
        edit.add_last("unpack", In(Unpack))?;
        edit.add_last("flow", FlowControl::new())?;
        edit.add_last("app", handler)?;
        Ok(())
    });
    Bench { channel: channel.unwrap(), app }
}

impl Bench {
    /// Sends a batch as one read.
    pub(crate) fn send(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.channel.write_inbound(Msg::new(batch(numbers)));
    }

    /// Takes the calls since the last time: numbers, `/` for the end of a round, `end`, `inactive`, errors.
    pub(crate) fn seen(&mut self) -> String {
        self.app.seen.take().join(" ")
    }

    /// Calls `f` with each message, in `on_read` of the application.
    pub(crate) fn at_message(&mut self, f: impl FnMut(&Ctx<'_>, u32) + 'static) {
        *self.app.at_message.borrow_mut() = Some(Box::new(f));
    }

    pub(crate) fn set_auto_read(&mut self, on: bool) {
        self.channel.on_loop(|channel| channel.set_auto_read(on));
        self.channel.run();
    }
}

impl Deref for Bench {
    type Target = Embedded;

    fn deref(&self) -> &Embedded {
        &self.channel
    }
}

impl DerefMut for Bench {
    fn deref_mut(&mut self) -> &mut Embedded {
        &mut self.channel
    }
}
