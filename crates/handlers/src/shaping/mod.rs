//! Traffic shaping: how fast channels read and write, one by one and in groups (K08).
//!
//! ```text
//!                    ┌──────────── TrafficShapingHandler ────────────┐
//!   transport ─read─►│ count ─► nothing left? reads pause            │─► passed on at once
//!             ◄──────│ ◄─ channel's limiter ◄─ groups ◄─ [ held ]    │◄─ write, flush
//!                    └───────────────────────────────────────────────┘
//!                          TrafficLimiter: shared by channels on any loops
//! ```
//!
//! A [`TrafficShaping`] is built once; each channel gets a [`handler`](TrafficShaping::handler), next to the transport. A
//! write has to pass the channel's own [`TrafficLimiter`] and those of its groups. Rates change at any time, from any
//! thread, and apply at once to messages that wait.
//!
//! The documentation of [`TrafficShaping`] has the rules; `schedule.rs` the arithmetic; `write_side.rs` and `read_side.rs`
//! the two directions.

mod channel_traffic;
mod delay_marks;
mod end_request;
mod gates;
mod handler;
mod limiter;
mod rate;
mod read_side;
mod schedule;
mod settings;
mod throughput;
mod waiting;
mod wake_timer;
mod write_side;

use waterwheel_channel::{AncillaryMessage, FileRegion, Msg};

pub use self::channel_traffic::ChannelTraffic;
pub use self::handler::TrafficShapingHandler;
pub use self::limiter::{TrafficLimiter, TrafficStats};
pub use self::rate::TrafficRate;
pub use self::settings::{InvalidShaping, TrafficShaping, TrafficShapingBuilder};

/// Returns the bytes that a message has on the wire, as far as they are known here: pending sizes of files and
/// descriptors differ from that.
fn traffic_size(msg: &Msg) -> u64 {
    if let Some(region) = msg.get::<FileRegion>() {
        return region.len();
    }
    let size = match msg.get::<AncillaryMessage>() {
        Some(ancillary) => ancillary.bytes.len(),
        None => msg.size_hint(),
    };
    u64::try_from(size).unwrap_or(u64::MAX)
}
