//! Codecs: from a byte stream to messages and back. They know pipelines, not sockets.
//!
//! ```text
//!   Bytes ──► LineDecoder ──Bytes──► Utf8 ──String──► your handler
//!   Bytes ◄────────── LineEncoder ◄── String, &str, Bytes ──┘
//! ```
//!
//! A server with lines of text, and its test:
//!
//! ```
//! use bytes::Bytes;
//! use waterwheel_channel::{Ctx, HandlerResult, In, InboundHandler};
//! use waterwheel_codec::{LineDecoder, LineEncoder};
//! use waterwheel_executor::Error;
//! use waterwheel_testkit::embedded::Embedded;
//!
//! struct Greeter;
//!
//! impl InboundHandler for Greeter {
//!     type In = String; // A line without its end.
//!
//!     fn on_read(&mut self, ctx: &Ctx<'_>, name: String) -> HandlerResult {
//!         ctx.write_and_flush(format!("hello {name}")); // The encoder adds the line end.
//!         Ok(())
//!     }
//!
//!     fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
//!         ctx.write_and_flush(format!("ERR {error}")); // The next line is read normally.
//!         Ok(())
//!     }
//! }
//!
//! let mut channel = Embedded::builder().stream().build(|edit| {
//!     edit.add_codec("lines", LineDecoder::new(16).text(), LineEncoder::new())?;
//!     edit.add_last("greeter", In(Greeter))?;
//!     Ok(())
//! })?;
//! channel.write_inbound(Bytes::from_static(b"ann\r\na name of two dozen bytes\nbo"));
//! channel.write_inbound(Bytes::from_static(b"b\n"));
//! // Small answers of one call into a channel are one part of its outbound buffer.
//! assert_eq!(
//!     channel.read_outbound::<Bytes>().unwrap(),
//!     "hello ann\nERR a line has 25 bytes; at most 16 are allowed\n"
//! );
//! assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "hello bob\n");
//! # Ok::<(), Error>(())
//! ```
//!
//! # Codecs
//!
//! | for | take |
//! |---|---|
//! | lines of text | [`LineDecoder::text`] and [`LineEncoder`], by [`Edit::add_codec`] |
//! | lines as bytes, without a copy | [`LineDecoder`] in a [`Decode`], and [`LineEncoder`] |
//! | lines in a static chain of stages, without allocations in between | the same `Decode` as the first [`Stage`] |
//! | frames with a length field | [`LengthField`], which builds decoder and prepender |
//! | frames that end with a delimiter | [`Delimiters`], which builds decoder and encoder |
//! | frames of a fixed length | [`FixedLength`], in both directions |
//! | messages of Protocol Buffers | [`VarintDecoder`] in a [`Decode`], and [`VarintPrepender`] |
//! | JSON objects and arrays | [`JsonDecoder`] in a [`Decode`] |
//! | Redis, as a client | [`RespDecoder`] in a [`Decode`], and [`RespEncoder`] |
//! | Redis, as a server | [`RespCommandDecoder`] in a [`Decode`], and [`RespEncoder`] |
//! | NATS, as a client or as a server | [`NatsDecoder`] in a [`Decode`], and [`NatsEncoder`] |
//! | a server behind a proxy | [`ProxyServer`], as the first handler |
//! | a proxy that sends the client's address | [`ProxyEncoder`] in an [`Encode`](waterwheel_channel::Encode) |
//! | text in any frames | [`Utf8`] or [`LossyUtf8`] as a stage after the decoder, and [`TextEncoder`] after the encoder |
//!
//! [`Edit::add_codec`]: waterwheel_channel::Edit::add_codec
//! [`Decode`]: waterwheel_channel::Decode
//! [`Stage`]: waterwheel_channel::Stage
#![forbid(unsafe_code)]

mod frame;
mod nats;
mod proxy;
mod resp;
mod text;

pub use crate::frame::delimiter_decoder::DelimiterDecoder;
pub use crate::frame::delimiter_encoder::DelimiterEncoder;
pub use crate::frame::delimiter_options::Delimiters;
pub use crate::frame::error::{FrameError, InvalidFrames};
pub use crate::frame::fixed_length::FixedLength;
pub use crate::frame::length_field::{DEFAULT_MAX_FRAME, InvalidLengthField, LengthField};
pub use crate::frame::length_field_decoder::{LengthFieldDecoder, LengthFieldError};
pub use crate::frame::length_field_prepender::LengthFieldPrepender;
pub use crate::frame::varint::{VarintDecoder, VarintPrepender};
pub use crate::nats::{
    NatsDecoder, NatsEncoder, NatsError, NatsHeaders, NatsLimits, NatsMessage, NatsOperation,
};
pub use crate::proxy::{
    ProxyAddresses, ProxyDecoder, ProxyEncoder, ProxyError, ProxyHeader, ProxyServer, ProxyTlv,
};
pub use crate::resp::{
    RespCommand, RespCommandDecoder, RespDecoder, RespEncoder, RespError, RespLimits, RespValue,
    RespVersion,
};
pub use crate::text::conversion::{LossyUtf8, TextEncoder};
pub use crate::text::json::JsonDecoder;
pub use crate::text::line_decoder::{LineDecoder, LineTooLong, LineUnfinished, TextLines};
pub use crate::text::line_encoder::{EmbeddedLineEnd, LineEncoder};
pub use crate::text::utf8::{NotUtf8, Utf8};
