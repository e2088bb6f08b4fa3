//! A request on its way: what is sent, perhaps several times.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::Uri;
use http::{HeaderMap, HeaderValue, Method, header};
use waterwheel_channel::FileRegion;
use waterwheel_executor::Nanos;

use super::connection::exchange::{ExchangeLimits, SentRequest};
use super::destination::Destination;
use super::error::ClientError;
use super::options::ClientOptions;
use super::proxy::Proxy;
use crate::body::outgoing::{Body, BodyRepr};
use crate::body::source::BodySource;
use crate::protocol::encoder::{ConnectionField, host_value, origin_form};
use crate::protocol::fields::has_element;
use crate::protocol::framing::BodyFraming;

/// The options of one request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestOptions {
    pub(super) timeout: Option<Duration>,
    pub(super) expects_continue: bool,
}

/// A request with its destination, which redirects change.
pub(super) struct OutgoingRequest {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) destination: Destination,
    pub(super) headers: HeaderMap,
    pub(super) body: OutgoingBody,
    expects_continue: bool,
    /// The end of the whole request, and its limit for errors.
    pub(super) whole: Option<(Nanos, Duration)>,
}

/// The body of a request: what is no stream can be sent again.
pub(super) enum OutgoingBody {
    Empty,
    Bytes(Bytes),
    File(FileRegion),
    /// `None` once it was sent.
    Stream {
        source: Option<Box<dyn BodySource>>,
        length: Option<u64>,
    },
}

impl OutgoingBody {
    pub(super) fn is_repeatable(&self) -> bool {
        !matches!(self, Self::Stream { .. })
    }

    fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::File(region) => Some(region.len()),
            Self::Stream { length, .. } => *length,
        }
    }

    /// Returns the body to send, a copy unless it is a stream.
    fn take(&mut self) -> BodyRepr {
        match self {
            Self::Empty => BodyRepr::Empty,
            Self::Bytes(bytes) => BodyRepr::Bytes(bytes.clone()),
            Self::File(region) => BodyRepr::File(region.clone()),
            Self::Stream { source, .. } => source.take().map_or(BodyRepr::Empty, BodyRepr::Source),
        }
    }

    /// Returns the framing of the body in a request with this method.
    fn framing(&self, method: &Method) -> BodyFraming {
        // Servers take a POST without a length for one whose length is missing.
        let has_body_by_nature = [Method::POST, Method::PUT, Method::PATCH].contains(method);
        match self.length() {
            Some(0) if !has_body_by_nature => BodyFraming::None,
            Some(length) => BodyFraming::Length(length),
            None => BodyFraming::Chunked,
        }
    }
}

