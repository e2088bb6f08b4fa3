//! Parts become whole messages.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use waterwheel_channel::{Ctx, Events, Handler, HandlerResult, Msg, Signature, TypeTag};
use waterwheel_executor::Error;

use super::messages::{BodyEnd, FullRequest, FullResponse, RefuseRequest, RequestRefused};
use crate::protocol::error::MessageError;
use crate::protocol::framing::BodyFraming;
use crate::protocol::request_head::RequestHead;
use crate::protocol::response_decoder::ResponseHead;

/// Collects the parts of each message, and passes the whole on: a [`FullRequest`] or a [`FullResponse`]. Add it after the
/// codec. See [`HttpServerCodec`](crate::HttpServerCodec) and [`HttpClientCodec`](crate::HttpClientCodec) for examples.
///
/// 1. *Limit.* A body has at most as many bytes as `limit` says, and what the limits of the codec allow. A request with a
///    longer one is refused with 413, in its turn, and the connection ends; a response with a longer one is an error, and
///    the channel is closed. A Content-Length beyond the limit is enough.
/// 2. *Expect.* A client that waits for `100 Continue` is told to go on, if the length of its body is within the limit.
/// 3. *Memory.* A body that came in one piece is not copied. The memory of others grows with what has come.
/// 4. Interim responses and all other messages pass.
pub struct Aggregator {
    side: AggregatedSide,
    limit: usize,
    collected: Option<CollectedMessage>,
    /// True while the parts of a message are dropped.
    is_skipping: bool,
    /// True if the current round of reads has brought parts.
    round_had_parts: bool,
    /// True if the current round of reads has completed a message.
    round_had_message: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AggregatedSide {
    Requests,
    Responses,
}

struct CollectedMessage {
    head: CollectedHead,
    body: CollectedBody,
}

enum CollectedHead {
    Request(RequestHead),
    Response(ResponseHead),
}

/// A body so far.
enum CollectedBody {
    /// One piece, or none.
    Piece(Bytes),
    Joined(BytesMut),
}

/// The most memory that is allocated for a body before its bytes come.
const MAX_PREALLOCATED: usize = 64 * 1024;

impl Aggregator {
    /// Returns an aggregator of requests, for servers.
    #[must_use]
    pub fn of_requests(limit: usize) -> Self {
        Self::new(AggregatedSide::Requests, limit)
    }

    /// Returns an aggregator of responses, for clients.
    #[must_use]
    pub fn of_responses(limit: usize) -> Self {
        Self::new(AggregatedSide::Responses, limit)
    }

    fn new(side: AggregatedSide, limit: usize) -> Self {
        Self {
            side,
            limit,
            collected: None,
            is_skipping: false,
            round_had_parts: false,
            round_had_message: false,
        }
    }

    /// Collects a part; returns it if it is none of a message that is collected.
    fn collect(&mut self, ctx: &Ctx<'_>, msg: Msg) -> Result<(), Msg> {
        let msg = match msg.into_bytes() {
            Ok(bytes) => return self.add(ctx, bytes).map_err(Msg::from),
            Err(other) => other,
        };
        let msg = match (self.side, msg) {
            (AggregatedSide::Requests, msg) => match msg.take::<RequestHead>() {
                Ok(head) => {
                    self.begin_request(ctx, head);
                    return Ok(());
                }
                Err(other) => other,
            },
            (AggregatedSide::Responses, msg) => match msg.take::<ResponseHead>() {
                Ok(head) if head.is_interim() => return Err(head.into()),
                Ok(head) => {
                    let framing = head.framing;
                    self.begin(ctx, CollectedHead::Response(head), framing);
                    return Ok(());
                }
                Err(other) => other,
            },
        };
        let end = msg.take::<BodyEnd>()?;
        self.finish(ctx, end.trailers);
        Ok(())
    }

    fn begin_request(&mut self, ctx: &Ctx<'_>, head: RequestHead) {
        let (framing, expects_continue) = (head.framing(), head.expects_continue());
        self.begin(ctx, CollectedHead::Request(head), framing);
        if expects_continue && !self.is_skipping {
            ctx.write_and_flush(ResponseHead::go_on());
        }
    }

    fn begin(&mut self, ctx: &Ctx<'_>, head: CollectedHead, framing: BodyFraming) {
        self.is_skipping = false;
        let body = CollectedBody::Piece(Bytes::new());
        self.collected = Some(CollectedMessage { head, body });
        if let BodyFraming::Length(length) = framing {
            self.check(ctx, length);
        }
    }

