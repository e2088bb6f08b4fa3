//! The parameters that both endpoints have agreed on.

use std::fmt::Write as _;

/// The name of the extension.
pub(crate) const EXTENSION_NAME: &str = "permessage-deflate";

pub(super) const SERVER_NO_CONTEXT_TAKEOVER: &str = "server_no_context_takeover";
pub(super) const CLIENT_NO_CONTEXT_TAKEOVER: &str = "client_no_context_takeover";
pub(super) const SERVER_MAX_WINDOW_BITS: &str = "server_max_window_bits";
pub(super) const CLIENT_MAX_WINDOW_BITS: &str = "client_max_window_bits";

/// The window of an endpoint that names none: that of DEFLATE itself.
pub(super) const MAX_WINDOW_BITS: u8 = 15;

/// The parameters of permessage-deflate that a connection has agreed on. Made by
/// [`DeflateOptions::negotiate`](crate::DeflateOptions::negotiate) and
/// [`DeflateOptions::check_response`](crate::DeflateOptions::check_response).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeflateParameters {
    pub(super) server_no_context_takeover: bool,
    pub(super) client_no_context_takeover: bool,
    /// `None` if the response does not name it.
    pub(super) server_max_window_bits: Option<u8>,
    pub(super) client_max_window_bits: Option<u8>,
}

impl DeflateParameters {
    /// True if the server begins each message with an empty window.
    #[must_use]
    pub fn server_no_context_takeover(&self) -> bool {
        self.server_no_context_takeover
    }

    /// True if the client begins each message with an empty window.
    #[must_use]
    pub fn client_no_context_takeover(&self) -> bool {
        self.client_no_context_takeover
    }

    /// Returns the window of the server's compression: 2 to the power of 8 to 15 bytes.
    #[must_use]
    pub fn server_max_window_bits(&self) -> u8 {
        self.server_max_window_bits.unwrap_or(MAX_WINDOW_BITS)
    }

    /// Returns the window of the client's compression: 2 to the power of 8 to 15 bytes.
    #[must_use]
    pub fn client_max_window_bits(&self) -> u8 {
        self.client_max_window_bits.unwrap_or(MAX_WINDOW_BITS)
    }

    /// Appends the element of the server's `Sec-WebSocket-Extensions` that accepts the offer.
    pub fn put_response(&self, out: &mut String) {
        out.push_str(EXTENSION_NAME);
        put_flag(out, SERVER_NO_CONTEXT_TAKEOVER, self.server_no_context_takeover);
        put_flag(out, CLIENT_NO_CONTEXT_TAKEOVER, self.client_no_context_takeover);
        put_bits(out, SERVER_MAX_WINDOW_BITS, self.server_max_window_bits);
        put_bits(out, CLIENT_MAX_WINDOW_BITS, self.client_max_window_bits);
    }
}

/// Appends a parameter without a value, if it is set.
pub(super) fn put_flag(out: &mut String, name: &str, is_set: bool) {
    if is_set {
        out.push_str("; ");
        out.push_str(name);
    }
}

/// Appends a parameter with a number, if there is one.
pub(super) fn put_bits(out: &mut String, name: &str, bits: Option<u8>) {
    if let Some(bits) = bits {
        // Writing into a string does not fail.
        let _ = write!(out, "; {name}={bits}");
    }
}
