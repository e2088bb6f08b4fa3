//! Stock handlers that many pipelines need, independent of any protocol. They know pipelines, not sockets.
//!
//! A server that closes a connection after a minute without input, and sends a keep-alive after half a minute without
//! output:
//!
//! ```
//! use std::time::Duration;
//! use waterwheel_channel::{Ctx, HandlerResult, In, InboundHandler, Msg};
//! use waterwheel_executor::Error;
//! use waterwheel_handlers::{IdleEvent, IdleHandler, IdleKind};
//! use waterwheel_testkit::embedded::Embedded;
//!
//! struct App;
//!
//! impl InboundHandler for App {
//!     type In = String;
//!
//!     fn on_read(&mut self, _: &Ctx<'_>, _: String) -> HandlerResult {
//!         Ok(())
//!     }
//!
//!     fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
//!         match event.get::<IdleEvent>().map(|idle| idle.kind) {
//!             Some(IdleKind::Writer) => ctx.write_and_flush(String::from("PING")),
//!             Some(IdleKind::Reader) => ctx.write_and_flush(String::from("BYE")),
//!             _ => ctx.fire_user_event(event), // For the next handler.
//!         }
//!         Ok(())
//!     }
//! }
//!
//! // Built once, so that an invalid limit fails at start; each connection gets a clone.
//! let idle = IdleHandler::builder()
//!     .reader(Duration::from_secs(60))
//!     .writer(Duration::from_secs(30))
//!     .close_on(IdleKind::Reader)
//!     .build()?;
//!
//! let mut channel = Embedded::new(|edit| {
//!     edit.add_last("idle", idle.clone())?;
//!     edit.add_last("app", In(App))?;
//!     Ok(())
//! })?;
//! channel.advance(Duration::from_secs(30));
//! assert_eq!(channel.read_outbound::<String>().unwrap(), "PING");
//! channel.advance(Duration::from_secs(30));
//! assert_eq!(channel.read_outbound::<String>().unwrap(), "BYE");
//! assert!(!channel.channel().is_open());
//! # Ok::<(), Error>(())
//! ```
//!
//! # Accept guards
//!
//! A server can refuse a connection by its peer's address as soon as it is accepted, before anything is built for it:
//!
//! | guard | refuses | keeps |
//! |---|---|---|
//! | [`NetworkFilter`] | addresses by network (CIDR): the longest match decides | a table of the rules |
//! | [`AddressLimit`] | more than so many open connections of an address | an entry for each address with a connection |
//! | [`AcceptRate`] | new connections of an address beyond a rate, with a burst | a token bucket for each recent address, up to a number |
//!
//! A server asks the guards of its [`GuardChain`](waterwheel_channel::GuardChain) in order: put the cheapest and
//! strictest first. Each guard is a handle: cheap to clone, usable from any thread, and several servers may share it.
//!
//! An IPv4-mapped IPv6 address counts as the IPv4 address in it. Peers without an IP address (Unix and local sockets)
//! cannot be told apart: a filter gives them its default, the other two guards admit them. Limit those with
//! [`ConnectionLimit`](waterwheel_channel::ConnectionLimit). Behind a proxy all connections come from the address of
//! the proxy, so limits by address make no sense there.
//!
//! ```
//! use std::time::Duration;
//! use waterwheel_channel::driver::TaskOnly;
//! use waterwheel_channel::{EventLoopGroup, GuardChain, ServerBootstrap, local};
//! use waterwheel_handlers::{AcceptRate, AddressLimit, NetworkFilter, NetworkRules};
//!
//! let filter = NetworkFilter::new(NetworkRules::allow_by_default().deny("203.0.113.0/24".parse()?));
//! let guards = GuardChain::new()
//!     .add("networks", filter.clone())
//!     .add("rate", AcceptRate::builder(10, Duration::from_secs(1)).burst(50).build()?)
//!     .add("per address", AddressLimit::new(100));
//! let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
//! let server = ServerBootstrap::new(&group, local::Local).accept_guards(&guards);
//!
//! filter.deny("198.51.100.7".parse()?); // While the server runs, from any thread.
//! for refusals in guards.refusals() {
//!     println!("{} ({}): {}", refusals.guard, refusals.reason, refusals.count);
//! }
//! # drop(server);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod capture;
mod chunked;
mod detect;
mod flow;
mod guard;
mod idle;
mod shaping;
mod timeout;
mod wire_log;

pub use crate::capture::{
    Capture, CaptureError, CaptureFile, CaptureFileBuilder, CapturePhase, CaptureStats,
    DEFAULT_FILE_BYTES, DEFAULT_QUEUE_BYTES, DEFAULT_SNAP_LEN,
};
pub use crate::chunked::{
    ChunkSource, ChunkedMessage, ChunkedWriteError, ChunkedWriter, ChunkedWriterBuilder,
    FileChunks, InvalidChunkOption, ReaderChunks, TransferProgress,
};
pub use crate::detect::{
    AtLimit, DetectError, Detection, InvalidDetector, Probe, ProbeSearch, ProtocolDetector,
    ProtocolDetectorBuilder, SearchOutcome, StockProbe,
};
pub use crate::flow::{DEFAULT_MAX_FLUSHES, FlowControl, FlushConsolidation};
pub use crate::guard::{
    AcceptRate, AcceptRateBuilder, AddressLimit, AddressLimitBuilder, DEFAULT_LIMITED_ADDRESSES,
    DEFAULT_TRACKED_ADDRESSES, InvalidGuard, NetworkAction, NetworkFilter, NetworkRules,
    PrefixLengths,
};
pub use crate::idle::{IdleEvent, IdleHandler, IdleHandlerBuilder, IdleKind, InvalidIdle};
pub use crate::shaping::{
    ChannelTraffic, InvalidShaping, TrafficLimiter, TrafficRate, TrafficShaping,
    TrafficShapingBuilder, TrafficShapingHandler, TrafficStats,
};
pub use crate::timeout::{
    FirstMessageDeadline, InvalidTimeout, ReadTimeout, TimeoutError, WriteTimeout,
};
pub use crate::wire_log::{DEFAULT_SHOWN_BYTES, DEFAULT_WIRE_TARGET, WireLog, WireLogBuilder};
/// A level of [`WireLog`]s: that of `tracing`, so that a program without that dependency can name one.
pub use tracing::Level;
