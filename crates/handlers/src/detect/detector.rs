//! The handler that detects the protocol of its connection.

use std::fmt;
use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use waterwheel_channel::{
    Ctx, Cumulation, Events, HalfClosed, Handler, HandlerResult, Msg, PipelineHandover, Quoted,
    Signature, TimerId, TypeTag,
};
use waterwheel_executor::Error;

use super::builder::{AtLimit, DetectionPlan, PipelineChoice, ProtocolDetectorBuilder};
use super::error::DetectError;
use super::search::{ProbeSearch, SearchOutcome};

/// Chooses the pipeline of a connection by its first bytes: several protocols on one port.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_channel::{Ctx, Edit, HandlerResult, In, InboundHandler};
/// use waterwheel_executor::Error;
/// use waterwheel_handlers::{Detection, ProtocolDetector, StockProbe};
/// use waterwheel_testkit::embedded::Embedded;
///
/// /// Stands for the handlers of a protocol.
/// struct Server(&'static str);
///
/// impl InboundHandler for Server {
///     type In = Bytes;
///
///     fn on_read(&mut self, ctx: &Ctx<'_>, bytes: Bytes) -> HandlerResult {
///         ctx.write_and_flush(Bytes::from(format!("{} got {} bytes", self.0, bytes.len())));
///         Ok(())
///     }
/// }
///
/// fn serve(edit: &mut Edit<'_>, name: &'static str) -> Result<(), Error> {
///     edit.add_last("server", In(Server(name)))?;
///     Ok(())
/// }
///
/// // Built once, so that a wrong setting fails at start; each connection gets a clone.
/// let detector = ProtocolDetector::builder()
///     .protocol("tls", StockProbe::Tls, |edit| serve(edit, "TLS"))
///     .protocol("http", StockProbe::Http1, |edit| serve(edit, "HTTP"))
///     .protocol("ssh", |bytes: &[u8]| Detection::of_prefix(bytes, b"SSH-"), |edit| serve(edit, "SSH"))
///     .otherwise(|edit| serve(edit, "the fallback"))
///     .build()?;
///
/// let connect = || {
///     Embedded::new(|edit| {
///         edit.add_last("detect", detector.clone())?;
///         Ok(())
///     })
/// };
/// let mut channel = connect()?;
/// channel.write_inbound(Bytes::from_static(b"GET / HT"));
/// assert!(channel.read_outbound_any().is_none(), "may be HTTP, or something else");
/// channel.write_inbound(Bytes::from_static(b"TP/1.1\r\nHost: a\r\n\r\n"));
/// assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "HTTP got 27 bytes");
///
/// let mut channel = connect()?;
/// channel.write_inbound(Bytes::from_static(b"GET key\r\n"));
/// assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "the fallback got 9 bytes");
/// # Ok::<(), Error>(())
/// ```
///
/// - *Order.* Probes are asked in the order in which their protocols were added; the first match wins when all before
///   it have not matched.
/// - *The chosen handlers* see the connection from its beginning, as if they had been there from the start: `on_active`,
///   the user events that came meanwhile, all bytes, and everything later. So the same function can initialise a server
///   of its own and a protocol here. Only `on_registered` does not come again, and handlers that are added before the
///   detector get none of it.
/// - *Limits.* 8 KiB and 10 seconds by default; see the [builder](ProtocolDetectorBuilder).
/// - *Without a match* the fallback is chosen. If there is none, a [`DetectError`] with the first bytes goes to the
///   handlers after the detector, and the channel is closed. A connection that ends without a byte is no error.
/// - *User events* that come before the choice are held, up to 16; more pass at once.
/// - *A drain* does not wait for a connection whose protocol is unknown.
/// - *Auto-read off.* The detector requests the rounds of reads that it needs. The chosen handlers may get one round
///   more than they have requested.
/// - *After a PROXY header* another protocol begins: the initialiser for [`StockProbe::Proxy`](crate::StockProbe) adds
///   a `ProxyServer`, then another detector under another name. Its limit of time includes the header.
///
/// A clone has the same protocols and fresh state.
pub struct ProtocolDetector {
    plan: Arc<DetectionPlan>,
    /// Holds `on_active` and user events for the chosen pipeline.
    handover: PipelineHandover,
    search: ProbeSearch,
    held: Cumulation,
    /// True once the limit of time has begun.
    has_started: bool,
    timer: Option<TimerId>,
    /// True from the first bytes of a round of reads to its end.
    is_in_round: bool,
}

