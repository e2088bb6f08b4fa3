//! HTTP/1.1 on Waterwheel's loops: servers and clients.
#![forbid(unsafe_code)]

mod protocol;

pub use crate::protocol::encoder::{ConnectionField, encode_request_head, encode_response_head};
pub use crate::protocol::error::{Malformation, MessageError};
pub use crate::protocol::framing::BodyFraming;
pub use crate::protocol::limits::MessageLimits;
pub use crate::protocol::request_decoder::{RequestDecoder, RequestEvent, RequestHead};
pub use crate::protocol::response_decoder::{ResponseDecoder, ResponseEvent, ResponseHead};
