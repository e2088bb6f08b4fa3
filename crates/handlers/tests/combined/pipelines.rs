//! Pipelines of stock handlers in any order, and the application at their end.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use waterwheel_channel::{
    Channel, Completion, Ctx, Decode, Decoder, Edit, Encode, Encoder, Events, Handler,
    HandlerResult, Message, Msg,
};
use waterwheel_executor::Error;
use waterwheel_handlers::{
    Capture, CaptureFile, ChunkedWriter, FlowControl, FlushConsolidation, IdleHandler, ReadTimeout,
    TrafficLimiter, TrafficRate, TrafficShaping, WireLog, WriteTimeout,
};

use crate::model::{ModelWrite, Outcome};

/// A stock handler of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stock {
    Shaping,
    SecondShaping,
    Codec,
    Chunked,
    WriteTimeout,
    ReadTimeout,
    Idle,
    FlowControl,
    Flushes,
    WireLog,
    Capture,
    Saboteur,
}

pub(crate) const ALL: [Stock; 12] = [
    Stock::Shaping,
    Stock::SecondShaping,
    Stock::Codec,
    Stock::Chunked,
    Stock::WriteTimeout,
    Stock::ReadTimeout,
    Stock::Idle,
    Stock::FlowControl,
    Stock::Flushes,
    Stock::WireLog,
    Stock::Capture,
    Stock::Saboteur,
];

impl Stock {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stock::Shaping => "shaping",
            Stock::SecondShaping => "second shaping",
            Stock::Codec => "codec",
            Stock::Chunked => "chunked",
            Stock::WriteTimeout => "write timeout",
            Stock::ReadTimeout => "read timeout",
            Stock::Idle => "idle",
            Stock::FlowControl => "flow control",
            Stock::Flushes => "flushes",
            Stock::WireLog => "wire log",
            Stock::Capture => "capture",
            Stock::Saboteur => "saboteur",
        }
    }
}

/// Orders of some of the handlers, from the transport to the application. The codec is nearer to the transport than the
/// chunked writer, because it takes bytes only.
pub(crate) fn any_order() -> impl Strategy<Value = Vec<Stock>> {
    (Just(ALL.to_vec()).prop_shuffle(), prop::collection::vec(any::<bool>(), ALL.len())).prop_map(
        |(order, used)| {
            let used = |stock: &Stock| *stock == Stock::Chunked || used[*stock as usize];
            let mut order: Vec<_> = order.into_iter().filter(used).collect();
            let at = |order: &[Stock], stock| order.iter().position(|it| *it == stock);
            if let (Some(codec), Some(chunked)) =
                (at(&order, Stock::Codec), at(&order, Stock::Chunked))
                && codec > chunked
            {
                order.swap(codec, chunked);
            }
            order
        },
    )
}

/// The state that the handlers of a test share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) shaping: TrafficShaping,
    pub(crate) second: TrafficShaping,
    pub(crate) group: TrafficLimiter,
    pub(crate) capture: CaptureFile,
    pub(crate) app: Rc<RefCell<AppState>>,
    write_timeout: Duration,
}

impl Shared {
    pub(crate) fn new(rate: Option<u64>, write_timeout: Duration) -> Self {
        let group = TrafficLimiter::new(TrafficRate::per_second(60_000));
        let mut shaping = TrafficShaping::builder().write_group(&group).read_group(&group);
        if let Some(rate) = rate {
            let rate = TrafficRate::per_second(rate);
            shaping = shaping.channel_write(rate).channel_read(rate);
        }
        let second = TrafficShaping::builder().write_group(&group);
        let second = second.longest_delay(Duration::from_millis(700));
        Self {
            shaping: shaping.build().unwrap(),
            second: second.build().unwrap(),
            group,
            capture: CaptureFile::builder().write_to(io::sink()).unwrap(),
            app: Rc::default(),
            write_timeout,
        }
    }

    /// Adds the handlers, and the application after them.
    pub(crate) fn build(&self, order: &[Stock], edit: &mut Edit<'_>) -> Result<(), Error> {
        const SECOND: Duration = Duration::from_secs(1);
        for stock in order {
            let name = stock.name();
            match stock {
                Stock::Shaping => edit.add_last(name, self.shaping.handler())?,
                Stock::SecondShaping => edit.add_last(name, self.second.handler())?,
                Stock::Codec => {
                    edit.add_last("decoder", Decode::new(Triples))?;
                    edit.add_last(name, Encode::new(Copies))?
                }
                Stock::Chunked => edit.add_last(name, ChunkedWriter::new())?,
                Stock::WriteTimeout => {
                    edit.add_last(name, WriteTimeout::new(self.write_timeout)?)?
                }
                Stock::ReadTimeout => edit.add_last(name, ReadTimeout::new(120 * SECOND)?)?,
                Stock::Idle => {
                    let idle = IdleHandler::builder().reader(SECOND / 3).writer(SECOND / 4);
                    edit.add_last(name, idle.all(SECOND / 5).build()?)?
                }
                Stock::FlowControl => edit.add_last(name, FlowControl::new())?,
                Stock::Flushes => edit.add_last(name, FlushConsolidation::new())?,
                Stock::WireLog => edit.add_last(name, WireLog::new())?,
                Stock::Capture => edit.add_last(name, Capture::stream(&self.capture))?,
                Stock::Saboteur => edit.add_last(name, Saboteur { is_armed: false })?,
            };
        }
        edit.add_last("app", App(self.app.clone()))?;
        Ok(())
    }
}

