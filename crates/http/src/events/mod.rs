//! Server-sent events (`text/event-stream`), by the HTML standard of the WHATWG.
//!
//! ```text
//!   any thread: EventSender ──► queue, bounded ──► QueuedEvents ──► EventStream ──► Response
//!   the loop:   closure or async function of events ───────────────────┘  adds heartbeats
//!
//!   bytes of a response ──► EventDecoder ──► ReceivedEvent              knows no channel
//! ```

pub(crate) mod decoder;
pub(crate) mod event;
pub(crate) mod queue;
pub(crate) mod sender;
pub(crate) mod stream;
