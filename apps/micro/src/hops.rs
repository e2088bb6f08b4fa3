//! The cost of a pipeline: events through handlers that pass them on, and echoes. On one thread, over a transport that
//! generates its input and discards its output.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use waterwheel::channel::driver::{Detach, ReadPlan, Submit, TaskOnly};
use waterwheel::channel::transport::{Outbound, Transport, TransportContext, TransportEvent};
use waterwheel::channel::{
    Ctx, EventLoopGroup, Events, Handler, HandlerResult, Msg, Name, NewChannel, Types,
};
use waterwheel::executor::{Clock, Error};

use crate::MicroResult;

/// Sends `events` through a pipeline of `slots` handlers.
pub(crate) fn hops(slots: u64, events: u64) -> MicroResult {
    let mut event_loop = EventLoopGroup::builder(TaskOnly).build_manual()?;
    let took = event_loop.on_loop(|here| {
        let channel = here.register_with(NewChannel::new(GeneratorTransport::new(0)), |edit| {
            for _ in 0..slots {
                edit.add_last(Name::auto(), PassOn)?;
            }
            Ok(())
        })?;
        let began = Clock::Monotonic.now();
        here.with_pipeline(&channel, |pipeline| {
            for _ in 0..events {
                pipeline.fire_read_complete();
            }
        });
        Ok::<_, Error>(Clock::Monotonic.now().since(began))
    });
    let took = took.ok_or("the loop is over")??;
    let nanos = took.as_nanos() as f64 / events as f64;
    println!("{{\"slots\":{slots},\"events\":{events},\"ns_per_event\":{nanos:.1}}}");
    Ok(())
}

/// Reads `echoes` messages and writes them back.
pub(crate) fn echoes(echoes: u64) -> MicroResult {
    let mut event_loop = EventLoopGroup::builder(TaskOnly).build_manual()?;
    let began = Clock::Monotonic.now();
    event_loop
        .on_loop(|here| {
            here.register_with(NewChannel::new(GeneratorTransport::new(echoes)), |edit| {
                edit.add_last("echo", EchoHandler)?;
                Ok(())
            })
        })
        .ok_or("the loop is over")??;
    while !event_loop.is_idle() {
        event_loop.turn(Some(Duration::ZERO));
    }
    let nanos = Clock::Monotonic.now().since(began).as_nanos() as f64 / echoes as f64;
    println!("{{\"echoes\":{echoes},\"ns_per_echo\":{nanos:.1}}}");
    Ok(())
}

struct PassOn;

impl Handler for PassOn {}

pub(crate) struct EchoHandler;

impl Handler for EchoHandler {
    fn interest(&self) -> Events {
        Events::READ | Events::READ_COMPLETE
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}

/// A transport that generates messages until its limit.
pub(crate) struct GeneratorTransport {
    left: u64,
    read: bool,
}

impl GeneratorTransport {
    /// Creates a transport that generates `left` messages.
    pub(crate) fn new(left: u64) -> Self {
        Self { left, read: false }
    }
}

impl Transport for GeneratorTransport {
    fn name(&self) -> &'static str {
        "generator"
    }

    fn reads(&self) -> Types {
        Types::of::<Bytes>()
    }

    fn accepts(&self) -> Types {
        Types::of::<Bytes>()
    }

    fn writes_stream(&self) -> bool {
        true
    }

    fn register(&mut self, _: &TransportContext) -> Result<bool, Error> {
        Ok(true)
    }

    fn deregister(&mut self, _: &TransportContext) -> Result<(), Error> {
        Ok(())
    }

    fn set_read(&mut self, context: &TransportContext, plan: Option<ReadPlan>) {
        if plan.is_some() {
            context.wake();
        }
    }

    fn write(&mut self, _: &TransportContext, outbound: &mut Outbound) -> io::Result<Submit> {
        let len = outbound.bytes().len();
        outbound.wrote(len);
        Ok(Submit::Done(len))
    }

    fn next_event(&mut self, _: &TransportContext) -> Option<TransportEvent> {
        if std::mem::take(&mut self.read) {
            return Some(TransportEvent::ReadComplete);
        }
        self.left = self.left.checked_sub(1)?;
        self.read = true;
        Some(TransportEvent::Read(Bytes::from_static(b"hello").into()))
    }

    fn close(&mut self, _: &TransportContext) -> Detach {
        Detach::Done
    }
}
