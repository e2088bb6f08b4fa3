//! HTTP/1.1 on Waterwheel's loops: servers and clients.
//!
//! A server is an async function from a request to a response, called on the loop of its connection; it need not be `Send`:
//!
//! ```
//! use bytes::Bytes;
//! use waterwheel_http::{HttpServer, Request};
//! use waterwheel_testkit::embedded::Embedded;
//!
//! async fn hello(request: Request) -> String {
//!     format!("Hello from {}", request.path())
//! }
//!
//! let server = HttpServer::new(hello); // `server.bind(&group, Tcp, "127.0.0.1:8080")` listens.
//! let mut channel = Embedded::builder().stream().build(|edit| server.initialise(edit))?;
//! channel.write_inbound(Bytes::from_static(b"GET /you HTTP/1.1\r\nHost: example.org\r\n\r\n"));
//! let answer = channel.read_outbound::<Bytes>().unwrap();
//! assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.ends_with(b"\r\n\r\nHello from /you"));
//! # Ok::<(), waterwheel_executor::Error>(())
//! ```
//!
//! `docs/HTTP.md` is the guide: what to take for what, limits, time, drain, and a table of what is refused and why.
//!
//! # Parts
//!
//! | module | contents | begin with |
//! |---|---|---|
//! | `server` | the handler of a connection: reads requests, calls a service, writes answers in order | [`serve`], [`HttpServer`] |
//! | `client` | requests over pooled connections: TLS, redirects, proxies, limits of time | [`Client`] |
//! | `service` | what answers requests: services, routes, JSON, queries, tower | [`Service`], [`Request`], [`Router`] |
//! | `codec` | handlers that pass messages on part by part, for pipelines of your own | [`HttpServerCodec`], [`HttpClientCodec`], [`Aggregator`] |
//! | `outbound` | what the server and the codecs write with: the bytes of a call, the date | |
//! | `body` | bodies on their way in and out | [`Incoming`], [`Body`], [`BodySource`] |
//! | `files` | files of a folder: ranges, conditions, types | [`Files`] |
//! | `coding` (features `gzip`, `brotli`, `zstd`) | compressed answers, decompressed requests | `compressed`, `Compression`, `decompressed` |
//! | `content` | the names of content codings, and their negotiation | [`ContentCoding`], [`AcceptEncoding`] |
//! | `events` | server-sent events, both sides | [`EventStream`], [`EventSender`], [`EventDecoder`] |
//! | `protocol` | messages as state machines over bytes, without I/O | [`RequestDecoder`], [`ResponseDecoder`], [`MessageLimits`] |
//!
//! A module imports its own layer and those below: `protocol` and `content`, `body`, `service`, then `files`, `coding` and
//! `events`, then the connections: `outbound`, `server`, `client` and `codec`.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `gzip`, `brotli`, `zstd` | content codings, each with its library: `Compression`, `decompress` |
//! | `json` | bodies as JSON: `Json`, `request_json` |
//! | `tower` | services of the tower ecosystem, such as axum's routers: `TowerService` |
//!
//! None is on by default. No feature changes what code does without it.
#![forbid(unsafe_code)]

mod body;
mod client;
mod codec;
#[cfg(any(feature = "brotli", feature = "gzip", feature = "zstd"))]
mod coding;
mod content;
mod events;
mod files;
mod outbound;
mod protocol;
mod server;
mod service;

pub use crate::body::error::BodyError;
pub use crate::body::incoming::{ChangedBody, Incoming};
pub use crate::body::outgoing::Body;
pub use crate::body::source::{BodyChunk, BodySource, poll_source};
pub use crate::client::client::Client;
pub use crate::client::error::{ClientError, InvalidClient};
pub use crate::client::options::ClientBuilder;
pub use crate::client::proxy::Proxy;
pub use crate::client::request_builder::RequestBuilder;
pub use crate::client::upgrade::{into_upgraded, upgrade_connection};
pub use crate::codec::{
    Aggregator, BodyEnd, FullRequest, FullResponse, HttpClientCodec, HttpClientCodecBuilder,
    HttpCodecError, HttpServerCodec, HttpServerCodecBuilder, RefuseRequest, RequestRefused,
};
#[cfg(any(feature = "brotli", feature = "gzip", feature = "zstd"))]
pub use crate::coding::{
    CompressedService, Compression, CompressionBuilder, CompressionFacts, ContentDecoder,
    ContentEncodeError, ContentEncoder, DECODE_STEP, DecodeLimits, DecodeStatus,
    DecompressedService, ENCODE_STEP, EncoderOptions, UnsupportedCoding, compressed, decompress,
    decompressed,
};
pub use crate::content::accept_encoding::{AcceptEncoding, MAX_ACCEPT_ENCODING, NegotiatedCoding};
pub use crate::content::content_coding::ContentCoding;
pub use crate::content::decode_error::ContentDecodeError;
pub use crate::events::decoder::{EventDecoder, EventStreamError, ReceivedEvent};
pub use crate::events::event::{EncodedEvent, InvalidEvent, ServerEvent};
pub use crate::events::queue::{EventSendError, SlowReader};
pub use crate::events::sender::{
    EventQueueBuilder, EventReaderTooSlow, EventSender, QueuedEvents, ZeroEventCapacity,
};
pub use crate::events::stream::{AsyncEvents, EventSource, EventStream, last_event_id};
pub use crate::files::{DEFAULT_MAX_RANGES, Files, FilesBuilder, InvalidFiles};
pub use crate::protocol::encoder::{
    ConnectionField, encode_body_end, encode_chunk_start, encode_request_head, encode_response_head,
};
pub use crate::protocol::error::{Malformation, MessageError};
pub use crate::protocol::framing::BodyFraming;
pub use crate::protocol::limits::MessageLimits;
pub use crate::protocol::request_decoder::{RequestDecoder, RequestEvent};
pub use crate::protocol::request_head::RequestHead;
pub use crate::protocol::response_decoder::{ResponseDecoder, ResponseEvent, ResponseHead};
pub use crate::server::{
    HttpMetrics, HttpServer, HttpServerBuilder, InvalidHttpOption, LATENCY_BUCKETS, serve,
    upgrade_response,
};
pub use crate::service::into_response::IntoResponse;
#[cfg(feature = "json")]
pub use crate::service::json::{Json, JsonError, request_json};
pub use crate::service::path_params::PathParams;
pub use crate::service::query::query_pairs;
pub use crate::service::request::Request;
pub use crate::service::route_pattern::InvalidRoute;
pub use crate::service::router::{Router, RouterBuilder};
pub use crate::service::service::{Response, Service};
#[cfg(feature = "tower")]
pub use crate::service::tower::TowerService;
#[cfg(feature = "tower")]
pub use crate::service::tower::send_body::SendBody;
