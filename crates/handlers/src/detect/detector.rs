//! The handler that detects the protocol of its connection.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use waterwheel_channel::{
    Ctx, Cumulation, Events, HalfClosed, Handler, HandlerResult, Msg, Quoted, Signature, TimerId,
    TypeTag,
};
use waterwheel_executor::Error;

use super::builder::{AtLimit, DetectionPlan, PipelineChoice, ProtocolDetectorBuilder};
use super::error::DetectError;
use super::search::{ProbeSearch, SearchOutcome};

/// User events that are held for the chosen pipeline; more pass at once. A PROXY header is one, a drain another.
const MAX_HELD_EVENTS: usize = 16;

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
    phase: DetectorPhase,
    search: ProbeSearch,
    held: Cumulation,
    /// User events for the chosen pipeline. The mutex is never locked: it makes the detector `Sync`, so that an
    /// initialiser on any thread can clone it.
    held_events: Mutex<Vec<Msg>>,
    /// True once the limit of time has begun.
    has_started: bool,
    timer: Option<TimerId>,
    /// True while `on_active` is held for the chosen pipeline.
    holds_active: bool,
    /// True from the first bytes of a round of reads to its end.
    is_in_round: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DetectorPhase {
    Detecting,
    /// A pipeline was chosen: everything passes.
    Decided,
    /// The connection was refused: nothing more passes.
    Refused,
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
            phase: DetectorPhase::Detecting,
            held: Cumulation::default(),
            held_events: Mutex::default(),
            has_started: false,
            timer: None,
            holds_active: false,
            is_in_round: false,
        }
    }

    fn is_detecting(&self) -> bool {
        self.phase == DetectorPhase::Detecting
    }

    fn held_events(&mut self) -> &mut Vec<Msg> {
        self.held_events.get_mut().unwrap_or_else(PoisonError::into_inner)
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
            self.phase = DetectorPhase::Decided;
            return self.deliver(bytes, ctx);
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
        // One edit, so that the types of the final pipeline are checked before it gets a byte.
        let edited = ctx.pipeline().edit(|edit| {
            choice.initialise(edit)?;
            edit.remove_if_present(ctx.slot())?;
            Ok::<_, Error>(())
        });
        match edited {
            Ok(()) => {
                self.phase = DetectorPhase::Decided;
                self.deliver(bytes, ctx);
            }
            Err(cause) => {
                let protocol = choice.name.clone();
                self.refuse(DetectError::NotInitialised { protocol, cause }, bytes, ctx);
            }
        }
    }

    /// Fires what was held: `on_active`, user events, bytes.
    fn deliver(&mut self, bytes: Bytes, ctx: &Ctx<'_>) {
        if mem::take(&mut self.holds_active) {
            ctx.fire_active();
        }
        for event in mem::take(self.held_events()) {
            ctx.fire_user_event(event);
        }
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
        let error = Error::new(error);
        // The edit of an initialiser has removed it if only an `on_added` failed.
        let was_removed = ctx.is_removed();
        ctx.fire_error(error.clone());
        if ctx.is_removed() && !was_removed {
            self.phase = DetectorPhase::Decided;
            return self.deliver(bytes, ctx);
        }
        self.phase = DetectorPhase::Refused;
        drop(mem::take(self.held_events()));
        ctx.close_because(error);
    }

    /// Decides at the end of the stream. A stream without bytes is given to the fallback if answers can still be written
    /// (half-closure), and otherwise closed without an error.
    fn on_end(&mut self, ctx: &Ctx<'_>) {
        let bytes = self.held.take();
        if bytes.is_empty() && (self.plan.fallback.is_none() || !ctx.is_active()) {
            self.phase = DetectorPhase::Refused;
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
        match self.phase {
            DetectorPhase::Decided => ctx.fire_active(),
            _ => {
                self.holds_active = true;
                self.start(ctx);
            }
        }
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.is_in_round = false;
        // An offloaded handler may keep the pipeline for a while.
        if let Some(timer) = self.timer.take() {
            ctx.cancel(timer);
        }
        if self.is_detecting() {
            self.on_end(ctx);
        }
        // A beginning that was not announced has no end.
        if !self.holds_active {
            ctx.fire_inactive();
        }
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        match (self.phase, msg.into_bytes()) {
            (DetectorPhase::Detecting, Ok(bytes)) => self.detect(bytes, ctx),
            (DetectorPhase::Decided, Ok(bytes)) => ctx.fire_read(bytes),
            (DetectorPhase::Refused, Ok(_)) => {}
            (_, Err(other)) => ctx.fire_read(other),
        }
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let had_bytes = mem::take(&mut self.is_in_round);
        if had_bytes && self.is_detecting() && !ctx.is_auto_read() {
            ctx.read();
        }
        // A beginning that was not announced has no rounds of reads either.
        if !self.holds_active {
            ctx.fire_read_complete();
        }
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if self.is_detecting() && event.get() == Some(&HalfClosed::Input) {
            self.on_end(ctx);
        }
        let has_room = self.held_events().len() < MAX_HELD_EVENTS;
        match self.phase {
            DetectorPhase::Detecting if has_room => self.held_events().push(event),
            DetectorPhase::Refused => {}
            _ => ctx.fire_user_event(event),
        }
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, _: u32) -> HandlerResult {
        let Some(limit) = self.plan.timeout.filter(|_| self.is_detecting() && ctx.is_active())
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
        if self.is_detecting() {
            self.phase = DetectorPhase::Decided;
            let bytes = self.held.take();
            self.deliver(bytes, ctx);
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
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}
