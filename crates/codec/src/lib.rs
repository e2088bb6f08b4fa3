//! Framing codecs: from a stream of bytes to messages, and back. They know pipelines, not sockets.
//!
//! ```text
//!   Bytes ──► LineDecoder ──Bytes──► Utf8 ──String──► your handler
//!   Bytes ◄────────── LineEncoder ◄── String, &str, Bytes ──┘
//! ```
//!
//! What a server that speaks lines of text needs, and the test of it:
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
//!     type In = String; // A line, without its end.
//!
//!     fn on_read(&mut self, ctx: &Ctx<'_>, name: String) -> HandlerResult {
//!         ctx.write_and_flush(format!("hello {name}")); // Its end is added on the way out.
//!         Ok(())
//!     }
//!
//!     fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
//!         ctx.write_and_flush(format!("ERR {error}")); // The next line is read as any other.
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
//! assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "hello ann\n");
//! assert_eq!(
//!     channel.read_outbound::<Bytes>().unwrap(),
//!     "ERR a line is 25 bytes long, and may be 16\n"
//! );
//! assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "hello bob\n");
//! # Ok::<(), Error>(())
//! ```
//!
//! # Rooms
//!
//! | for | take |
//! |---|---|
//! | lines of text | [`LineDecoder::text`] and [`LineEncoder`], by [`Edit::add_codec`] |
//! | lines as bytes, without a copy | [`LineDecoder`] in a [`Decode`], and [`LineEncoder`] |
//! | lines in a chain of stages, with nothing allocated in between | the same `Decode` as their first [`Stage`] |
//! | frames that carry their length | [`LengthField`], which makes the decoder and its prepender |
//! | frames that end with a delimiter | [`Delimiters`], which makes the decoder and its encoder |
//! | frames of one length | [`FixedLength`], both ways |
//! | messages of Protocol Buffers | [`VarintDecoder`] in a [`Decode`], and [`VarintPrepender`] |
//! | JSON objects and arrays | [`JsonDecoder`] in a [`Decode`] |
//! | Redis, as a client | [`RespDecoder`] in a [`Decode`], and [`RespEncoder`] |
//! | Redis, as a server | [`RespCommandDecoder`] in a [`Decode`], and [`RespEncoder`] |
//! | a server behind a proxy | [`ProxyServer`], before all else |
//! | a proxy that says whom it speaks for | [`ProxyEncoder`] in an [`Encode`](waterwheel_channel::Encode) |
//! | text of any frames | [`Utf8`] or [`LossyUtf8`], as a stage behind their decoder, and [`TextEncoder`] behind their encoder |
//!
//! [`Edit::add_codec`]: waterwheel_channel::Edit::add_codec
//! [`Decode`]: waterwheel_channel::Decode
//! [`Stage`]: waterwheel_channel::Stage
#![forbid(unsafe_code)]

mod frame;
mod proxy;
mod quoted;
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
pub use crate::proxy::{
    ProxyAddresses, ProxyDecoder, ProxyEncoder, ProxyError, ProxyHeader, ProxyServer, ProxyTlv,
};
pub use crate::quoted::Quoted;
pub use crate::resp::{
    RespCommand, RespCommandDecoder, RespDecoder, RespEncoder, RespError, RespLimits, RespValue,
    RespVersion,
};
pub use crate::text::conversion::{LossyUtf8, TextEncoder};
pub use crate::text::json::JsonDecoder;
pub use crate::text::line_decoder::{LineDecoder, LineTooLong, LineUnfinished, TextLines};
pub use crate::text::line_encoder::{EmbeddedLineEnd, LineEncoder};
pub use crate::text::utf8::{NotUtf8, Utf8};