/// Cuts the input into messages of three bytes.
struct Triples;

impl Decoder for Triples {
    type Out = Bytes;

    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        Ok((buf.len() >= 3).then(|| buf.split_to(3)))
    }

    fn decode_last(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        Ok((!buf.is_empty()).then(|| buf.split_to(buf.len().min(3))))
    }
}

/// Encodes bytes as themselves.
struct Copies;

impl Encoder for Copies {
    type In = Bytes;

    fn encode(&mut self, msg: Bytes, dst: &mut BytesMut) -> HandlerResult {
        dst.extend_from_slice(&msg);
        Ok(())
    }
}

/// An act of sabotage, as a user event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sabotage {
    Panic,
    /// Panics in the next write or read.
    PanicLater,
    Abort,
    Close,
    RemoveItself,
}

impl Message for Sabotage {}

/// A handler in the middle that panics or ends the channel when told to.
struct Saboteur {
    is_armed: bool,
}

impl Handler for Saboteur {
    fn interest(&self) -> Events {
        Events::USER_EVENT | Events::WRITE | Events::READ
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        assert!(!self.is_armed, "sabotage");
        ctx.write_with(msg, done.take());
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        assert!(!self.is_armed, "sabotage");
        ctx.fire_read(msg);
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        match event.get::<Sabotage>() {
            Some(Sabotage::Panic) => panic!("sabotage"),
            Some(Sabotage::PanicLater) => self.is_armed = true,
            Some(Sabotage::Abort) => ctx.abort(Error::new("sabotage")),
            Some(Sabotage::Close) => ctx.close(),
            Some(Sabotage::RemoveItself) => drop(ctx.pipeline().remove(ctx.slot())),
            None => ctx.fire_user_event(event),
        }
        Ok(())
    }
}

/// The plan of the application, and what it has seen.
#[derive(Default)]
pub(crate) struct AppState {
    /// The bytes that reached the application.
    pub(crate) read: Vec<u8>,
    /// Answers to the next messages, the last one first.
    pub(crate) plan: Vec<ReadPlan>,
    pub(crate) is_inactive: bool,
    /// All writes, in the order in which they were made.
    pub(crate) writes: Vec<ModelWrite>,
    next_id: u16,
}

impl AppState {
    /// Returns bytes that begin with a number of their own.
    pub(crate) fn bytes(&mut self, len: usize) -> Bytes {
        self.next_id += 1;
        let mut bytes = BytesMut::zeroed(len);
        if len > 0 {
            bytes[..2].copy_from_slice(&(0x8000 | self.next_id).to_be_bytes());
        }
        bytes.freeze()
    }
}

/// Writes a message whose completion is called on the loop. If it fails, or is written, and `again` is not zero, the
/// completion writes the next one.
pub(crate) fn write_local(
    app: &Rc<RefCell<AppState>>,
    len: usize,
    again: usize,
    channel: &Channel,
    write: impl FnOnce(Bytes, Completion),
) {
    let mut state = app.borrow_mut();
    let bytes = state.bytes(len);
    let calls = Rc::new(Cell::new((0, Outcome::Open)));
    state.writes.push(ModelWrite::with_calls(bytes.clone(), calls.clone()));
    drop(state);
    let (app, channel) = (app.clone(), channel.clone());
    let done = Completion::local(move |result| {
        let outcome = if result.is_ok() { Outcome::Written } else { Outcome::Failed };
        calls.set((calls.get().0 + 1, outcome));
        if again > 0 {
            let mut state = app.borrow_mut();
            let next = state.bytes(len);
            // The future is created by the write, and other writes may be made inside of it.
            let at = state.writes.len();
            state.writes.push(ModelWrite::unmade(next.clone()));
            drop(state);
            let future = channel.write_and_flush(next);
            app.borrow_mut().writes[at].made(future);
        }
    });
    write(bytes, done);
}

/// An answer to a message, inside of `on_read`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadPlan {
    AutoRead(bool),
    Toggle,
    Read,
    Flush,
    /// Answers, and writes again when the answer is written.
    Write(usize, usize),
    ShutdownOutput,
    Close,
    /// Removes a handler.
    Remove(Stock),
}

/// Keeps what it reads, and follows its plan.
struct App(Rc<RefCell<AppState>>);

impl Handler for App {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let mut state = self.0.borrow_mut();
        assert!(!state.is_inactive, "a message after the end");
        state.read.extend_from_slice(&msg.into_bytes().unwrap_or_default());
        let plan = state.plan.pop();
        drop(state);
        match plan {
            Some(ReadPlan::AutoRead(is_on)) => ctx.channel().set_auto_read(is_on),
            Some(ReadPlan::Toggle) => {
                let is_on = ctx.is_auto_read();
                ctx.channel().set_auto_read(!is_on);
                ctx.channel().set_auto_read(is_on);
            }
            Some(ReadPlan::Read) => ctx.read(),
            Some(ReadPlan::Flush) => ctx.flush(),
            Some(ReadPlan::Write(len, again)) => {
                let write = |msg, done| ctx.write_and_flush_with(msg, done);
                write_local(&self.0, len, again, &ctx.channel(), write);
            }
            Some(ReadPlan::ShutdownOutput) => ctx.shutdown_output(),
            Some(ReadPlan::Close) => ctx.close(),
            Some(ReadPlan::Remove(stock)) => drop(ctx.pipeline().remove(stock.name())),
            None => {}
        }
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.borrow_mut().is_inactive = true;
        ctx.fire_inactive();
        Ok(())
    }
}
