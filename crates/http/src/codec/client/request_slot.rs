//! The slot of the encoder.

use std::borrow::Cow;
use std::rc::Rc;

use bytes::Bytes;
use http::{HeaderMap, Method, Version, header};
use waterwheel_channel::{
    Completion, Ctx, Events, FileRegion, Handler, HandlerResult, Msg, Signature, TypeTag,
};
use waterwheel_executor::Error;

use super::builder::ClientCodecOptions;
use super::exchanges::{ClientExchanges, ClientPhase};
use crate::codec::error::HttpCodecError;
use crate::codec::framed_body::FramedBody;
use crate::codec::messages::{BodyEnd, FullRequest, full_framing};
use crate::codec::part_writer::{complete_after_parts, write_parts};
use crate::outbound::output::Output;
use crate::protocol::encoder::{ConnectionField, encode_request_head, host_value, origin_form};
use crate::protocol::fields::has_element;
use crate::protocol::framing::BodyFraming;
use crate::protocol::request_head::RequestHead;

/// Encodes requests.
pub(super) struct RequestEncodeSlot {
    exchanges: Rc<ClientExchanges>,
    options: ClientCodecOptions,
    /// The body of the request whose head is written.
    body: Option<FramedBody>,
}

impl RequestEncodeSlot {
    pub(super) fn new(exchanges: Rc<ClientExchanges>, options: ClientCodecOptions) -> Self {
        Self { exchanges, options, body: None }
    }

    /// Encodes a message; returns it if it is none of the codec's.
    fn encode(&mut self, ctx: &Ctx<'_>, msg: Msg) -> Result<HandlerResult, Msg> {
        let msg = match msg.into_bytes() {
            Ok(bytes) => return Ok(self.write_part(ctx, |body, out| body.write_bytes(bytes, out))),
            Err(other) => other,
        };
        let msg = match msg.take::<RequestHead>() {
            Ok(head) => return Ok(self.write_head(ctx, head)),
            Err(other) => other,
        };
        let msg = match msg.take::<BodyEnd>() {
            Ok(end) => return Ok(self.write_end(ctx, end.trailers.as_deref())),
            Err(other) => other,
        };
        let msg = match msg.take::<FullRequest>() {
            Ok(full) => return Ok(self.write_full(ctx, full)),
            Err(other) => other,
        };
        let region = msg.take::<FileRegion>()?;
        Ok(self.write_part(ctx, |body, out| body.write_file(region, out)))
    }

    fn write_head(&mut self, ctx: &Ctx<'_>, head: RequestHead) -> HandlerResult {
        self.body = Some(self.begin_request(ctx, head, |_, _| Ok(()))?);
        Ok(())
    }

