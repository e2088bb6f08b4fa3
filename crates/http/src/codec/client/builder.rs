//! The options of a client's codec, and how it is added to a pipeline.

use std::rc::Rc;

use waterwheel_channel::{Edit, Name, PipelineError, SlotId};

use super::exchanges::ClientExchanges;
use super::request_slot::RequestEncodeSlot;
use super::response_slot::ResponseDecodeSlot;
use crate::protocol::limits::MessageLimits;

/// The codec of an HTTP/1.1 client: requests become bytes, bytes become responses.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_http::{Aggregator, FullRequest, FullResponse, HttpClientCodec};
/// use waterwheel_testkit::embedded::Embedded;
///
/// let mut channel = Embedded::new(|edit| {
///     HttpClientCodec::default().add_last(edit, "http")?;
///     edit.add_last("whole", Aggregator::of_responses(64 * 1024))?;
///     Ok(())
/// })?;
/// let request = http::Request::get("http://example.org/a").body(Bytes::new())?;
/// channel.write_outbound(FullRequest::from(request));
/// let bytes = channel.read_outbound::<Bytes>().unwrap();
/// assert_eq!(bytes, "GET /a HTTP/1.1\r\nhost: example.org\r\n\r\n");
/// channel.write_inbound(Bytes::from_static(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"));
/// let answer = channel.read_inbound::<FullResponse>().unwrap().response;
/// assert_eq!((answer.status().as_u16(), &answer.body()[..]), (200, &b"hi"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// 1. *Out:* [`RequestHead`](crate::RequestHead), then `Bytes` or `FileRegion`s, then [`BodyEnd`](crate::BodyEnd); or
///    [`FullRequest`](crate::FullRequest). *In:* [`ResponseHead`](crate::ResponseHead), `Bytes`, `BodyEnd`; interim
///    responses are heads alone. Responses come in the order of the requests, any number of which may be in flight.
/// 2. *Framing.* The codec writes Content-Length, Transfer-Encoding and Connection, and Host from the URI if there is
///    none. A body that is longer or shorter than its head says fails the write, and closes the channel.
/// 3. *Errors.* A malformed response, one that no request asked for, and an end of the input before all requests are
///    answered are errors: they are fired inward, and the channel is closed.
/// 4. *End.* The channel is closed after a response behind which the server sends no other.
/// 5. *Upgrade.* After a response of status 101, or of 2xx to CONNECT, nothing more is decoded: the handler removes the
///    codec (`edit.remove_codec(name)`) after it has added the handlers of the next protocol, and the bytes behind the
///    response are passed on to them.
#[derive(Clone, Debug, Default)]
pub struct HttpClientCodec {
    pub(super) options: ClientCodecOptions,
}

/// The options of a codec.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClientCodecOptions {
    pub(super) limits: MessageLimits,
    pub(super) writes_absolute_targets: bool,
}

impl HttpClientCodec {
    /// Returns a builder, for other options than the default ones.
    pub fn builder() -> HttpClientCodecBuilder {
        HttpClientCodecBuilder::default()
    }

    /// Adds the codec at the back, as `name/decoder` and `name/encoder`.
    ///
    /// # Errors
    /// [`PipelineError`]: the name is in use.
    pub fn add_last(
        &self,
        edit: &mut Edit<'_>,
        name: impl Into<Name>,
    ) -> Result<(SlotId, SlotId), PipelineError> {
        let exchanges = Rc::new(ClientExchanges::default());
        let decoder = ResponseDecodeSlot::new(exchanges.clone(), self.options.limits);
        edit.add_codec(name, decoder, RequestEncodeSlot::new(exchanges, self.options))
    }
}

/// Builds an [`HttpClientCodec`]. Created by [`HttpClientCodec::builder`].
///
/// ```
/// use waterwheel_http::{HttpClientCodec, MessageLimits};
///
/// let codec = HttpClientCodec::builder()
///     .limits(MessageLimits::default().max_body_bytes(u64::MAX))
///     .absolute_targets()
///     .build();
/// # drop(codec);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct HttpClientCodecBuilder {
    options: ClientCodecOptions,
}

impl HttpClientCodecBuilder {
    /// Sets the limits of responses. `MessageLimits::default()` by default.
    pub fn limits(mut self, limits: MessageLimits) -> Self {
        self.options.limits = limits;
        self
    }

    /// Writes whole URIs as the targets of requests, for a proxy. By default the path with the query.
    pub fn absolute_targets(mut self) -> Self {
        self.options.writes_absolute_targets = true;
        self
    }

    /// Builds the codec.
    #[must_use]
    pub fn build(self) -> HttpClientCodec {
        HttpClientCodec { options: self.options }
    }
}
