//! HTTP/1.1 on Waterwheel's loops: servers and clients.
#![forbid(unsafe_code)]

mod body;
mod client;
mod protocol;
mod service;

pub use crate::body::error::BodyError;
pub use crate::body::incoming::Incoming;
pub use crate::body::outgoing::Body;
pub use crate::body::source::{BodyChunk, BodySource, poll_source};
pub use crate::client::client::Client;
pub use crate::client::error::{ClientError, InvalidClient};
pub use crate::client::options::ClientBuilder;
pub use crate::client::proxy::Proxy;
pub use crate::client::request_builder::RequestBuilder;
pub use crate::client::upgrade::into_upgraded;

pub use crate::protocol::encoder::{ConnectionField, encode_request_head, encode_response_head};
pub use crate::protocol::error::{Malformation, MessageError};
pub use crate::protocol::framing::BodyFraming;
pub use crate::protocol::limits::MessageLimits;
pub use crate::protocol::request_decoder::{RequestDecoder, RequestEvent, RequestHead};
pub use crate::protocol::response_decoder::{ResponseDecoder, ResponseEvent, ResponseHead};
pub use crate::service::into_response::IntoResponse;
pub use crate::service::service::{Request, Response, Service};
