//! Closes channels whose peer does not begin (K07).
//!
//! 1. The time counts from when the channel is active, or from when the handler is added to an active channel. Handlers
//!    before this one that keep `on_active` back, such as a TLS handshake, do not delay it on an accepted channel: the
//!    channel is active when it is registered.
//! 2. Only a message that reaches this handler ends the wait: after a codec, a whole message. Bytes that a codec, a TLS
//!    or a PROXY handler keeps do not, nor does time in which the channel does not read, nor the end of the peer's data
//!    where half-closure is allowed.
//! 3. With the first message the handler removes itself from the pipeline: later messages cost nothing.
//! 4. At the deadline the error is fired, then the channel is closed with it as the cause; once. A handler that removes
//!    this one in response keeps the channel open.
//! 5. A drain does not change anything.

use std::fmt;
use std::time::Duration;

use waterwheel_channel::{Ctx, Events, Handler, HandlerResult, Msg, Signature};
use waterwheel_executor::Error;

use super::error::{InvalidTimeout, TimeoutError};
use super::rearming_timer::RearmingTimer;

/// Closes the channel if its peer has not sent a whole message within a time after the connection was made, after a
/// [`TimeoutError::FirstMessage`] for `on_error` of the following handlers. Against peers that connect and say nothing,
/// or drip single bytes: add it after the codec.
///
/// The handler removes itself when the first message comes. A clone has the same limit and fresh state.
///
/// ```
/// use std::time::Duration;
/// use bytes::Bytes;
/// use waterwheel_channel::{Decode, Decoder};
/// use waterwheel_handlers::FirstMessageDeadline;
/// use waterwheel_testkit::embedded::Embedded;
/// # use waterwheel_executor::Error;
/// # struct Pairs;
/// # impl Decoder for Pairs {
/// #     type Out = Bytes;
/// #     fn decode(&mut self, from: &mut Bytes) -> Result<Option<Bytes>, Error> {
/// #         Ok((from.len() >= 2).then(|| from.split_to(2)))
/// #     }
/// # }
///
/// let deadline = FirstMessageDeadline::new(Duration::from_secs(5))?;
/// let mut channel = Embedded::builder().stream().build(|edit| {
///     edit.add_last("pairs", Decode::new(Pairs))?; // Messages of two bytes.
///     edit.add_last("deadline", deadline.clone())?;
///     Ok(())
/// })?;
/// channel.advance(Duration::from_secs(4));
/// channel.write_inbound(Bytes::from_static(b"h")); // Half a message does not count.
/// channel.advance(Duration::from_secs(1));
/// assert!(!channel.channel().is_open());
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
pub struct FirstMessageDeadline {
    limit: Duration,
    /// True from when the channel is active.
    is_started: bool,
    timer: RearmingTimer,
}

impl FirstMessageDeadline {
    /// Returns a handler with this limit.
    ///
    /// # Errors
    /// [`InvalidTimeout`]: the limit is zero.
    pub fn new(limit: Duration) -> Result<Self, InvalidTimeout> {
        InvalidTimeout::check("FirstMessageDeadline", limit).map(Self::with)
    }

    fn with(limit: Duration) -> Self {
        Self { limit, is_started: false, timer: RearmingTimer::default() }
    }

    fn start_if_active(&mut self, ctx: &Ctx<'_>) {
        if ctx.is_active() && !self.is_started {
            self.is_started = true;
            self.timer.set(self.limit, ctx);
        }
    }
}

impl Handler for FirstMessageDeadline {
    fn interest(&self) -> Events {
        Events::REGISTERED | Events::ACTIVE | Events::INACTIVE | Events::READ
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
    }

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.start_if_active(ctx);
        Ok(())
    }

    fn on_registered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.start_if_active(ctx);
        ctx.fire_registered();
        Ok(())
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.start_if_active(ctx);
        ctx.fire_active();
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.timer.cancel(ctx);
        ctx.fire_inactive();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.timer.cancel(ctx);
        ctx.fire_read(msg);
        // A closed pipeline refuses the removal: its handlers are being removed anyway.
        let _ = ctx.pipeline().remove_if_present(ctx.slot());
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, _: u32) -> HandlerResult {
        self.timer.fired();
        if ctx.is_active() {
            let error = Error::from(TimeoutError::first_message(ctx, self.limit));
            ctx.fire_error(error.clone());
            if !ctx.is_removed() {
                ctx.close_because(error);
            }
        }
        Ok(())
    }
}

impl Clone for FirstMessageDeadline {
    fn clone(&self) -> Self {
        Self::with(self.limit)
    }
}

impl fmt::Debug for FirstMessageDeadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirstMessageDeadline").field("limit", &self.limit).finish_non_exhaustive()
    }
}
