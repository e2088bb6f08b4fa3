//! The handler that shapes the traffic of one channel.

use std::fmt;
use std::time::Duration;

use waterwheel_channel::{
    Completion, Ctx, Events, Handler, HandlerResult, LocalCtx, Msg, ReadPause, Signature,
};

use super::channel_traffic::ChannelTraffic;
use super::end_request::EndRequest;
use super::gates::Gates;
use super::limiter::TrafficLimiter;
use super::read_side::ReadSide;
use super::traffic_size;
use super::wake_timer::WakeTimer;
use super::write_side::WriteSide;

/// Limits the traffic of one channel. Created by [`TrafficShaping::handler`](super::TrafficShaping::handler), and added
/// next to the transport, where bytes are counted as they are on the wire; after a codec its messages count by
/// [`size_hint`](waterwheel_channel::Message::size_hint).
pub struct TrafficShapingHandler {
    traffic: ChannelTraffic,
    reads: ReadSide,
    writes: WriteSide,
    /// Where the handler is, while it is in a pipeline.
    place: Option<LocalCtx>,
    /// Nothing is read while a close waits for held messages.
    closing: Option<ReadPause>,
}

/// Tags of timers.
const WRITE_DUE: u32 = 0;
const READ_DUE: u32 = 1;
const RATE_CHANGED: u32 = 2;

impl TrafficShapingHandler {
    pub(super) fn new(
        traffic: ChannelTraffic,
        read_groups: &[TrafficLimiter],
        write_groups: &[TrafficLimiter],
        longest_delay: Option<Duration>,
    ) -> Self {
        let gates = |own: &TrafficLimiter, groups: &[TrafficLimiter]| {
            Gates::new([own.clone()].into_iter().chain(groups.iter().cloned()))
        };
        let (reads, writes) =
            (gates(traffic.read(), read_groups), gates(traffic.write(), write_groups));
        Self {
            traffic,
            reads: ReadSide::new(reads, longest_delay, WakeTimer::new(READ_DUE)),
            writes: WriteSide::new(writes, longest_delay, WakeTimer::new(WRITE_DUE)),
            place: None,
            closing: None,
        }
    }

    /// Returns the channel's own limiters, to change their rates and to read their counters from any thread. After the
    /// handler was added, [`ChannelTraffic::of`] returns them too.
    #[must_use]
    pub fn traffic(&self) -> &ChannelTraffic {
        &self.traffic
    }

    /// Looks at the rates again. Called on the loop while the handler is not on the stack, without a context: the timer
    /// brings one.
    pub(super) fn on_rate_changed(&mut self) {
        self.reads.on_rate_changed();
        self.writes.on_rate_changed();
        if let Some(place) = &self.place {
            // A handler that was removed meanwhile waits for nothing.
            let _gone = place.run(|ctx| {
                ctx.schedule(Duration::ZERO, RATE_CHANGED);
            });
        }
    }

    fn end(&mut self, ctx: &Ctx<'_>, end: EndRequest) {
        self.writes.end(ctx, end);
        if self.writes.is_closing() && self.closing.is_none() {
            self.closing = Some(ctx.pause_reads());
        }
    }

    fn release(&mut self, ctx: &Ctx<'_>) {
        self.writes.release(ctx);
        self.reads.release(ctx);
        self.closing = None;
    }
}

impl Handler for TrafficShapingHandler {
    fn interest(&self) -> Events {
        let output = Events::WRITE | Events::FLUSH | Events::SHUTDOWN_OUTPUT;
        output | Events::READ | Events::CLOSE | Events::DISCONNECT | Events::INACTIVE
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
    }

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.place = Some(ctx.to_local());
        self.traffic.attach_to(&ctx.channel());
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.release(ctx);
        self.place = None;
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.release(ctx);
        ctx.fire_inactive();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.reads.on_read(ctx, traffic_size(&msg));
        ctx.fire_read(msg);
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        match tag {
            WRITE_DUE => self.writes.on_timer(ctx),
            READ_DUE => self.reads.on_timer(ctx),
            _ => {
                self.writes.apply_rates(ctx);
                self.reads.apply_rates(ctx);
            }
        }
        Ok(())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        self.writes.write(ctx, msg, done);
        Ok(())
    }

    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.writes.flush(ctx);
        Ok(())
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.end(ctx, EndRequest::Close(done.take()));
        Ok(())
    }

    fn disconnect(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.end(ctx, EndRequest::Disconnect(done.take()));
        Ok(())
    }

    fn shutdown_output(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.end(ctx, EndRequest::ShutdownOutput(done.take()));
        Ok(())
    }
}

impl fmt::Debug for TrafficShapingHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TrafficShapingHandler").field(&self.traffic).finish()
    }
}
