//! The parameters that both endpoints have agreed on.

/// The parameters of permessage-deflate that were negotiated for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeflateParameters {
    /// True if the server begins each message with an empty window.
    pub server_no_context_takeover: bool,
    /// True if the client begins each message with an empty window.
    pub client_no_context_takeover: bool,
    /// The window of the server's compression: 8 to 15 bits.
    pub server_max_window_bits: u8,
    /// The window of the client's compression: 8 to 15 bits.
    pub client_max_window_bits: u8,
}
