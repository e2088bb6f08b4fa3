//! Who may cross threads: every public type, listed.

use waterwheel_codec::{
    EmbeddedLineEnd, InvalidLengthField, LengthField, LengthFieldDecoder, LengthFieldError,
    LengthFieldPrepender, LineDecoder, LineEncoder, LineTooLong, LineUnfinished, NotUtf8,
    TextLines, Utf8,
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
        is!(TextLines: true true true),
        is!(Utf8: true true true),
    ];
    auto_traits::check(&listed, &[include_str!("../src/lib.rs")], &[]);
}
