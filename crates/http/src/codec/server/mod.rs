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
//! | `connection.rs`, `connection_flags.rs` | what both slots share: requests in flight, and how the connection ends |
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

pub use self::builder::{HttpServerCodec, HttpServerCodecBuilder};
