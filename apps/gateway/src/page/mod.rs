//! The page at `/`: the event loops while they turn, the topics, and a console to try the gateway.
//!
//! ```text
//!   LoopMetrics, counters, topics ──► LiveView, once a second while somebody looks ──► /api/live (server-sent events)
//!   watchdog ──► SlowLog ─────────────────┘                                                │
//!   page/*.html, *.js, *.css ──► PageAssets ──► / , /page/… , /waterwheel.js ──► browser ◄─┘
//! ```
//!
//! # Rules
//!
//! 1. The page needs no network beyond the gateway, and no build step: what the binary serves is what stands in `page/`.
//! 2. Scripts and styles come from the gateway alone (Content-Security-Policy), and all text is put in as text: a topic called
//!    `<script>` is a name.
//! 3. A snapshot is made and encoded once for all viewers. Without a viewer nothing is sampled.

pub mod assets;
pub mod gateway_source;
pub mod live;
pub mod loop_sample;
pub mod slow_log;
pub mod snapshot;
