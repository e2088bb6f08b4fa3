//! `Send` and `Sync` of every public type.

use waterwheel_handlers::{
    FirstMessageDeadline, IdleEvent, IdleHandler, IdleHandlerBuilder, IdleKind, InvalidIdle,
    InvalidTimeout, ReadTimeout, TimeoutError, WireLog, WireLogBuilder, WriteTimeout,
};

#[path = "../../../support/auto_traits.rs"]
mod auto_traits;

use auto_traits::{AutoTraits, NotImplemented, is};

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
        is!(FirstMessageDeadline: true true true),
        is!(InvalidTimeout: true true true),
        is!(ReadTimeout: true true true),
        is!(TimeoutError: true true true),
        // Shares completions with its channel, and is built in the initialiser.
        is!(WriteTimeout: false false true),
    ];
    auto_traits::check(&listed, &[include_str!("../src/lib.rs")], &[]);
}
