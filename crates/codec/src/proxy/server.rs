//! The handler for servers behind a proxy that sends PROXY headers.

use std::convert::Infallible;
use std::fmt;

use bytes::Bytes;
use waterwheel_channel::{
    Address, Ctx, Decode, Decoder, Emit, Events, Handler, HandlerResult, Inbound, Message, Msg,
    Signature, Stage, Then,
};
use waterwheel_executor::Error;

use super::decoder::ProxyDecoder;
use super::error::ProxyError;
use super::header::ProxyHeader;

/// Decodes the PROXY header at the start of a connection (both versions), then removes itself from the pipeline.
///
/// Sets the channel's peer address to the address in the header and fires the [`ProxyHeader`] as a user event before the
/// first byte after it. An untrusted peer, or a connection without a valid header, is an error (`on_error`), and the
/// channel is closed: none of its bytes reach the following handlers. There is no time limit for the header.
///
/// ```
/// use waterwheel_channel::{Address, Edit, PipelineError};
/// use waterwheel_codec::{LineDecoder, LineEncoder, ProxyServer};
///
/// /// A server behind a proxy on the same machine.
/// fn speak_lines(edit: &mut Edit<'_>) -> Result<(), PipelineError> {
///     let trusted = |peer: Option<&Address>| peer.and_then(Address::ip).is_some_and(|ip| ip.is_loopback());
///     edit.add_last("proxy", ProxyServer::new(trusted))?;
///     edit.add_codec("lines", LineDecoder::new(1024).text(), LineEncoder::new())?;
///     Ok(())
/// }
/// # let _ = speak_lines;
/// ```
pub struct ProxyServer<T> {
    trusted: T,
    /// The answer of `trusted`, after the first call.
    is_trusted: Option<bool>,
    chain: Inbound<Then<Decode<Attempt>, Apply>>,
}

impl<T: Fn(Option<&Address>) -> bool + 'static> ProxyServer<T> {
    /// Creates the handler; `trusted` decides by the peer's address, which clients of Unix sockets do not have. A range of
    /// addresses is a [`Network`](waterwheel_channel::Network); for many, ask `NetworkFilter::allows` of
    /// `waterwheel-handlers`.
    pub fn new(trusted: T) -> Self {
        Self::with_decoder(trusted, ProxyDecoder::new())
    }

    /// Replaces the decoder, to change its limits.
    pub fn with_decoder(trusted: T, decoder: ProxyDecoder) -> Self {
        let chain = Inbound(Decode::new(Attempt(decoder)).then(Apply { is_done: false }));
        Self { trusted, is_trusted: None, chain }
    }

    /// True if the peer is trusted. The first call for an untrusted peer fires the error and closes the channel.
    fn check(&mut self, ctx: &Ctx<'_>) -> bool {
        if let Some(is_trusted) = self.is_trusted {
            return is_trusted;
        }
        let peer = ctx.channel().peer_address();
        let is_trusted = (self.trusted)(peer.as_ref());
        self.is_trusted = Some(is_trusted);
        if !is_trusted {
            let none = || String::from("a peer without an address");
            let peer = peer.map_or_else(none, |peer| peer.to_string());
            refuse(ProxyError::Untrusted { peer }, ctx);
        }
        is_trusted
    }
}

impl<T: Fn(Option<&Address>) -> bool + 'static> Handler for ProxyServer<T> {
    fn interest(&self) -> Events {
        self.chain.interest()
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if msg.is::<Bytes>() && !self.check(ctx) { Ok(()) } else { self.chain.on_read(ctx, msg) }
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.chain.on_read_complete(ctx)
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.chain.on_inactive(ctx)
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        self.chain.on_user_event(ctx, event)
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.chain.on_removed(ctx);
    }
}

impl<T> fmt::Debug for ProxyServer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyServer").field("is_trusted", &self.is_trusted).finish_non_exhaustive()
    }
}

fn refuse(error: ProxyError, ctx: &Ctx<'_>) {
    ctx.fire_error(Error::new(error));
    ctx.close();
}

/// A header, or the error that closes the channel.
enum HeaderOutcome {
    Header(ProxyHeader),
    Failed(ProxyError),
}

impl Message for HeaderOutcome {}

/// Decodes one header, or one failure, which consumes all bytes.
struct Attempt(ProxyDecoder);

impl Attempt {
    fn failed(error: ProxyError, buf: &mut Bytes) -> HeaderOutcome {
        buf.clear();
        HeaderOutcome::Failed(error)
    }
}

impl Decoder for Attempt {
    type Out = HeaderOutcome;

    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<HeaderOutcome>, Error> {
        Ok(match self.0.next_header(buf) {
            Ok(header) => header.map(HeaderOutcome::Header),
            Err(error) => Some(Self::failed(error, buf)),
        })
    }

    fn max_unread(&self) -> usize {
        self.0.max_unread()
    }

    fn decode_last(&mut self, buf: &mut Bytes) -> Result<Option<HeaderOutcome>, Error> {
        let outcome = if buf.is_empty() { None } else { self.decode(buf)? };
        Ok(match (outcome, buf.len()) {
            (None, 0) => None,
            (None, unread) => Some(Self::failed(ProxyError::CutOff { unread }, buf)),
            (some, _) => some,
        })
    }
}

/// Applies a header to the channel.
struct Apply {
    is_done: bool,
}

impl Stage for Apply {
    type In = HeaderOutcome;
    type Out = Infallible;

    fn on<O: Emit<Infallible>>(&mut self, outcome: HeaderOutcome, out: &mut O) -> HandlerResult {
        let ctx = out.ctx();
        if self.is_done {
            return Ok(()); // Refused already; the channel is closing.
        }
        self.is_done = true;
        match outcome {
            HeaderOutcome::Failed(error) => refuse(error, &ctx),
            HeaderOutcome::Header(header) => {
                if let Some(source) = header.source() {
                    ctx.set_peer_address(source);
                }
                ctx.fire_user_event(header);
                ctx.pipeline().remove(ctx.slot())?;
                // The requested read round delivered no message to the next handlers: request another.
                if !ctx.is_auto_read() {
                    ctx.read();
                }
            }
        }
        Ok(())
    }
}
