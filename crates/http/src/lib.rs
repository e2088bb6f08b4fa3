//! HTTP/1.1 on Waterwheel's loops: servers and clients.
#![forbid(unsafe_code)]

mod body;
mod codec;
mod files;
mod outbound;
mod protocol;
mod server;
mod service;

pub use crate::body::error::BodyError;
pub use crate::body::incoming::Incoming;
pub use crate::body::outgoing::Body;
pub use crate::body::source::{BodyChunk, BodySource, poll_source};
pub use crate::codec::{
    Aggregator, BodyEnd, FullRequest, FullResponse, HttpClientCodec, HttpClientCodecBuilder,
    HttpCodecError, HttpServerCodec, HttpServerCodecBuilder, RefuseRequest, RequestRefused,
};
pub use crate::files::{DEFAULT_MAX_RANGES, FileBody, FilePart, Files, FilesBuilder, InvalidFiles};
pub use crate::protocol::encoder::{
    ConnectionField, encode_body_end, encode_chunk_start, encode_request_head, encode_response_head,
};
pub use crate::protocol::error::{Malformation, MessageError};
pub use crate::protocol::framing::BodyFraming;
pub use crate::protocol::limits::MessageLimits;
pub use crate::protocol::request_decoder::{RequestDecoder, RequestEvent, RequestHead};
pub use crate::protocol::response_decoder::{ResponseDecoder, ResponseEvent, ResponseHead};
pub use crate::server::{
    HttpMetrics, HttpServer, HttpServerBuilder, InvalidHttpOption, LATENCY_BUCKETS, serve,
    upgrade_response,
};
pub use crate::service::into_response::IntoResponse;
pub use crate::service::service::{Request, Response, Service};
