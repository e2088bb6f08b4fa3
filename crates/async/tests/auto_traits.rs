//! The auto traits `Send`, `Sync` and `Unpin` of every public type.

use std::rc::Rc;

use bytes::Bytes;
use waterwheel_async::{
    AsyncChannel, AsyncError, AsyncReader, AsyncWriter, ByteStream, DrainSignal, HandlerFn,
    InvalidOrderedOption, LoopTimer, OrderedAnswers, OrderedAnswersBuilder, RemoteAsyncChannel,
    RemoteAsyncReader, RemoteAsyncWriter, ScopeExecutor, TokioRuntime, TokioTask, TokioTaskError,
};

#[path = "../../../support/auto_traits.rs"]
mod auto_traits;

use auto_traits::{AutoTraits, NotImplemented, is};

#[test]
fn public_types_cross_threads_as_listed() {
    let listed = [
        // On the channel's loop.
        is!(AsyncChannel<Bytes>: false false true),
        is!(AsyncReader<Bytes>: false false true),
        is!(AsyncWriter<Bytes>: false false true),
        is!(ByteStream: false false true),
        is!(DrainSignal: false false true),
        is!(ScopeExecutor: false false true),
        is!(LoopTimer: true true true),
        is!(OrderedAnswers<Rc<u8>>: false false true),
        is!(OrderedAnswersBuilder<Rc<u8>>: false false true),
        is!(HandlerFn<u8, u8>: true true true),
        is!(HandlerFn<u8, Rc<u8>>: false false true),
        // On any thread.
        is!(RemoteAsyncChannel<Bytes>: true true true),
        is!(RemoteAsyncReader<Bytes>: true true true),
        is!(RemoteAsyncWriter<Bytes>: true true true),
        is!(TokioRuntime: true true true),
        is!(TokioTask<u8>: true true true),
        // Plain values.
        is!(AsyncError: true true true),
        is!(InvalidOrderedOption: true true true),
        is!(TokioTaskError: true true true),
        // Not object-safe: no value to check.
        ("AsyncHandler", (false, false, false), (false, false, false)),
        ("ConnectAsync", (false, false, false), (false, false, false)),
        ("ConnectionResult", (false, false, false), (false, false, false)),
        ("Serve", (false, false, false), (false, false, false)),
    ];
    auto_traits::check(&listed, &[include_str!("../src/lib.rs")], &[]);
}