    /// Writes the head of a request, and what `rest` puts behind it.
    fn begin_request(
        &mut self,
        ctx: &Ctx<'_>,
        mut head: RequestHead,
        rest: impl FnOnce(&mut FramedBody, &mut Output<'_>) -> Result<(), HttpCodecError>,
    ) -> Result<FramedBody, Error> {
        if self.exchanges.phase() != ClientPhase::Open {
            return HttpCodecError::ConnectionEnding.refuse();
        }
        if self.body.is_some() {
            return self.fail(ctx, HttpCodecError::UnfinishedMessage);
        }
        if !head.headers().contains_key(header::HOST) {
            let host = host_value(head.uri()).ok_or(Error::new(HttpCodecError::MissingHost))?;
            head.headers_mut().insert(header::HOST, host);
        }
        let target = self.target_of(&head)?;
        let framing = match head.framing() {
            BodyFraming::UntilClose => BodyFraming::Chunked,
            framing => framing,
        };
        let connection = connection_field(&head);
        let is_last = connection == ConnectionField::Close;
        let mut body = FramedBody::new(framing, true);
        let result = write_parts(ctx, |out| {
            let dst = out.small_parts();
            encode_request_head(head.method(), &target, head.headers(), framing, connection, dst);
            rest(&mut body, out)
        });
        drop(target);
        match result {
            Ok(()) => {
                self.exchanges.begin(head.method().clone(), is_last);
                Ok(body)
            }
            Err(error) => self.fail(ctx, error),
        }
    }

    fn target_of<'a>(&self, head: &'a RequestHead) -> Result<Cow<'a, str>, Error> {
        if *head.method() == Method::CONNECT {
            return match head.uri().authority() {
                Some(authority) => Ok(authority.as_str().into()),
                None => HttpCodecError::ConnectTarget.refuse(),
            };
        }
        match self.options.writes_absolute_targets && head.uri().scheme().is_some() {
            true => Ok(head.uri().to_string().into()),
            false => Ok(origin_form(head.uri()).into()),
        }
    }

    fn write_part(
        &mut self,
        ctx: &Ctx<'_>,
        write: impl FnOnce(&mut FramedBody, &mut Output<'_>) -> Result<(), HttpCodecError>,
    ) -> HandlerResult {
        let Some(body) = &mut self.body else { return HttpCodecError::NoHead.refuse() };
        let result = write_parts(ctx, |out| write(body, out));
        result.or_else(|error| self.fail(ctx, error))
    }

    fn write_end(&mut self, ctx: &Ctx<'_>, trailers: Option<&HeaderMap>) -> HandlerResult {
        let Some(body) = self.body.take() else { return HttpCodecError::NoHead.refuse() };
        let result = write_parts(ctx, |out| body.finish(trailers, out));
        result.or_else(|error| self.fail(ctx, error))
    }

    fn write_full(&mut self, ctx: &Ctx<'_>, full: FullRequest) -> HandlerResult {
        let FullRequest { request, trailers } = full;
        let (parts, body) = request.into_parts();
        let may_lack = ![Method::POST, Method::PUT, Method::PATCH].contains(&parts.method);
        let framing = match full_framing(&body, trailers.as_deref()) {
            BodyFraming::Length(0) if may_lack => BodyFraming::None,
            framing => framing,
        };
        self.begin_request(ctx, RequestHead::from_parts(parts, framing), |request, out| {
            request.write_bytes(body, out)?;
            request.finish(trailers.as_deref(), out)
        })?;
        Ok(())
    }

    /// Cuts the connection off: what is written cannot be taken back, nor completed.
    #[cold]
    fn fail<T>(&mut self, ctx: &Ctx<'_>, error: HttpCodecError) -> Result<T, Error> {
        self.body = None;
        self.exchanges.set_phase(ClientPhase::Over);
        ctx.flush();
        ctx.close_because(Error::new(error));
        error.refuse()
    }
}

/// Returns the Connection field of a request, by its fields, which may have been changed since it was read.
fn connection_field(head: &RequestHead) -> ConnectionField {
    let has_option = |option| has_element(head.headers(), &header::CONNECTION, option);
    if !head.keeps_alive() || has_option("close") {
        ConnectionField::Close
    } else if head.version() == Version::HTTP_11
        && head.headers().contains_key(header::UPGRADE)
        && has_option("upgrade")
    {
        ConnectionField::Upgrade
    } else {
        ConnectionField::Absent
    }
}

impl Handler for RequestEncodeSlot {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn signature(&self) -> Signature {
        const PARTS: &[TypeTag] = &[
            TypeTag::of::<RequestHead>(),
            TypeTag::of::<Bytes>(),
            TypeTag::of::<FileRegion>(),
            TypeTag::of::<BodyEnd>(),
            TypeTag::of::<FullRequest>(),
        ];
        // `FileRegion` is left out: handlers that take bytes alone, such as TLS, may stand before a codec that writes no
        // files.
        Signature::transparent().outbound(PARTS, TypeTag::list::<Bytes>())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        if self.exchanges.phase() == ClientPhase::Upgraded {
            ctx.write_with(msg, done.take());
            return Ok(());
        }
        match self.encode(ctx, msg) {
            Ok(Ok(())) => complete_after_parts(ctx, done),
            Ok(Err(error)) => return Err(error),
            Err(other) => ctx.write_with(other, done.take()),
        }
        Ok(())
    }
}
