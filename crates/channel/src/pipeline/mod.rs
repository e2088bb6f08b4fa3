//! Pipelines: the handlers of a channel, and how events pass through them.
//!
//! ```text
//!               inbound: on_read, on_active …  forwarded by fire_…
//!            ────────────────────────────────────────────────────►
//!   transport ⇄ head ⇄ "lines" ⇄ "app" ⇄ … ⇄ tail
//!            ◄────────────────────────────────────────────────────
//!               outbound: write, flush, close …  forwarded by the same verb
//! ```
//!
//! The contract is `docs/PIPELINE.md`: twelve numbered rules. The code cites them ("rule 4") where it keeps them.
//!
//! | to understand | read |
//! |---|---|
//! | what a user writes | `handler`, `context`, `message`, `completion`, `watched_completion` |
//! | handlers with message types, decoders and encoders | `typed` |
//! | how an event passes from handler to handler | `dispatch` |
//! | where handlers are kept, and how a pipeline is changed | `slots` |
//! | handlers that run on another executor | `offload` |
//! | handlers that hold writes back | `pending_write_queue` |
//! | handlers that choose other handlers | `handover` |

pub(crate) mod completion;
pub(crate) mod context;
pub(crate) mod dispatch;
mod error;
pub(crate) mod event_set;
pub(crate) mod handle;
pub(crate) mod handler;
mod handover;
pub(crate) mod message;
pub(crate) mod offload;
mod pending_write_queue;
pub(crate) mod slots;
pub(crate) mod typed;
mod watched_completion;

pub use self::completion::Completion;
pub use self::context::Ctx;
pub use self::context::local_context::LocalCtx;
pub use self::context::timers::TimerId;
pub use self::error::PipelineError;
pub use self::event_set::Events;
pub use self::handle::Pipeline;
pub use self::handler::{Handler, HandlerResult};
pub use self::handover::PipelineHandover;
pub use self::message::{Message, Msg};
pub use self::offload::{Offloaded, RemoteCompletion, RemoteCtx, RemoteHandler};
pub use self::pending_write_queue::PendingWriteQueue;
pub use self::slots::edit::Edit;
pub use self::slots::lookup::At;
pub use self::slots::name::Name;
pub use self::slots::slot_list::SlotId;
pub use self::typed::chain::{Emit, Inbound, Stage, Then};
pub use self::typed::codec::{
    DEFAULT_MAX_UNREAD, Decode, Decoder, DecoderStuck, Encode, Encoder, TooMuchUnread,
};
pub use self::typed::cumulation::Cumulation;
pub use self::typed::directional::{In, InboundHandler, Out, OutboundHandler};
pub use self::typed::signature::{Signature, TypeTag, Types};
pub use self::typed::type_check::TypeMismatch;
pub use self::watched_completion::WatchedCompletion;
