//! The counters of the gateway, and how monitoring reads them.
//!
//! ```text
//!   loops, HTTP, sessions, engine, log, process ──► GatewayFigures ──► MetricsExporter ──► /metrics (Prometheus text)
//!   drain, engine ──► readiness ──► /readyz
//! ```
//!
//! No label has a value that a peer has chosen: the number of time series is that of loops, protocols and errors.

pub mod collector;
pub mod counters;
pub mod exporter;
pub mod health;
pub mod process;
pub mod prometheus;
