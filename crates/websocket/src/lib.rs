//! WebSocket (RFC 6455) with permessage-deflate (RFC 7692) on Waterwheel's loops: servers and clients.
//!
//! `docs/WEBSOCKET.md` is the guide: what to take for what, limits, time, compression, broadcast, drain.
//!
//! # Parts
//!
//! | module | contents | begin with |
//! |---|---|---|
//! | `server` | an HTTP request that becomes a WebSocket connection | [`WebSocketUpgrade`] |
//! | `client` | connections to WebSocket servers | [`WebSocketConnector`] |
//! | `async_socket` | a connection as async code sees it | [`WebSocket`] |
//! | `connection` | the handlers of a connection: messages in and out, keep-alive, close | [`WebSocketHandler`], [`WebSocketContext`] |
//! | `handshake` | the opening handshake as functions of heads, without I/O | [`HandshakeError`] |
//! | `protocol` | frames and messages as state machines over bytes, without I/O | [`MessageDecoder`], [`MessageEncoder`] |
//! | `deflate` | permessage-deflate: parameters, compression of messages | [`DeflateOptions`] |
//!
//! A module imports its own layer and those below, in the order of this table.
#![forbid(unsafe_code)]

mod async_socket;
mod client;
mod connection;
mod deflate;
mod handshake;
mod protocol;
mod server;

/// The type of texts: a `str` whose memory is shared by its clones and slices.
pub use bytestring::ByteString;

pub use crate::async_socket::WebSocket;
pub use crate::async_socket::halves::{WebSocketReader, WebSocketWriter};
pub use crate::client::connect_error::ConnectError;
pub use crate::client::connector::{WebSocketConnector, WebSocketRequest};
pub use crate::connection::context::WebSocketContext;
pub use crate::connection::handler::{CloseOutcome, WebSocketHandler};
pub use crate::connection::options::{
    InvalidWebSocketOption, WebSocketOptions, WebSocketOptionsBuilder,
};
pub use crate::deflate::negotiation::DeflateNegotiationError;
pub use crate::deflate::options::{DeflateOptions, DeflateOptionsBuilder, InvalidDeflateOption};
pub use crate::deflate::parameters::DeflateParameters;
pub use crate::handshake::handshake_error::HandshakeError;
pub use crate::handshake::opening_response::ResponseViolation;
pub use crate::protocol::broadcast::BroadcastMessage;
pub use crate::protocol::close::{CloseCode, CloseReason};
pub use crate::protocol::decoder::MessageDecoder;
pub use crate::protocol::encoder::MessageEncoder;
pub use crate::protocol::error::{ProtocolError, SendError};
pub use crate::protocol::frame_head::WebSocketRole;
pub use crate::protocol::limits::WebSocketLimits;
pub use crate::protocol::message::{MessagePart, PartData, ShortMessage, WebSocketMessage};
pub use crate::server::upgrade::WebSocketUpgrade;
