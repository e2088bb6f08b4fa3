//! Pipelines: the handlers of a channel, and how events go through them.
//!
//! ```text
//!               inbound: on_read, on_active …  fire_… passes on
//!            ────────────────────────────────────────────────────►
//!   transport ⇄ head ⇄ "lines" ⇄ "app" ⇄ … ⇄ tail
//!            ◄────────────────────────────────────────────────────
//!               outbound: write, flush, close …  the same verb passes on
//! ```
//!
//! The contract is `docs/PIPELINE.md`: twelve rules, numbered there and named here where they are kept.
//!
//! | to understand | read |
//! |---|---|
//! | what a user writes | `handler`, `context` with `operations`, `message`, `completion` |
//! | what a user writes with types | `typed`, `codec` on `cumulation` and `encode_buffer`, `chain` |
//! | how an event goes from slot to slot | `dispatch` and `backlog`, on `slots` of `slot`s, and `event` |
//! | how a pipeline changes | `edit`, with `lookup`, `name`, and `type_check` on `signature` |
//! | handlers that run on another executor | `offload` |

mod backlog;
pub(crate) mod chain;
pub(crate) mod codec;
pub(crate) mod completion;
pub(crate) mod context;
mod cumulation;
pub(crate) mod dispatch;
pub(crate) mod edit;
mod encode_buffer;
mod error;
pub(crate) mod event;
pub(crate) mod events;
pub(crate) mod handler;
pub(crate) mod local_context;
mod lookup;
pub(crate) mod message;
pub(crate) mod name;
pub(crate) mod offload;
mod operations;
#[allow(
    clippy::module_inception,
    reason = "the handle of the pipeline is what the module is about"
)]
pub(crate) mod pipeline;
pub(crate) mod signature;
mod slot;
pub(crate) mod slots;
pub(crate) mod timers;
pub(crate) mod type_check;
pub(crate) mod typed;
pub(crate) mod watched;

pub use self::chain::{Emit, Inbound, Stage, Then};
pub use self::codec::{
    DEFAULT_MAX_UNREAD, Decode, Decoder, DecoderStuck, Encode, Encoder, TooMuchUnread,
};
pub use self::completion::Completion;
pub use self::context::Ctx;
pub use self::edit::Edit;
pub use self::encode_buffer::EncodeBuffer;
pub use self::error::PipelineError;
pub use self::events::Events;
pub use self::handler::{Handler, HandlerResult};
pub use self::local_context::LocalCtx;
pub use self::lookup::At;
pub use self::message::{Message, Msg};
pub use self::name::Name;
pub use self::offload::{Offloaded, RemoteCompletion, RemoteCtx, RemoteHandler};
pub use self::pipeline::Pipeline;
pub use self::signature::{Signature, TypeTag, Types};
pub use self::slots::SlotId;
pub use self::timers::TimerId;
pub use self::type_check::TypeMismatch;
pub use self::typed::{In, InboundHandler, Out, OutboundHandler};
