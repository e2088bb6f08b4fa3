//! Handlers that decide when messages go on: inbound, one per read; outbound, several flushes as one write.

mod flow_control;
mod flush_consolidation;

pub use self::flow_control::FlowControl;
pub use self::flush_consolidation::{DEFAULT_MAX_FLUSHES, FlushConsolidation};
