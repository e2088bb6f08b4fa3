//! Lists every public type with its auto traits.

use waterwheel_channel::Address;
use waterwheel_codec::{
    DelimiterDecoder, DelimiterEncoder, Delimiters, EmbeddedLineEnd, FixedLength, FrameError,
    InvalidFrames, InvalidLengthField, JsonDecoder, LengthField, LengthFieldDecoder,
    LengthFieldError, LengthFieldPrepender, LineDecoder, LineEncoder, LineTooLong, LineUnfinished,
    LossyUtf8, NatsDecoder, NatsEncoder, NatsError, NatsHeaders, NatsLimits, NatsMessage,
    NatsOperation, NotUtf8, ProxyAddresses, ProxyDecoder, ProxyEncoder, ProxyError, ProxyHeader,
    ProxyServer, ProxyTlv, RespCommand, RespCommandDecoder, RespDecoder, RespEncoder, RespError,
    RespLimits, RespValue, RespVersion, TextEncoder, TextLines, Utf8, VarintDecoder,
    VarintPrepender,
};

#[path = "../../../support/auto_traits.rs"]
mod auto_traits;

use auto_traits::{AutoTraits, is};

#[test]
fn public_types_cross_threads_as_listed() {
    let listed = [
        is!(DelimiterDecoder: true true true),
        is!(DelimiterEncoder: true true true),
        is!(Delimiters: true true true),
        is!(EmbeddedLineEnd: true true true),
        is!(FixedLength: true true true),
        is!(FrameError: true true true),
        is!(InvalidFrames: true true true),
        is!(InvalidLengthField: true true true),
        is!(JsonDecoder: true true true),
        is!(LengthField: true true true),
        is!(LengthFieldDecoder: true true true),
        is!(LengthFieldError: true true true),
        is!(LengthFieldPrepender: true true true),
        is!(LineDecoder: true true true),
        is!(LineEncoder: true true true),
        is!(LineTooLong: true true true),
        is!(LineUnfinished: true true true),
        is!(LossyUtf8: true true true),
        is!(NatsDecoder: true true true),
        is!(NatsEncoder: true true true),
        is!(NatsError: true true true),
        is!(NatsHeaders: true true true),
        is!(NatsLimits: true true true),
        is!(NatsMessage: true true true),
        is!(NatsOperation: true true true),
        is!(NotUtf8: true true true),
        is!(ProxyAddresses: true true true),
        is!(ProxyDecoder: true true true),
        is!(ProxyEncoder: true true true),
        is!(ProxyError: true true true),
        is!(ProxyHeader: true true true),
        is!(ProxyServer<fn(Option<&Address>) -> bool>: true true true),
        is!(ProxyTlv: true true true),
        is!(RespCommand: true true true),
        is!(RespCommandDecoder: true true true),
        is!(RespDecoder: true true true),
        is!(RespEncoder: true true true),
        is!(RespError: true true true),
        is!(RespLimits: true true true),
        is!(RespValue: true true true),
        is!(RespVersion: true true true),
        is!(TextEncoder: true true true),
        is!(TextLines: true true true),
        is!(Utf8: true true true),
        is!(VarintDecoder: true true true),
        is!(VarintPrepender: true true true),
    ];
    auto_traits::check(&listed, &[include_str!("../src/lib.rs")], &[]);
}
