//! Tests of permessage-deflate (RFC 7692).

mod contexts;
mod hostile;
mod negotiation;
mod payloads;
mod vectors;

use waterwheel_websocket::{
    DeflateOptions, DeflateParameters, MessageDecoder, MessageEncoder, WebSocketLimits,
    WebSocketRole,
};

use super::support::peer_of;

/// Options that compress every message, however short, and take contexts over or not.
pub(crate) fn options(context_takeover: bool) -> DeflateOptions {
    DeflateOptions::builder()
        .min_size(0)
        .context_takeover(context_takeover)
        .peer_context_takeover(context_takeover)
        .build()
        .unwrap()
}

/// Parameters by which both sides take their context over or not.
pub(crate) fn agreed(context_takeover: bool) -> DeflateParameters {
    options(context_takeover).negotiate([[("client_max_window_bits", None)]]).unwrap()
}

/// Returns the encoder of an endpoint with this role, and the decoder of its peer.
pub(crate) fn pair(
    from: WebSocketRole,
    context_takeover: bool,
) -> (MessageEncoder, MessageDecoder) {
    let agreed = agreed(context_takeover);
    let encoder = MessageEncoder::new(from).deflate(&options(context_takeover), &agreed);
    let decoder = MessageDecoder::new(peer_of(from), WebSocketLimits::default()).deflate(&agreed);
    (encoder, decoder)
}

/// Returns the encoder of a server with these options.
pub(crate) fn server_with(level: u32, window_bits: u8, context_takeover: bool) -> MessageEncoder {
    let options = DeflateOptions::builder()
        .level(level)
        .window_bits(window_bits)
        .context_takeover(context_takeover)
        .build()
        .unwrap();
    let agreed = options.negotiate([[("client_max_window_bits", None)]]).unwrap();
    MessageEncoder::new(WebSocketRole::Server).deflate(&options, &agreed)
}