impl ProtocolDetector {
    /// Returns a builder without protocols.
    pub fn builder() -> ProtocolDetectorBuilder {
        ProtocolDetectorBuilder::new()
    }

    pub(super) fn new(plan: Arc<DetectionPlan>) -> Self {
        Self {
            search: ProbeSearch::new(plan.max_bytes),
            plan,
            handover: PipelineHandover::default(),
            held: Cumulation::default(),
            has_started: false,
            timer: None,
            is_in_round: false,
        }
    }

    fn start(&mut self, ctx: &Ctx<'_>) {
        if mem::replace(&mut self.has_started, true) {
            return;
        }
        if let Some(limit) = self.plan.timeout {
            self.timer = Some(ctx.schedule(limit, 0));
        }
        if !ctx.is_auto_read() {
            ctx.read();
        }
    }

    fn detect(&mut self, new: Bytes, ctx: &Ctx<'_>) {
        self.is_in_round = true;
        let bytes = self.held.append(new);
        if ctx.is_removed() {
            return self.release(bytes, ctx);
        }
        match self.search.advance(&self.plan.protocols, &bytes) {
            SearchOutcome::NeedMore => self.held.keep(bytes),
            SearchOutcome::LimitReached => {
                let (limit, first) = (self.plan.max_bytes, Quoted::new(&bytes));
                let error = DetectError::TooLong { limit, first };
                self.stop_at_limit(self.plan.at_max_bytes, bytes, error, ctx)
            }
            outcome => {
                let error = DetectError::NoMatch { first: Quoted::new(&bytes) };
                self.conclude(outcome, bytes, error, ctx)
            }
        }
    }

    fn stop_at_limit(
        &mut self,
        at_limit: AtLimit,
        bytes: Bytes,
        error: DetectError,
        ctx: &Ctx<'_>,
    ) {
        match at_limit {
            AtLimit::Decide => self.finish(bytes, error, ctx),
            AtLimit::Close => self.refuse(error, bytes, ctx),
        }
    }

    /// Decides by the bytes that have come.
    fn finish(&mut self, bytes: Bytes, error: DetectError, ctx: &Ctx<'_>) {
        let outcome = self.search.finish(&self.plan.protocols, &bytes);
        self.conclude(outcome, bytes, error, ctx)
    }

    /// Hands the channel over to the pipeline of the match or the fallback, or refuses it with the error.
    fn conclude(
        &mut self,
        outcome: SearchOutcome,
        bytes: Bytes,
        error: DetectError,
        ctx: &Ctx<'_>,
    ) {
        let plan = self.plan.clone();
        let choice = match outcome {
            SearchOutcome::Match(at) => Some(&plan.protocols[at].choice),
            _ => plan.fallback.as_ref(),
        };
        match choice {
            Some(choice) => self.hand_over(choice, bytes, ctx),
            None => self.refuse(error, bytes, ctx),
        }
    }

    fn hand_over(&mut self, choice: &PipelineChoice, bytes: Bytes, ctx: &Ctx<'_>) {
        match self.handover.hand_over(ctx, |edit| choice.initialise(edit)) {
            Ok(()) => self.deliver(bytes, ctx),
            Err(cause) => {
                let protocol = choice.name.clone();
                self.refuse(DetectError::NotInitialised { protocol, cause }, bytes, ctx);
            }
        }
    }

