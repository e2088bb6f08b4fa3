//! The codec of a server: requests in, answers out.
//!
//! ```text
//!   bytes ──► decoder slot ──► RequestHead, Bytes, BodyEnd
//!                  │ ▲
//!        requests  ▼ │ room         ServerConnection: the requests in flight, the phase of the connection
//!   bytes ◄── encoder slot ◄── ResponseHead, Bytes, FileRegion, BodyEnd, FullResponse, RefuseRequest
//! ```
//!
//! | file | |
//! |---|---|
//! | `builder.rs` | options, and how the codec is added |
//! | `connection.rs`, `connection_flags.rs` | what both slots share, and the way from bytes to requests |
//! | `request_queue.rs` | the requests in flight, and the body that is being received |
//! | `ending.rs` | how the connection ends |
//! | `answer_plan.rs` | the facts of a request on which its answer depends; how an answer is framed |
//! | `answers.rs` | an answer part by part; the answers of the codec itself |
//! | `decode_slot.rs`, `encode_slot.rs` | the two handlers |

mod answer_plan;
mod answers;
mod builder;
mod connection;
mod connection_flags;
mod decode_slot;
mod encode_slot;
mod ending;
mod request_queue;

pub use self::builder::{HttpServerCodec, HttpServerCodecBuilder};
