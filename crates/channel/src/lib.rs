//! Event loops, channels and their pipelines, and the driver trait that separates them from the operating system.
//!
//! An [`EventLoop`] is an executor that also waits for I/O, in a [driver](driver::Driver). This crate makes no
//! system calls: the drivers are in `waterwheel-net`, and are passed to a group of loops as a value. A [`Channel`]
//! belongs to one loop. Inbound and outbound data pass through its pipeline, from [`Handler`] to [`Handler`], and
//! below the pipeline through a [transport].
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
//! # Parts
//!
//! From the operating system upwards. A module imports modules of its own row and of the rows above it, as
//! `scripts/arrows` checks; `channel` and `pipeline` are one layer.
//!
//! | module | contents | begin with |
//! |---|---|---|
//! | `address`, `payload`, `token`, `metrics` | values: addresses, files and datagrams as messages, tokens, counters | [`Address`], [`Token`], [`LoopMetrics`] |
//! | `local_queue`, `queue_capacity`, `quoted`, `report_throttle`, `wake_flag` | small helpers | [`Quoted`] |
//! | [`driver`] | the trait that every driver implements, and its contract; socket options; the queue of bytes to write | [`driver::Driver`] |
//! | `event_loop` | event loops, groups, draining, registrations; `event_loop::turn` is one turn, described in `docs/LOOP.md` | [`EventLoopGroup`], [`LocalLoop`] |
//! | `futures`, `foreign` | futures, sleeps and timeouts on a loop; file descriptors that belong to no channel | [`sleep`], [`Foreign`] |
//! | `channel` | one channel: its life, its writes and reads, its options, its [transport] | [`Channel`], [`NewChannel`] |
//! | `pipeline` | handlers and the order in which they are called, described in `docs/PIPELINE.md` | [`Handler`], [`Pipeline`] |
//! | [`local`] | channels within the process | [`local::pair`] |
//! | `bootstrap`, `channel_group` | servers and clients; sets of channels | [`ServerBootstrap`], [`Bootstrap`], [`ChannelGroup`] |
//!
//! # Where to find
//!
//! | task | types |
//! |---|---|
//! | write a handler | [`Handler`], [`Ctx`], [`Message`], [`Completion`] |
//! | write a handler with typed messages | [`InboundHandler`], [`OutboundHandler`]; [`Decoder`], [`Encoder`]; [`Stage`] |
//! | hold bytes until there are enough of them | [`Cumulation`] |
//! | build and change a pipeline | [`Pipeline`], [`Edit`], [`Signature`] |
//! | hold writes back in a handler; declare a channel unwritable | [`PendingWriteQueue`], [`HeldBytes`], [`Unwritable`] |
//! | choose the handlers of a channel while it runs | [`PipelineHandover`] |
//! | run a slow handler on another executor | [`RemoteHandler`], [`Offloaded`] |
//! | start a server or a client | [`ServerBootstrap`], [`Bootstrap`] |
//! | limit the connections of a server; listen on every loop | [`ConnectionLimit`], [`Servers`] |
//! | refuse connections before anything is built for them | [`AcceptGuard`], [`GuardChain`] |
//! | set options | [`ChannelOptions`], [`SocketOption`](driver::SocketOption) |
//! | name an address | [`Address`], [`UnixAddress`], [`AddressSpec`]; a range of them: [`Network`] |
//! | register a channel with a loop | [`NewChannel`], [`EventLoop::register`] |
//! | run each channel on a thread of its own | [`EventLoopGroup::per_channel`], [`TooManyChannels`] |
//! | address many channels at once | [`ChannelGroup`], [`matchers`] |
//! | close one direction of a stream | [`HalfClosed`] |
//! | learn that the peer has finished while reads are off | [`PeerFinished`] |
//! | send files | [`FileRegion`] |
//! | send and receive datagrams | [`Datagram`], [`Datagrams`] |
//! | pass file descriptors, identify a peer | [`AncillaryMessage`], [`Ctx::peer_credentials`] |
//! | write a transport | [`transport`], its contract first |
//! | write a driver | [`driver`], its contract first |
//! | watch a file descriptor that is no channel | [`Foreign`], [`EventLoop::register_foreign`] |
//! | shut down without losing data | [`EventLoop::drain`], [`Hold`] |
//! | read a loop's counters | [`EventLoop::metrics`], [`LoopMetrics`] |
#![forbid(unsafe_code)]

mod address;
mod base;
mod bootstrap;
mod channel;
mod channel_group;
pub mod driver;
mod event_loop;
mod foreign;
mod futures;
pub mod local;
#[cfg(all(test, loom))]
mod models;
mod payload;
mod pipeline;

pub use crate::address::{
    Address, AddressSpec, ConnectTarget, InvalidNetwork, Network, Resolver, UnixAddress,
};
pub use crate::base::metrics::{LAG_BUCKETS, LoopMetrics};
pub use crate::base::quoted::Quoted;
pub use crate::base::token::{Slab, Token, TokenMap};
pub use crate::bootstrap::{
    AcceptGuard, AcceptPermit, AcceptVerdict, AcceptedConnection, Bootstrap, ConnectionLimit,
    GuardChain, Loops, Refusals, ServerBootstrap, Servers,
};
pub use crate::channel::error::ChannelError;
pub use crate::channel::handle::attributes::AttrKey;
pub use crate::channel::handle::new_channel::NewChannel;
pub use crate::channel::handle::shared_state::ChannelId;
pub use crate::channel::handle::{Channel, ChannelFuture};
pub use crate::channel::lifecycle::half_closure::{HalfClosed, PeerFinished};
pub use crate::channel::lifecycle::hold::Hold;
pub use crate::channel::options::{ChannelOptions, InvalidOption, PauseReads, WaterMarks};
pub use crate::channel::reading::read_pause::ReadPause;
pub use crate::channel::reading::read_size::ReceiveSizes;
pub use crate::channel::transport;
pub use crate::channel::transport::datagrams::Datagrams;
pub use crate::channel::transport::listener::Listener;
pub use crate::channel::transport::stream::Stream;
pub use crate::channel::writing::writability::{HeldBytes, Unwritable};
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
    Elapsed, Interval, LocalJoin, Sleep, TaskScope, Timeout, interval, interval_with, sleep,
    sleep_until, timeout, yield_now,
};
pub use crate::payload::{AncillaryMessage, Credentials, Datagram, FileRegion};
pub use crate::pipeline::{
    At, Completion, Ctx, Cumulation, DEFAULT_MAX_UNREAD, Decode, Decoder, DecoderStuck, Edit, Emit,
    Encode, Encoder, Events, Handler, HandlerResult, In, Inbound, InboundHandler, LocalCtx,
    Message, Msg, Name, Offloaded, Out, OutboundHandler, PendingWriteQueue, Pipeline,
    PipelineError, PipelineHandover, RemoteCompletion, RemoteCtx, RemoteHandler, Signature, SlotId,
    Stage, Then, TimerId, TooMuchUnread, TypeMismatch, TypeTag, Types, WatchedCompletion,
};
