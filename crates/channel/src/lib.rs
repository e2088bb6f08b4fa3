//! The stairwell of Waterwheel: event loops, channels and their pipelines, and the cut between them and
//! the operating system.
//!
//! An [`EventLoop`] is an executor that also waits for the outside world, in a
//! [driver](driver::Driver). This crate knows no operating system: the drivers are in a crate of
//! their own, and are given to a group of loops as a value. A [`Channel`] belongs to one loop; what it
//! reads and writes goes through its pipeline, from [`Handler`] to [`Handler`], and below that through a
//! [transport].
//!
//! ```
//! use std::time::Duration;
//! use waterwheel_channel::driver::TaskOnly;
//! use waterwheel_channel::{EventLoopGroup, sleep};
//!
//! let group = EventLoopGroup::builder(TaskOnly).threads(1).name("io").build()?;
//! let slept = group.next().spawn(async {
//!     sleep(Duration::from_millis(2)).await;
//!     "awake"
//! })?;
//! assert_eq!(slept.join()?, "awake");
//! group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rooms
//!
//! | to understand | read |
//! |---|---|
//! | what a driver has to do | [`driver`], its contract first |
//! | how a loop turns | `event_loop::turn`, beside `docs/LOOP.md` |
//! | how events find their receiver | `event_loop::registrations`, on [`Token`]s |
//! | what a user writes | [`Handler`], [`Ctx`], [`Message`], [`Completion`] |
//! | the same with types | [`InboundHandler`], [`OutboundHandler`]; [`Decoder`], [`Encoder`]; [`Stage`] |
//! | how a pipeline is made and changed | [`Edit`], [`Pipeline`], [`Signature`] |
//! | handlers that take their time | [`RemoteHandler`], [`Offloaded`] |
//! | servers and clients in a few lines | [`ServerBootstrap`], [`Bootstrap`] |
//! | what can be set about them | [`ChannelOptions`]; about their sockets: [`SocketOption`](driver::SocketOption) |
//! | which address, and which kind of it | [`Address`], [`UnixAddress`] |
//! | many channels as one | [`ChannelGroup`], [`matchers`] |
//! | as many connections as may be; a server on each loop | [`ConnectionLimit`], [`Servers`] |
//! | a loop and a thread for each channel | [`EventLoopGroup::per_channel`], [`TooManyChannels`] |
//! | how a channel comes to a loop | [`NewChannel`], [`EventLoop::register`] |
//! | the order in which handlers are called | `pipeline`, beside `docs/PIPELINE.md` |
//! | what happens between pipeline and transport | `channel` |
//! | ending one direction alone | [`HalfClosed`] |
//! | a peer that has finished while the channel does not read | [`PeerFinished`] |
//! | files as messages | [`FileRegion`] |
//! | datagrams | [`Datagram`], [`Datagrams`] |
//! | descriptors that are passed, and who is at the other end | [`AncillaryMessage`], [`Ctx::peer_credentials`] |
//! | what is below a channel | [`transport`], its contract first |
//! | ending without losing anything | [`EventLoop::drain`], [`Hold`] |
//! | foreign descriptors | `foreign` |
//! | futures on a loop | `futures` |
//! | channels within the process | [`local`] |
//! | what a loop counts | `metrics` |
#![forbid(unsafe_code)]

mod address;
mod bootstrap;
mod channel;
mod channel_group;
pub mod driver;
mod event_loop;
mod foreign;
mod futures;
pub mod local;
mod local_queue;
mod metrics;
#[cfg(all(test, loom))]
mod models;
mod payload;
mod pipeline;
mod queue_capacity;
mod report_throttle;
mod token;
mod wake_flag;

pub use crate::address::{Address, AddressSpec, ConnectTarget, Resolver, UnixAddress};
pub use crate::bootstrap::{Bootstrap, ConnectionLimit, Loops, ServerBootstrap, Servers};
pub use crate::channel::error::ChannelError;
pub use crate::channel::handle::attributes::AttrKey;
pub use crate::channel::handle::new_channel::NewChannel;
pub use crate::channel::handle::shared_state::ChannelId;
pub use crate::channel::handle::{Channel, ChannelFuture};
pub use crate::channel::lifecycle::half_closure::{HalfClosed, PeerFinished};
pub use crate::channel::lifecycle::hold::Hold;
pub use crate::channel::options::{ChannelOptions, InvalidOption, PauseReads, WaterMarks};
pub use crate::channel::reading::read_size::ReceiveSizes;
pub use crate::channel::transport;
pub use crate::channel::transport::datagrams::Datagrams;
pub use crate::channel::transport::listener::Listener;
pub use crate::channel::transport::stream::Stream;
pub use crate::channel_group::{
    ChannelGroup, ChannelGroupFuture, GroupError, GroupOutcome, Selected, matchers,
};
pub use crate::event_loop::builder::{EventLoopGroupBuilder, LoopBuildError};
pub use crate::event_loop::command::LoopCommand;
pub use crate::event_loop::drain::{
    DEFAULT_DRAIN_TIME, DrainOptions, Drained, Draining, LoopDraining,
};
pub use crate::event_loop::group::EventLoopGroup;
pub use crate::event_loop::handle::EventLoop;
pub use crate::event_loop::local_loop::{LocalLoop, LoopShutDown};
pub use crate::event_loop::loop_pool::TooManyChannels;
pub use crate::event_loop::manual::ManualEventLoop;
pub use crate::event_loop::registrations::Registrant;
pub use crate::event_loop::tail_tasks::TailTask;
pub use crate::event_loop::turn::select_strategy::{
    SelectMode, SelectStrategy, StrategyInput, WaitStrategy,
};
pub use crate::event_loop::turn::spin_guard::DEFAULT_REBUILD_THRESHOLD;
pub use crate::event_loop::turn::task_budget::DEFAULT_IO_RATIO;
pub use crate::foreign::{
    Foreign, ForeignContext, ForeignHandle, ForeignHandler, OnReady, on_ready,
};
pub use crate::futures::{
    Elapsed, Interval, LocalJoin, Sleep, Timeout, interval, interval_with, sleep, timeout,
    yield_now,
};
pub use crate::metrics::{LAG_BUCKETS, LoopMetrics};
pub use crate::payload::{AncillaryMessage, Credentials, Datagram, FileRegion};
pub use crate::pipeline::{
    At, Completion, Ctx, DEFAULT_MAX_UNREAD, Decode, Decoder, DecoderStuck, Edit, Emit, Encode,
    EncodeBuffer, Encoder, Events, Handler, HandlerResult, In, Inbound, InboundHandler, LocalCtx,
    Message, Msg, Name, Offloaded, Out, OutboundHandler, Pipeline, PipelineError, RemoteCompletion,
    RemoteCtx, RemoteHandler, Signature, SlotId, Stage, Then, TimerId, TooMuchUnread, TypeMismatch,
    TypeTag, Types,
};
pub use crate::token::{Slab, Token, TokenMap};
