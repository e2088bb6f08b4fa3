//! HTTP/1.1 as handlers of a pipeline, for people who know Netty: messages go in and out part by part.
//!
//! ```text
//!            ┌──────── HttpServerCodec ────────┐   ┌─ Aggregator ─┐
//!   bytes ──►│ RequestHead, Bytes …, BodyEnd   │──►│ FullRequest  │──► handlers
//!   bytes ◄──│ ResponseHead, Bytes …, BodyEnd  │◄──│ FullResponse │◄── handlers
//!            └─────────────────────────────────┘   └──────────────┘
//! ```
//!
//! A client has the mirror of it. The types are the same in both directions, so that a proxy writes to one channel what
//! it reads from another: what the fields say of the framing and of the connection is left out and written anew.
//!
//! | file | |
//! |---|---|
//! | `messages.rs`, `error.rs` | the messages, and the errors of writes |
//! | `server/` | the codec of a server: requests in, answers out |
//! | `client/` | the codec of a client: requests out, responses in |
//! | `aggregator.rs` | parts become whole messages, up to a limit |
//! | `framed_body.rs`, `part_writer.rs` | a body on its way out; the bytes of one write |
//!
//! Rules:
//! 1. *Every message* is a head, its body in any number of `Bytes` (and `FileRegion`s, outward), and a `BodyEnd`, also if
//!    it has no body. An interim response (1xx but 101) is a head alone. `FullRequest` and `FullResponse` are all of it.
//! 2. *No box for chunks.* A channel carries `Bytes` unboxed and anything else in a box. So the parts are messages of
//!    their own instead of one enum, which would box every chunk: a request of n chunks costs two boxes, not n + 2.
//!    `tests/codec/allocations.rs` counts them.
//! 3. *Two slots.* A codec is two handlers that share their state, so that an answer is encoded while the decoder is
//!    still on the stack. What they share is taken or copied out of its cell before handlers are called.
//! 4. *Order.* Answers are written in the order of the requests: that is the duty of the handlers after the codec.
//!    `waterwheel_async::OrderedAnswers` does it for asynchronous calls on whole messages.
//! 5. *Flushes* are up to the handlers. The codec flushes what it writes by itself: refusals and `100 Continue`.
//! 6. *Time limits* are handlers of their own (`waterwheel_handlers`), before or after the codec.

mod aggregator;
mod client;
mod error;
mod framed_body;
mod messages;
mod part_writer;
mod server;

pub use self::aggregator::Aggregator;
pub use self::client::{HttpClientCodec, HttpClientCodecBuilder};
pub use self::error::HttpCodecError;
pub use self::messages::{BodyEnd, FullRequest, FullResponse, RefuseRequest, RequestRefused};
pub use self::server::{HttpServerCodec, HttpServerCodecBuilder};
