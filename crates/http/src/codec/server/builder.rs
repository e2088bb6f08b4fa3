//! The options of a server's codec, and how it is added to a pipeline.

use std::rc::Rc;
use std::time::Duration;

use waterwheel_channel::{Edit, Name, PipelineError, SlotId};

use super::connection::ServerConnection;
use super::decode_slot::RequestDecodeSlot;
use super::encode_slot::AnswerEncodeSlot;
use crate::protocol::limits::MessageLimits;
use crate::server::options::{
    DEFAULT_LINGER, DEFAULT_MAX_PIPELINED, InvalidHttpOption, check_limits,
};

/// The codec of an HTTP/1.1 server: bytes become requests, answers become bytes.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_async::{OrderedAnswers, handler_fn};
/// use waterwheel_executor::Error;
/// use waterwheel_http::{Aggregator, FullRequest, FullResponse, HttpServerCodec};
/// use waterwheel_testkit::embedded::Embedded;
///
/// let mut channel = Embedded::new(|edit| {
///     HttpServerCodec::default().add_last(edit, "http")?;
///     edit.add_last("whole", Aggregator::of_requests(64 * 1024))?;
///     // Calls may finish in any order: their answers are written in the order of the requests.
///     let echo = handler_fn(|message: FullRequest| async move {
///         let body = message.request.into_body();
///         Ok::<_, Error>(FullResponse::from(http::Response::new(body)))
///     });
///     edit.add_last("answers", OrderedAnswers::new(echo))?;
///     Ok(())
/// })?;
/// channel.write_inbound(Bytes::from_static(
///     b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
/// ));
/// let answer = channel.read_outbound::<Bytes>().unwrap();
/// assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\ndate: ") && answer.ends_with(b"\r\n\r\nhello"));
/// # Ok::<(), Error>(())
/// ```
///
/// 1. *In:* [`RequestHead`](crate::RequestHead), `Bytes`, [`BodyEnd`](crate::BodyEnd). *Out:*
///    [`ResponseHead`](crate::ResponseHead), then `Bytes` or `FileRegion`s, then `BodyEnd`; or
///    [`FullResponse`](crate::FullResponse). Answers come in the order of the requests: the handlers see to that.
/// 2. *Framing.* The codec writes Content-Length, Transfer-Encoding, Connection and Date. A body of unknown length goes
///    in chunks, to a client of HTTP/1.0 until the connection ends. The bodies of answers to HEAD and of status 204 and
///    304 are dropped. A body that is longer or shorter than its head says fails the write, and closes the channel.
/// 3. *Interim answers* are heads with status 1xx. `100 Continue` waits until all requests before it are answered, and
///    is left out if the client does not wait for it; other interim answers go before the next answer.
/// 4. *A refused request* is answered by the codec with the status of
///    [`MessageError`](crate::MessageError::status), after the answers before it; handlers get the user event
///    [`RequestRefused`](crate::RequestRefused). Then the connection ends, as after every last answer: the output is
///    shut down, and what the client still sends is dropped until it ends, or for [`linger`](HttpServerCodecBuilder::linger).
///    If the answer of that request has begun, the connection is cut off instead.
/// 5. *Requests in flight* are limited by [`max_pipelined`](HttpServerCodecBuilder::max_pipelined): no further one is
///    decoded, and reads are paused, until there is room and the channel is writable.
///    A request may be answered before its body has come: the rest of it is passed on, but if that is more than 64 KiB, or
///    the client still waits for `100 Continue`, the answer is the last one.
/// 6. *Drain.* An idle connection is closed; the last answer in flight says `Connection: close`.
/// 7. *End of the input.* With `allow_half_closure`, everything is answered, and then the channel is closed.
/// 8. *Upgrade.* After an Upgrade or CONNECT request nothing more is decoded until it is answered. When it is answered
///    with 101, or CONNECT with 2xx, which needs the whole request, the handler adds the handlers of the next protocol and then removes the codec
///    (`edit.remove_codec(name)`), in one edit: the bytes behind the request are passed on to them.
#[derive(Clone, Debug)]
pub struct HttpServerCodec {
    pub(super) options: ServerCodecOptions,
}

/// The options of a codec.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerCodecOptions {
    pub(super) limits: MessageLimits,
    pub(super) max_pipelined: usize,
    pub(super) continues_by_itself: bool,
    pub(super) linger: Duration,
}

impl Default for HttpServerCodec {
    fn default() -> Self {
        Self { options: HttpServerCodecBuilder::default().options }
    }
}

impl HttpServerCodec {
    /// Returns a builder, for other options than the default ones.
    pub fn builder() -> HttpServerCodecBuilder {
        HttpServerCodecBuilder::default()
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
        let connection = Rc::new(ServerConnection::new(self.options));
        let decoder = RequestDecodeSlot::new(connection.clone());
        edit.add_codec(name, decoder, AnswerEncodeSlot::new(connection))
    }
}

/// Builds an [`HttpServerCodec`]. Created by [`HttpServerCodec::builder`].
///
/// ```
/// use std::time::Duration;
/// use waterwheel_http::{HttpServerCodec, MessageLimits};
///
/// let codec = HttpServerCodec::builder()
///     .limits(MessageLimits::default().max_body_bytes(1024))
///     .max_pipelined(4)
///     .continue_by_itself()
///     .linger(Duration::from_secs(1))
///     .build()?;
/// # drop(codec);
/// assert!(HttpServerCodec::builder().max_pipelined(0).build().is_err());
/// # Ok::<(), waterwheel_http::InvalidHttpOption>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct HttpServerCodecBuilder {
    options: ServerCodecOptions,
}

impl Default for HttpServerCodecBuilder {
    fn default() -> Self {
        let options = ServerCodecOptions {
            limits: MessageLimits::default(),
            max_pipelined: DEFAULT_MAX_PIPELINED,
            continues_by_itself: false,
            linger: DEFAULT_LINGER,
        };
        Self { options }
    }
}

impl HttpServerCodecBuilder {
    /// Sets the limits of requests. `MessageLimits::default()` by default.
    pub fn limits(mut self, limits: MessageLimits) -> Self {
        self.options.limits = limits;
        self
    }

    /// Sets how many requests may be in flight: decoded, and not answered. 16 by default.
    pub fn max_pipelined(mut self, requests: usize) -> Self {
        self.options.max_pipelined = requests;
        self
    }

    /// Tells every client that waits for it to go on with its body. By default a handler does, by writing
    /// [`ResponseHead::go_on`](crate::ResponseHead::go_on); an [`Aggregator`](crate::Aggregator) is such a handler.
    pub fn continue_by_itself(mut self) -> Self {
        self.options.continues_by_itself = true;
        self
    }

    /// Sets for how long a client may go on sending after the last answer, and for how long it may read nothing of what
    /// is left of that. Five seconds by default.
    pub fn linger(mut self, time: Duration) -> Self {
        self.options.linger = time;
        self
    }

    /// Builds the codec.
    ///
    /// # Errors
    /// [`InvalidHttpOption`] names the option.
    pub fn build(self) -> Result<HttpServerCodec, InvalidHttpOption> {
        if self.options.max_pipelined == 0 {
            return Err(InvalidHttpOption::Zero { option: "max_pipelined" });
        }
        check_limits(&self.options.limits)?;
        Ok(HttpServerCodec { options: self.options })
    }
}