    /// Refuses the message if its body is too long; returns false then.
    fn check(&mut self, ctx: &Ctx<'_>, length: u64) -> bool {
        let limit = self.limit as u64;
        if length <= limit {
            return true;
        }
        self.skip();
        let error = MessageError::BodyTooLarge { length, limit };
        match self.side {
            AggregatedSide::Requests => ctx.write(RefuseRequest(error)),
            AggregatedSide::Responses => {
                ctx.fire_error(Error::new(error));
                ctx.close_because(Error::new(error));
            }
        }
        false
    }

    fn skip(&mut self) {
        self.collected = None;
        self.is_skipping = true;
    }

    fn add(&mut self, ctx: &Ctx<'_>, bytes: Bytes) -> Result<(), Bytes> {
        let Some(collected) = &self.collected else {
            return if self.is_skipping { Ok(()) } else { Err(bytes) };
        };
        let length = collected.body.len() + bytes.len();
        if self.check(ctx, length as u64)
            && let Some(collected) = &mut self.collected
        {
            collected.body.add(bytes, collected.head.length().min(MAX_PREALLOCATED));
        }
        Ok(())
    }

    fn finish(&mut self, ctx: &Ctx<'_>, trailers: Option<Box<HeaderMap>>) {
        self.is_skipping = false;
        let Some(CollectedMessage { head, body }) = self.collected.take() else { return };
        self.round_had_message = true;
        let body = body.into_bytes();
        match head {
            CollectedHead::Request(head) => {
                let request = Request::from_parts(head.into_parts(), body);
                ctx.fire_read(FullRequest { request, trailers });
            }
            CollectedHead::Response(head) => {
                let mut response = Response::new(body);
                *response.status_mut() = head.status;
                *response.version_mut() = head.version;
                *response.headers_mut() = head.headers;
                ctx.fire_read(FullResponse { response, trailers });
            }
        }
    }
}

impl CollectedHead {
    /// Returns the length of the body, or 0 if it is not known.
    fn length(&self) -> usize {
        let framing = match self {
            Self::Request(head) => head.framing(),
            Self::Response(head) => head.framing,
        };
        match framing {
            BodyFraming::Length(length) => usize::try_from(length).unwrap_or(usize::MAX),
            _ => 0,
        }
    }
}

impl CollectedBody {
    fn len(&self) -> usize {
        match self {
            Self::Piece(bytes) => bytes.len(),
            Self::Joined(bytes) => bytes.len(),
        }
    }

    fn add(&mut self, bytes: Bytes, capacity: usize) {
        match self {
            Self::Piece(first) if first.is_empty() => *self = Self::Piece(bytes),
            Self::Piece(first) => {
                let mut joined = BytesMut::with_capacity(capacity.max(first.len() + bytes.len()));
                joined.extend_from_slice(first);
                joined.extend_from_slice(&bytes);
                *self = Self::Joined(joined);
            }
            Self::Joined(joined) => joined.extend_from_slice(&bytes),
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Piece(bytes) => bytes,
            Self::Joined(joined) => joined.freeze(),
        }
    }
}

impl Handler for Aggregator {
    fn interest(&self) -> Events {
        Events::READ | Events::READ_COMPLETE | Events::USER_EVENT
    }

    fn signature(&self) -> Signature {
        const REQUEST: &[TypeTag] =
            &[TypeTag::of::<RequestHead>(), TypeTag::of::<Bytes>(), TypeTag::of::<BodyEnd>()];
        const RESPONSE: &[TypeTag] =
            &[TypeTag::of::<ResponseHead>(), TypeTag::of::<Bytes>(), TypeTag::of::<BodyEnd>()];
        const ANSWERS: &[TypeTag] =
            &[TypeTag::of::<ResponseHead>(), TypeTag::of::<RefuseRequest>()];
        const RESPONSES: &[TypeTag] =
            &[TypeTag::of::<FullResponse>(), TypeTag::of::<ResponseHead>()];
        match self.side {
            AggregatedSide::Requests => Signature::transparent()
                .inbound(REQUEST, TypeTag::list::<FullRequest>())
                .answers(ANSWERS),
            AggregatedSide::Responses => Signature::transparent().inbound(RESPONSE, RESPONSES),
        }
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        match self.collect(ctx, msg) {
            Ok(()) => self.round_had_parts = true,
            Err(other) => {
                self.round_had_message = true;
                ctx.fire_read(other);
            }
        }
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let needs_more = std::mem::take(&mut self.round_had_parts)
            & !std::mem::take(&mut self.round_had_message);
        // No other handler knows that a message is incomplete.
        if needs_more && !ctx.is_auto_read() {
            ctx.read();
        }
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<RequestRefused>() {
            self.skip();
        }
        ctx.fire_user_event(event);
        Ok(())
    }
}
