//! What both sides of a connection have agreed on.

use super::options::WebSocketOptions;
use crate::deflate::parameters::DeflateParameters;
use crate::protocol::frame_head::WebSocketRole;

/// What the opening handshake has agreed on.
#[derive(Clone, Debug)]
pub(crate) struct Agreement {
    pub(crate) role: WebSocketRole,
    pub(crate) options: WebSocketOptions,
    pub(crate) subprotocol: Option<String>,
    /// The parameters of permessage-deflate, if it is used.
    pub(crate) deflate: Option<DeflateParameters>,
}
