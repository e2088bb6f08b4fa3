//! The codec of a client: requests out, responses in.
//!
//! | file | |
//! |---|---|
//! | `builder.rs` | options, and how the codec is added |
//! | `exchanges.rs` | what both slots share: the requests without a response |
//! | `request_slot.rs`, `response_slot.rs` | the two handlers |

mod builder;
mod exchanges;
mod request_slot;
mod response_slot;

pub use self::builder::{HttpClientCodec, HttpClientCodecBuilder};
