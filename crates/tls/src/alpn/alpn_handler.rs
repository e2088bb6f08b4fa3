//! The handler that waits for the outcome of the handshake.

use std::sync::Arc;

use bytes::Bytes;
use waterwheel_channel::{
    Ctx, Events, HalfClosed, Handler, HandlerResult, Msg, PipelineHandover, Quoted, Signature,
    TypeTag,
};
use waterwheel_executor::Error;

use super::builder::{AlpnHandlerBuilder, AlpnPlan};
use super::error::AlpnError;
use crate::handshake::TlsHandshake;

/// Chooses the pipeline of a connection by its negotiated application protocol (ALPN), on either side. Stands after the
/// [`TlsHandler`](crate::TlsHandler).
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_channel::{Ctx, Edit, HandlerResult, In, InboundHandler};
/// use waterwheel_executor::Error;
/// use waterwheel_tls::{AlpnHandler, ServerTls, TlsHandler};
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
/// let alpn = AlpnHandler::builder()
///     .on("h2", |edit| serve(edit, "HTTP/2"))
///     .on("http/1.1", |edit| serve(edit, "HTTP/1.1"))
///     .otherwise(|edit| serve(edit, "HTTP/1.1"))
///     .build()?;
///
/// # let made = rcgen::generate_simple_self_signed(["example.org".into()])?;
/// # let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
/// let config = ServerTls::builder()
///     .certificate_pem(certificate.as_bytes(), key.as_bytes())
///     .alpn(alpn.protocols())
///     .build()?;
/// let initialiser = move |edit: &mut Edit<'_>| -> Result<(), Error> {
///     edit.add_last("tls", TlsHandler::server(config.clone()))?;
///     edit.add_last("alpn", alpn.clone())?;
///     Ok(())
/// };
/// # let _channel = waterwheel_testkit::embedded::Embedded::builder().stream().build(initialiser)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// - *The chosen handlers* see the connection from its beginning: `on_active`, the user events that came meanwhile, the
///   [`TlsHandshake`] event, every byte of plaintext, and everything later. Handlers that are added before the ALPN
///   handler get none of it. In a channel that was active before the ALPN handler was added (STARTTLS) there is no
///   further `on_active`.
/// - *No ALPN.* [`otherwise`](AlpnHandlerBuilder::otherwise) gets connections without a negotiated protocol. A server
///   whose configuration names protocols refuses a client that offers only others: `no_application_protocol` on both
///   sides, as a [`TlsError`](crate::TlsError).
/// - *Failures.* An [`AlpnError`] goes to the handlers after the ALPN handler and is the cause of the close, unless one of
///   them removes the ALPN handler in response: then it gets what was held. Errors of the handshake pass as they are.
/// - *Initialisers* and the removal of the ALPN handler are one edit. One that fails changes nothing and closes the
///   channel, one that panics likewise.
/// - *User events* that come before the choice are held, up to 16; more pass at once.
/// - *Removed from outside*, before the choice, the handler passes on what it has held.
/// - *TLS within TLS:* the first [`TlsHandshake`] decides. Add the inner handlers after the outer handshake.
///
/// A clone has the same pipelines and fresh state.
#[derive(Debug)]
pub struct AlpnHandler {
    plan: Arc<AlpnPlan>,
    handover: PipelineHandover,
}

impl AlpnHandler {
    /// Returns a builder without protocols.
    pub fn builder() -> AlpnHandlerBuilder {
        AlpnHandlerBuilder::default()
    }

    pub(super) fn new(plan: Arc<AlpnPlan>) -> Self {
        Self { plan, handover: PipelineHandover::default() }
    }

    /// Returns the names of the protocols in the order in which they were added, most preferred first: for
    /// [`ServerTlsBuilder::alpn`](crate::ServerTlsBuilder::alpn) and
    /// [`ClientTlsBuilder::alpn`](crate::ClientTlsBuilder::alpn).
    pub fn protocols(&self) -> impl Iterator<Item = &[u8]> {
        self.plan.protocols()
    }

    /// Makes the pipeline of the outcome, or refuses the connection.
    fn choose(&mut self, ctx: &Ctx<'_>, negotiated: Option<&[u8]>) {
        let plan = self.plan.clone();
        let pipeline = match negotiated {
            Some(protocol) => plan.find(protocol),
            None => plan.fallback.as_ref(),
        };
        let error = match (pipeline, negotiated) {
            (Some(pipeline), _) => {
                let chosen = self.handover.hand_over(ctx, |edit| pipeline.initialise(edit));
                let Err(cause) = chosen else { return };
                AlpnError::NotInitialised { protocol: Quoted::new(&pipeline.protocol), cause }
            }
            (None, Some(protocol)) => {
                let protocol = Quoted::new(protocol);
                AlpnError::UnknownProtocol { protocol, accepted: plan.accepted() }
            }
            (None, None) => AlpnError::NotNegotiated { accepted: plan.accepted() },
        };
        self.handover.refuse(ctx, Error::new(error));
    }

    /// Gives up the choice if the handler is being removed: events from before the removal still come.
    fn release_if_removed(&mut self, ctx: &Ctx<'_>) {
        if self.handover.is_pending() && ctx.is_removed() {
            self.handover.release(ctx);
        }
    }

    /// Refuses plain text, unless a handler removes this one in response: then it gets the bytes.
    fn refuse_plain(&mut self, ctx: &Ctx<'_>, bytes: Bytes) {
        let error = AlpnError::NotTls { length: bytes.len(), first: Quoted::new(&bytes) };
        if self.handover.refuse(ctx, Error::new(error)) {
            ctx.fire_read(bytes);
        }
    }
}

impl Handler for AlpnHandler {
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

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.handover.on_active(ctx);
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.handover.on_inactive(ctx);
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.release_if_removed(ctx);
        match msg.into_bytes() {
            Ok(bytes) if self.handover.is_pending() => self.refuse_plain(ctx, bytes),
            Ok(_) if self.handover.is_refused() => {}
            Ok(bytes) => ctx.fire_read(bytes),
            Err(other) => ctx.fire_read(other),
        }
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.handover.on_read_complete(ctx);
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        self.release_if_removed(ctx);
        if self.handover.is_pending() {
            if let Some(handshake) = event.get::<TlsHandshake>() {
                self.choose(ctx, handshake.alpn.as_deref());
            } else if event.get() == Some(&HalfClosed::Input) {
                self.handover.refuse(ctx, Error::new(AlpnError::Ended));
            }
        }
        // After a choice, the chosen handlers get the handshake too.
        self.handover.on_user_event(ctx, event);
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        if self.handover.is_pending() {
            self.handover.release(ctx);
        }
    }
}

impl Clone for AlpnHandler {
    fn clone(&self) -> Self {
        Self::new(self.plan.clone())
    }
}
