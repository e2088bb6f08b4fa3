//! A request and its response on a connection.

use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method};
use waterwheel_channel::{ReadPause, TimerId};
use waterwheel_executor::Nanos;
use waterwheel_pool::Lease;

use super::call::CallOutcome;
use super::request_sender::{RequestSender, SentBody, SentSource};
use crate::body::outgoing::BodyRepr;
use crate::body::pipe::BodyPipe;
use crate::protocol::encoder::{ConnectionField, encode_request_head};
use crate::protocol::framing::BodyFraming;

/// A request in the form in which a connection takes it.
pub(in crate::client) struct SentRequest {
    pub(in crate::client) method: Method,
    /// The request target in the form that the connection needs.
    pub(in crate::client) target: String,
    pub(in crate::client) headers: HeaderMap,
    pub(in crate::client) connection: ConnectionField,
    pub(in crate::client) framing: BodyFraming,
    pub(in crate::client) body: BodyRepr,
    /// True if the server is asked whether it wants the body.
    pub(in crate::client) expects_continue: bool,
    pub(in crate::client) limits: ExchangeLimits,
}

/// The limits of time of an exchange.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) struct ExchangeLimits {
    /// From the request to the head of the response.
    pub(in crate::client) head: Option<Duration>,
    /// Without a byte of either body.
    pub(in crate::client) body: Option<Duration>,
    /// The end of the whole request, and its limit for errors.
    pub(in crate::client) whole: Option<(Nanos, Duration)>,
}

/// The exchange that a connection is at work on.
pub(super) struct ClientExchange {
    pub(super) outcome: Rc<CallOutcome>,
    pub(super) lease: Lease,
    pub(super) limits: ExchangeLimits,
    /// True if the method is CONNECT: a successful response ends HTTP.
    pub(super) is_connect: bool,
    /// True if the request asks for another protocol.
    pub(super) wants_upgrade: bool,
    /// The body of the request; `None` once it is sent or given up.
    pub(super) sender: Option<RequestSender>,
    pub(super) request: RequestProgress,
    pub(super) response: ResponseProgress,
    /// True if the connection may carry another exchange, as far as known.
    pub(super) keeps_alive: bool,
    pub(super) interim_responses: u32,
    /// True once a byte of the response has come.
    pub(super) has_bytes: bool,
    /// The body of the response, once its head has come.
    pub(super) pipe: Option<Rc<BodyPipe>>,
    /// Reads are paused from the end of HTTP until the channel is taken over.
    pub(super) pause: Option<ReadPause>,
    pub(super) timers: ExchangeTimers,
}

/// How far a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestProgress {
    Sending,
    /// Everything was written, at this time.
    Sent(Nanos),
    /// The rest is not sent: the server has answered before.
    GivenUp,
}

/// How far a response has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseProgress {
    Head,
    Body,
    Complete,
    /// The connection has left HTTP.
    Upgraded,
}

/// The timers of an exchange, which end with it.
#[derive(Default)]
pub(super) struct ExchangeTimers {
    pub(super) head: Option<TimerId>,
    pub(super) proceed: Option<TimerId>,
    pub(super) drain: Option<TimerId>,
    pub(super) whole: Option<TimerId>,
}

impl ExchangeTimers {
    pub(super) fn into_iter(self) -> impl Iterator<Item = TimerId> {
        [self.head, self.proceed, self.drain, self.whole].into_iter().flatten()
    }
}

impl SentRequest {
    /// Returns the head as bytes, and the body if it has any. Files are copied if `is_copied` is set.
    pub(super) fn encode(self, is_copied: bool) -> (Bytes, Option<RequestSender>) {
        let framing = self.framing;
        let mut head = BytesMut::with_capacity(256 + self.target.len());
        encode_request_head(
            &self.method,
            &self.target,
            &self.headers,
            framing,
            self.connection,
            &mut head,
        );
        let body = match self.body {
            BodyRepr::Bytes(bytes) if !bytes.is_empty() => SentBody::Bytes(bytes),
            BodyRepr::File(region) if !region.is_empty() => SentBody::File { region, is_copied },
            BodyRepr::Source(source) => match framing {
                BodyFraming::Chunked => SentBody::Source(SentSource::new(source, None, is_copied)),
                BodyFraming::Length(length) => {
                    SentBody::Source(SentSource::new(source, Some(length), is_copied))
                }
                BodyFraming::None | BodyFraming::UntilClose => return (head.freeze(), None),
            },
            // The body of an upgrade is refused before a connection is looked for.
            _ => return (head.freeze(), None),
        };
        (head.freeze(), Some(RequestSender::new(body, self.expects_continue)))
    }
}
