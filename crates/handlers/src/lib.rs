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
#![forbid(unsafe_code)]

mod detect;
mod idle;
mod shaping;
mod timeout;
mod wire_log;

pub use crate::detect::{
    AtLimit, DetectError, Detection, InvalidDetector, Probe, ProbeSearch, ProtocolDetector,
    ProtocolDetectorBuilder, SearchOutcome, StockProbe,
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