impl OutgoingRequest {
    pub(super) fn new(
        request: http::Request<Body>,
        destination: Destination,
        expects_continue: bool,
    ) -> Result<Self, ClientError> {
        let (mut parts, body) = request.into_parts();
        if let Some(content_type) = body.content_type()
            && !parts.headers.contains_key(header::CONTENT_TYPE)
        {
            parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        let body = match body.into_repr() {
            BodyRepr::Empty => OutgoingBody::Empty,
            BodyRepr::Bytes(bytes) => OutgoingBody::Bytes(bytes),
            BodyRepr::File(region) => OutgoingBody::File(region),
            BodyRepr::Source(source) => {
                let length = source.exact_len();
                OutgoingBody::Stream { source: Some(source), length }
            }
            BodyRepr::Upgrade(_) => {
                return Err(invalid("Body::upgrade is a body of responses; see into_upgraded"));
            }
        };
        if parts.method == Method::CONNECT && body.length() != Some(0) {
            return Err(invalid("CONNECT has no body"));
        }
        let (method, uri, headers) = (parts.method, parts.uri, parts.headers);
        Ok(Self { method, uri, destination, headers, body, expects_continue, whole: None })
    }

    /// True if sending the request twice does what sending it once does, and its body is still there.
    pub(super) fn may_be_repeated(&self) -> bool {
        let is_idempotent = matches!(
            self.method,
            Method::GET
                | Method::HEAD
                | Method::PUT
                | Method::DELETE
                | Method::OPTIONS
                | Method::TRACE
        );
        is_idempotent && self.body.is_repeatable()
    }

    /// Returns the request as a connection takes it. A stream is in the first one only. `proxy` is the proxy that reads
    /// the request.
    pub(super) fn make_sent(
        &mut self,
        options: &ClientOptions,
        proxy: Option<&Proxy>,
    ) -> SentRequest {
        let framing = self.body.framing(&self.method);
        let has_body = !matches!(framing, BodyFraming::None | BodyFraming::Length(0));
        let expects_continue = self.expects_continue && has_body;
        let mut headers = HeaderMap::with_capacity(self.headers.len() + 3);
        // Host comes first (RFC 9110, section 7.2).
        let host = self.headers.get(header::HOST).cloned().or_else(|| self.host());
        if let Some(host) = host {
            headers.insert(header::HOST, host);
        }
        for (name, value) in &self.headers {
            if *name != header::HOST && *name != header::EXPECT {
                headers.append(name.clone(), value.clone());
            }
        }
        if expects_continue {
            headers.insert(header::EXPECT, HeaderValue::from_static("100-continue"));
        }
        if let Some(authorization) = proxy.and_then(|proxy| proxy.authorization.clone()) {
            headers.insert(header::PROXY_AUTHORIZATION, authorization);
        }
        let connection = match () {
            () if self.headers.contains_key(header::UPGRADE) => ConnectionField::Upgrade,
            () if has_element(&self.headers, &header::CONNECTION, "close") => {
                ConnectionField::Close
            }
            () => ConnectionField::Absent,
        };
        SentRequest {
            method: self.method.clone(),
            target: self.target(proxy.is_some()),
            headers,
            connection,
            framing,
            body: self.body.take(),
            expects_continue,
            limits: ExchangeLimits {
                head: options.head_timeout,
                body: options.body_timeout,
                whole: self.whole,
            },
        }
    }

    fn host(&self) -> Option<HeaderValue> {
        match self.method {
            Method::CONNECT => HeaderValue::from_str(&self.destination.authority).ok(),
            _ => host_value(&self.uri),
        }
    }

    /// Returns the request target: for a server the path, for a proxy the whole URL, for CONNECT the host and port.
    fn target(&self, for_proxy: bool) -> String {
        if self.method == Method::CONNECT {
            return self.destination.authority.to_string();
        }
        let path = origin_form(&self.uri);
        // A URL without a path may have a query.
        let slash = if path.starts_with('/') { "" } else { "/" };
        match (for_proxy, self.uri.authority()) {
            (true, Some(authority)) => format!("http://{authority}{slash}{path}"),
            _ => format!("{slash}{path}"),
        }
    }

    /// Returns the request for a tunnel to the server of this request.
    pub(super) fn tunnel(
        destination: &Destination,
        proxy: &Proxy,
        options: &ClientOptions,
    ) -> SentRequest {
        let mut headers = HeaderMap::new();
        if let Ok(host) = HeaderValue::from_str(&destination.authority) {
            headers.insert(header::HOST, host);
        }
        if let Some(authorization) = &proxy.authorization {
            headers.insert(header::PROXY_AUTHORIZATION, authorization.clone());
        }
        SentRequest {
            method: Method::CONNECT,
            target: destination.authority.to_string(),
            headers,
            connection: ConnectionField::Absent,
            framing: BodyFraming::None,
            body: BodyRepr::Empty,
            expects_continue: false,
            limits: ExchangeLimits {
                head: options.head_timeout,
                body: options.body_timeout,
                whole: None,
            },
        }
    }
}

fn invalid(reason: &'static str) -> ClientError {
    ClientError::InvalidRequest { reason: Arc::from(reason) }
}
