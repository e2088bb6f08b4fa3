//! Who may cross threads: every public type, listed.

use waterwheel_codec::{
    EmbeddedLineEnd, InvalidLengthField, LengthField, LengthFieldDecoder, LengthFieldError,
    LengthFieldPrepender, LineDecoder, LineEncoder, LineTooLong, LineUnfinished, NotUtf8, Quoted,
    RespCommand, RespCommandDecoder, RespDecoder, RespEncoder, RespError, RespLimits, RespValue,
    RespVersion, TextLines, Utf8,
};

#[path = "../../../support/auto_traits.rs"]
mod auto_traits;

use auto_traits::{Ask, is};

#[test]
fn public_types_cross_threads_as_listed() {
    let listed = [
        is!(EmbeddedLineEnd: true true true),
        is!(InvalidLengthField: true true true),
        is!(LengthField: true true true),
        is!(LengthFieldDecoder: true true true),
        is!(LengthFieldError: true true true),
        is!(LengthFieldPrepender: true true true),
        is!(LineDecoder: true true true),
        is!(LineEncoder: true true true),
        is!(LineTooLong: true true true),
        is!(LineUnfinished: true true true),
        is!(NotUtf8: true true true),
        is!(Quoted: true true true),
        is!(RespCommand: true true true),
        is!(RespCommandDecoder: true true true),
        is!(RespDecoder: true true true),
        is!(RespEncoder: true true true),
        is!(RespError: true true true),
        is!(RespLimits: true true true),
        is!(RespValue: true true true),
        is!(RespVersion: true true true),
        is!(TextLines: true true true),
        is!(Utf8: true true true),
    ];
    auto_traits::check(&listed, &[include_str!("../src/lib.rs")], &[]);
}
