//! `Send` and `Sync` of every public type.

use waterwheel_handlers::{
    IdleEvent, IdleHandler, IdleHandlerBuilder, IdleKind, InvalidIdle, WireLog, WireLogBuilder,
};

#[path = "../../../support/auto_traits.rs"]
mod auto_traits;

use auto_traits::{AutoTraits, is};

#[test]
fn public_types_cross_threads_as_listed() {
    let listed = [
        is!(IdleEvent: true true true),
        is!(IdleHandler: true true true),
        is!(IdleHandlerBuilder: true true true),
        is!(IdleKind: true true true),
        is!(InvalidIdle: true true true),
        is!(WireLog: true true true),
        is!(WireLogBuilder: true true true),
    ];
    auto_traits::check(&listed, &[include_str!("../src/lib.rs")], &[]);
}
