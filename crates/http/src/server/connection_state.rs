//! The state of a connection between events.

use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

use waterwheel_channel::{Channel, Ctx, Cumulation, Hold, PipelineHandover, ReadPause};

use super::deadlines::{Deadlines, Wait};
use super::exchange::{ExchangeStep, ServerExchange};
use crate::body::pipe::BodyPipe;
use crate::protocol::limits::MessageLimits;
use crate::protocol::request_decoder::RequestDecoder;

/// The phases of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// Requests are read and answered.
    Open,
    /// The last answer is written, or the channel is about to be closed: what is still read is dropped.
    Closing,
    /// Another protocol has taken over.
    Upgraded,
}

/// The state of a connection. Fields are used on the loop only.
pub(super) struct ConnectionState<F> {
    pub(super) phase: ConnectionPhase,
    pub(super) decoder: RequestDecoder,
    /// Bytes that were read and not decoded.
    pub(super) unread: Cumulation,
    /// Requests in flight, in order.
    pub(super) exchanges: VecDeque<ServerExchange<F>>,
    /// The body that is being received.
    pub(super) receiving: Option<Rc<BodyPipe>>,
    /// True if the request that was read last is the last one of the connection.
    pub(super) is_last: bool,
    /// True while what follows the last request may be another protocol.
    pub(super) awaits_upgrade: bool,
    pub(super) is_draining: bool,
    /// True if bytes of a request were read that cannot begin now: too many are in flight, or the channel has no room.
    pub(super) is_held_back: bool,
    /// True if the client has finished sending.
    pub(super) is_input_over: bool,
    /// True if something was written and not flushed.
    pub(super) has_unflushed: bool,
    /// The bytes written to the channel.
    pub(super) written: u64,
    /// Holds the events for the handlers of another protocol.
    pub(super) handover: PipelineHandover,
    pub(super) deadlines: Deadlines,
    pause: Option<ReadPause>,
    /// Makes a drain of the loop wait.
    hold: Option<Hold>,
    pub(super) has_driver: bool,
    /// The waker of the driver, from its first poll on.
    pub(super) driver: Option<Waker>,
    /// The channel, for the services.
    pub(super) channel: Option<Rc<Channel>>,
}

impl<F> ConnectionState<F> {
    pub(super) fn new(limits: MessageLimits) -> Self {
        Self {
            phase: ConnectionPhase::Open,
            decoder: RequestDecoder::new(limits),
            unread: Cumulation::default(),
            exchanges: VecDeque::new(),
            receiving: None,
            is_last: false,
            awaits_upgrade: false,
            is_draining: false,
            is_held_back: false,
            is_input_over: false,
            has_unflushed: false,
            written: 0,
            handover: PipelineHandover::default(),
            deadlines: Deadlines::new(),
            pause: None,
            hold: None,
            has_driver: false,
            driver: None,
            channel: None,
        }
    }

    /// True while another request may begin, as far as the connection is concerned.
    #[inline]
    pub(super) fn accepts_requests(&self) -> bool {
        !(self.is_last || self.awaits_upgrade || self.is_draining)
    }

    /// Returns the waker of the driver. Before there is one, futures are polled without: the driver polls them again in
    /// the same turn, so no wake is lost.
    #[inline]
    pub(super) fn waker(&self) -> &Waker {
        self.driver.as_ref().unwrap_or(Waker::noop())
    }

    /// True if the last request has not been given to the service.
    #[inline]
    pub(super) fn has_read_request(&self) -> bool {
        matches!(self.exchanges.back(), Some(ServerExchange { step: ExchangeStep::Read(_), .. }))
    }

    /// Returns the request whose body this is, unless it is answered.
    pub(super) fn exchange_of(&mut self, pipe: &Rc<BodyPipe>) -> Option<&mut ServerExchange<F>> {
        // Only the last request can have a body that is still coming.
        let last = self.exchanges.back_mut()?;
        last.facts.pipe.as_ref().is_some_and(|own| Rc::ptr_eq(own, pipe)).then_some(last)
    }

    /// True if the request whose body this is has not been answered.
    pub(super) fn is_in_flight(&mut self, pipe: &Rc<BodyPipe>) -> bool {
        self.exchange_of(pipe).is_some()
    }

    /// Returns what the connection waits for now.
    #[inline]
    pub(super) fn present_wait(&self) -> Wait {
        if self.decoder.is_in_body() {
            let waits = self.receiving.as_ref().is_some_and(|pipe| pipe.waits_for_peer());
            return if waits { Wait::Body } else { Wait::Nothing };
        }
        match (self.exchanges.is_empty(), self.decoder.is_idle()) {
            (false, _) => Wait::Nothing,
            (true, true) => Wait::Request,
            (true, false) => Wait::Head,
        }
    }

    #[inline]
    pub(super) fn set_hold(&mut self, ctx: &Ctx<'_>, holds: bool) {
        if !holds {
            self.hold = None;
        } else if self.hold.is_none() {
            self.hold = Some(ctx.hold());
        }
    }

    #[inline]
    pub(super) fn set_pause(&mut self, ctx: &Ctx<'_>, pauses: bool) {
        if !pauses {
            self.pause = None;
        } else if self.pause.is_none() && ctx.is_active() {
            self.pause = Some(ctx.pause_reads());
        }
    }

    /// Ends the pause of reads and the guard against drains.
    pub(super) fn release(&mut self) {
        self.pause = None;
        self.hold = None;
    }
}
