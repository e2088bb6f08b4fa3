//! Async functions on Waterwheel's loops, and the way back: a connection as an `async fn`, answers in order, and the
//! traits of `futures`, tokio and hyper.
//!
//! # Parts
//!
//! | module | contents | begin with |
//! |---|---|---|
//! | `channel` | a channel as a stream and a sink of messages | [`AsyncChannel`] |
//! | `remote` | its `Send` form, for code on any thread and runtime | [`RemoteAsyncChannel`] |
//! | `serve`, `connect` | servers and clients whose connections are async functions | [`Serve`], [`ConnectAsync`] |
//! | `byte_stream` | a channel of bytes as `AsyncRead` and `AsyncWrite` | [`ByteStream`] |
//! | `ordered` | asynchronous calls for the requests of a connection, answered in order | [`OrderedAnswers`], [`AsyncHandler`] |
//! | `tokio_runtime` (feature `tokio`) | calls of crates that need tokio, on a runtime of the user's | `TokioRuntime` |
//! | `hyper_rt` (feature `hyper`) | HTTP/1 and HTTP/2 by hyper, servers and clients | `serve_http`, `ScopeExecutor` |
//! | `bridge` | the handler at the end of the pipeline, and what it shares with futures | |
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `futures` | `Stream`, `Sink`, `AsyncRead`, `AsyncBufRead` and `AsyncWrite` of the futures crates |
//! | `tokio` | `AsyncRead`, `AsyncBufRead` and `AsyncWrite` of tokio; calls into a tokio runtime of the user's |
//! | `hyper` | hyper's `Read` and `Write`, its executor and its timer |
#![forbid(unsafe_code)]

mod bridge;
mod byte_stream;
mod channel;
mod connect;
mod error;
#[cfg(feature = "hyper")]
mod hyper_rt;
mod ordered;
mod remote;
mod serve;
#[cfg(feature = "tokio")]
mod tokio_runtime;

pub use crate::bridge::drain_signal::DrainSignal;
pub use crate::byte_stream::ByteStream;
pub use crate::channel::{AsyncChannel, AsyncReader, AsyncWriter};
pub use crate::connect::ConnectAsync;
pub use crate::error::AsyncError;
#[cfg(feature = "hyper")]
pub use crate::hyper_rt::{LoopTimer, ScopeExecutor, serve_http};
pub use crate::ordered::{
    AsyncHandler, DEFAULT_MAX_CONCURRENT, HandlerFn, InvalidOrderedOption, OrderedAnswers,
    OrderedAnswersBuilder, handler_fn,
};
pub use crate::remote::{RemoteAsyncChannel, RemoteAsyncReader, RemoteAsyncWriter};
pub use crate::serve::{ConnectionResult, Serve, serve_channel};
#[cfg(feature = "tokio")]
pub use crate::tokio_runtime::{TokioRuntime, TokioTask, TokioTaskError};
