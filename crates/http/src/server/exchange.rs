//! One request on its way to its answer.

use std::fmt::{Debug, Display};
use std::rc::Rc;

use http::{Method, Uri, Version};
use waterwheel_channel::Channel;
use waterwheel_executor::Nanos;

use super::body_writer::BodyWriter;
use super::service_call::ServiceCall;
use crate::body::pipe::BodyPipe;
use crate::protocol::request_head::RequestHead;
use crate::service::request::Request;
use crate::service::service::Response;

/// A request in flight.
pub(super) struct ServerExchange<F> {
    pub(super) facts: RequestFacts,
    pub(super) step: ExchangeStep<F>,
}

/// How far a request is.
pub(super) enum ExchangeStep<F> {
    /// Has not been given to the service: the rest of its body may be in the same read, and may be malformed.
    Read(Box<Request>),
    /// The service is at work.
    Called(ServiceCall<F>),
    /// Waits for the answers before it.
    Answered(Box<Response>),
    /// The head of the answer is written; its body follows as the channel has room.
    Streaming(BodyWriter),
}

/// The facts that the answer depends on.
pub(super) struct RequestFacts {
    pub(super) is_head: bool,
    pub(super) is_connect: bool,
    pub(super) is_http10: bool,
    /// True if nothing follows the answer on this connection.
    pub(super) closes: bool,
    /// The body of the request, if it has one.
    pub(super) pipe: Option<Rc<BodyPipe>>,
    pub(super) began: Nanos,
    pub(super) logged: LoggedRequest,
    /// The status and the bytes of the answer, for the access log and the counters.
    pub(super) status: http::StatusCode,
    pub(super) body_bytes: u64,
}

/// The request as the access log names it.
pub(super) enum LoggedRequest {
    /// There is no access log.
    Off,
    /// The message was refused before its head was complete: there is nothing that can be named.
    Refused,
    Line(Box<(Method, Uri, Version)>),
}

impl RequestFacts {
    #[inline]
    pub(super) fn of(
        head: &RequestHead,
        pipe: Option<Rc<BodyPipe>>,
        began: Nanos,
        is_logged: bool,
    ) -> Self {
        let line = || Box::new((head.method().clone(), head.uri().clone(), head.version()));
        Self {
            is_head: *head.method() == Method::HEAD,
            is_connect: *head.method() == Method::CONNECT,
            is_http10: head.version() == Version::HTTP_10,
            closes: !head.keeps_alive(),
            pipe,
            began,
            logged: if is_logged { LoggedRequest::Line(line()) } else { LoggedRequest::Off },
            status: http::StatusCode::OK,
            body_bytes: 0,
        }
    }

    /// Writes the line of the access log, if there is one.
    #[inline]
    pub(super) fn log(&self, channel: Option<&Channel>, nanos: u64) {
        if !matches!(self.logged, LoggedRequest::Off) {
            self.log_line(channel, nanos / 1_000);
        }
    }

    #[cold]
    fn log_line(&self, channel: Option<&Channel>, micros: u64) {
        let (method, uri, version): (&dyn Display, &dyn Display, &dyn Debug) = match &self.logged {
            LoggedRequest::Off => return,
            LoggedRequest::Refused => (&"-", &"-", &format_args!("-")),
            LoggedRequest::Line(line) => (&line.0, &line.1, &line.2),
        };
        let peer = channel.and_then(Channel::peer_address);
        let peer = peer.map_or_else(|| String::from("-"), |peer| peer.to_string());
        let (status, bytes) = (self.status.as_u16(), self.body_bytes);
        tracing::info!(
            target: "waterwheel::access",
            %peer, %method, %uri, ?version, status, bytes, micros,
        );
    }

    /// Returns the facts of a message that was refused before its head was complete.
    pub(super) fn of_refused(began: Nanos, is_logged: bool) -> Self {
        Self {
            is_head: false,
            is_connect: false,
            is_http10: false,
            closes: true,
            pipe: None,
            began,
            logged: if is_logged { LoggedRequest::Refused } else { LoggedRequest::Off },
            status: http::StatusCode::OK,
            body_bytes: 0,
        }
    }
}
