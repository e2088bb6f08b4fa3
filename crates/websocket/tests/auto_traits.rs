//! The auto traits `Send`, `Sync` and `Unpin` of every public type.

use waterwheel_websocket::{
    BroadcastMessage, CloseCode, CloseOutcome, CloseReason, ConnectError, DeflateNegotiationError,
    DeflateOptions, DeflateOptionsBuilder, DeflateParameters, HandshakeError, InvalidDeflateOption,
    InvalidWebSocketOption, MessageDecoder, MessageEncoder, MessagePart, PartData, ProtocolError,
    ResponseViolation, SendError, ShortMessage, WebSocket, WebSocketConnector, WebSocketContext,
    WebSocketHandler, WebSocketLimits, WebSocketMessage, WebSocketOptions, WebSocketOptionsBuilder,
    WebSocketReader, WebSocketRequest, WebSocketRole, WebSocketUpgrade, WebSocketWriter,
};

#[path = "../../../support/auto_traits.rs"]
mod auto_traits;

use auto_traits::{AutoTraits, NotImplemented, is};

#[test]
fn public_types_cross_threads_as_listed() {
    let listed = [
        // On any thread.
        is!(WebSocketConnector: true true true),
        is!(WebSocketRequest: true true true),
        is!(WebSocketUpgrade: true true true),
        is!(WebSocketMessage: true true true),
        is!(BroadcastMessage: true true true),
        is!(MessagePart: true true true),
        is!(PartData: true true true),
        is!(ShortMessage<'static>: true true true),
        // On the loop of their connection.
        is!(WebSocket: false false true),
        is!(WebSocketReader: false false true),
        is!(WebSocketWriter: false false true),
        is!(WebSocketContext<'static>: false false true),
        is!(dyn WebSocketHandler: false false false),
        // State machines over bytes; those without context takeover borrow the streams of their thread.
        is!(MessageDecoder: true true true),
        is!(MessageEncoder: true true true),
        // Plain values.
        is!(CloseCode: true true true),
        is!(CloseOutcome: true true true),
        is!(CloseReason: true true true),
        is!(ConnectError: true true true),
        is!(DeflateNegotiationError: true true true),
        is!(DeflateOptions: true true true),
        is!(DeflateOptionsBuilder: true true true),
        is!(DeflateParameters: true true true),
        is!(HandshakeError: true true true),
        is!(InvalidDeflateOption: true true true),
        is!(InvalidWebSocketOption: true true true),
        is!(ProtocolError: true true true),
        is!(ResponseViolation: true true true),
        is!(SendError: true true true),
        is!(WebSocketLimits: true true true),
        is!(WebSocketOptions: true true true),
        is!(WebSocketOptionsBuilder: true true true),
        is!(WebSocketRole: true true true),
    ];
    auto_traits::check(&listed, &[include_str!("../src/lib.rs")], &[]);
}
