//! Bodies of messages: [`Body`] of those that are sent, [`Incoming`] of those that are received.
//!
//! ```text
//!   connection ──push──► BodyPipe ──chunk().await──► Incoming        pauses reads while it is full
//!   connection ◄──poll_chunk── BodySource ◄── Body                   polled while the channel is writable
//! ```

pub(crate) mod error;
pub(crate) mod incoming;
pub(crate) mod outgoing;
pub(crate) mod pipe;
pub(crate) mod source;
