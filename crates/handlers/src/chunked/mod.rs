//! Chunked writes: large messages from a source that is asked for the next chunk while the channel has room (K11).
//!
//! ```text
//!   ctx.write(head) ─────────────────────────────────────────► passes: nothing is queued
//!   ctx.write(ChunkedMessage) ──► queue [ source ]
//!   ctx.write(trailer) ─────────► queue [ source trailer ]
//!   ctx.flush() ──► the pump, a future on the loop:
//!                     while writable: source.poll_chunk() ──► ctx.write(chunk) ──► handlers before, transport
//!                     the source has ended ──► ctx.write(trailer)
//! ```
//!
//! The contract is the documentation of [`ChunkedWriter`]. How it is kept:
//!
//! | file | |
//! |---|---|
//! | `writer.rs` | the handler: queues what it has to, passes the rest |
//! | `queue.rs`, `ending.rs` | the queue: messages, sources and operations in order, flush marks, pending bytes; how it ends |
//! | `pump.rs`, `pump_waker.rs` | the turns in which the queue is passed on; what begins one |
//! | `transfer.rs` | one chunked write: completion, progress |
//! | `message.rs`, `source.rs`, `reader.rs` | the message, and its sources |
//!
//! The pump is a future, because a future has what a waiting source needs: a waker for any thread, and one poll in a
//! turn. It runs as a call of the handler (`LocalCtx::run`), so that it cannot meet the handler's own methods.

mod ending;
mod error;
mod message;
mod pump;
mod pump_waker;
mod queue;
mod reader;
mod source;
mod transfer;
mod writer;

pub use self::error::{ChunkedWriteError, InvalidChunkOption};
pub use self::message::{ChunkedMessage, TransferProgress};
pub use self::reader::ReaderChunks;
pub use self::source::{ChunkSource, FileChunks};
pub use self::writer::{ChunkedWriter, ChunkedWriterBuilder};