    /// Fires everything that was held: the detector was removed.
    fn release(&mut self, bytes: Bytes, ctx: &Ctx<'_>) {
        self.handover.release(ctx);
        self.deliver(bytes, ctx);
    }

    fn deliver(&mut self, bytes: Bytes, ctx: &Ctx<'_>) {
        if !bytes.is_empty() {
            ctx.fire_read(bytes);
            // During a round its end is still to come.
            if !self.is_in_round {
                ctx.fire_read_complete();
            }
        }
    }

    /// Fires the error and closes the channel, unless a handler removes the detector in response.
    fn refuse(&mut self, error: DetectError, bytes: Bytes, ctx: &Ctx<'_>) {
        if self.handover.refuse(ctx, Error::new(error)) {
            self.deliver(bytes, ctx);
        }
    }

    /// Decides at the end of the stream. A stream without bytes is given to the fallback if answers can still be written
    /// (half-closure), and otherwise closed without an error.
    fn on_end(&mut self, ctx: &Ctx<'_>) {
        let bytes = self.held.take();
        if bytes.is_empty() && (self.plan.fallback.is_none() || !ctx.is_active()) {
            self.handover.abandon();
            return ctx.close();
        }
        let error = DetectError::Ended { length: bytes.len(), first: Quoted::new(&bytes) };
        self.finish(bytes, error, ctx)
    }
}

impl Handler for ProtocolDetector {
    fn interest(&self) -> Events {
        Events::ACTIVE
            | Events::INACTIVE
            | Events::READ
            | Events::READ_COMPLETE
            | Events::USER_EVENT
    }

    fn signature(&self) -> Signature {
        // The handlers after it may accept the messages of a decoder that an initialiser adds.
        Signature::transparent().reads(TypeTag::list::<Bytes>())
    }

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if ctx.is_active() {
            self.start(ctx);
        }
        Ok(())
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.handover.on_active(ctx);
        if self.handover.is_pending() {
            self.start(ctx);
        }
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.is_in_round = false;
        // An offloaded handler may keep the pipeline for a while.
        if let Some(timer) = self.timer.take() {
            ctx.cancel(timer);
        }
        if self.handover.is_pending() {
            self.on_end(ctx);
        }
        self.handover.on_inactive(ctx);
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        match msg.into_bytes() {
            Ok(bytes) if self.handover.is_pending() => self.detect(bytes, ctx),
            Ok(_) if self.handover.is_refused() => {}
            Ok(bytes) => ctx.fire_read(bytes),
            Err(other) => ctx.fire_read(other),
        }
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let had_bytes = mem::take(&mut self.is_in_round);
        if had_bytes && self.handover.is_pending() && !ctx.is_auto_read() {
            ctx.read();
        }
        self.handover.on_read_complete(ctx);
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if self.handover.is_pending() && event.get() == Some(&HalfClosed::Input) {
            self.on_end(ctx);
        }
        self.handover.on_user_event(ctx, event);
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, _: u32) -> HandlerResult {
        let Some(limit) =
            self.plan.timeout.filter(|_| self.handover.is_pending() && ctx.is_active())
        else {
            return Ok(());
        };
        let bytes = self.held.take();
        let error =
            DetectError::TimedOut { limit, length: bytes.len(), first: Quoted::new(&bytes) };
        self.stop_at_limit(self.plan.at_timeout, bytes, error, ctx);
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        if self.handover.is_pending() {
            let bytes = self.held.take();
            self.release(bytes, ctx);
        }
    }
}

impl Clone for ProtocolDetector {
    fn clone(&self) -> Self {
        Self::new(self.plan.clone())
    }
}

impl fmt::Debug for ProtocolDetector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtocolDetector")
            .field("plan", &self.plan)
            .field("handover", &self.handover)
            .finish_non_exhaustive()
    }
}
