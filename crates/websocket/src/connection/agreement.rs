//! The result of an opening handshake.

use super::options::WebSocketOptions;
use crate::deflate::parameters::DeflateParameters;
use crate::protocol::frame_head::WebSocketRole;

/// The role, options and choices of both sides.
#[derive(Clone, Debug)]
pub(crate) struct Agreement {
    pub(crate) role: WebSocketRole,
    pub(crate) options: WebSocketOptions,
    pub(crate) subprotocol: Option<String>,
    /// The parameters of permessage-deflate, if it is used.
    pub(crate) deflate: Option<DeflateParameters>,
}
