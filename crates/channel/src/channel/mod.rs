//! Channels: a transport below, a pipeline above, and the engine between them.
//!
//! | to understand | read |
//! |---|---|
//! | what users hold | `handle` on `shared`, `new_channel`, `attributes`, `options` |
//! | how calls get in, and what they leave behind | `core`, then `channels`; `unhandled` |
//! | reading | `reading`, with `receive` |
//! | writing | `writing` and `level`, on `outbound`, `out_accounts`, `out_parts` and `out_spent` |
//! | living and dying | `closing`, on `lifecycle`, told by `steps`; `connecting`, `half_closure`; `draining`, with `hold` on `holds` |
//! | what is below | [`transport`], and `stream`, `listener` and `datagrams` as those over a driver, on `socket`, from `sockets` |

pub(crate) mod attributes;
pub(crate) mod channels;
pub(crate) mod closing;
pub(crate) mod connecting;
pub(crate) mod core;
pub(crate) mod datagrams;
pub(crate) mod draining;
pub(crate) mod error;
pub(crate) mod half_closure;
pub(crate) mod handle;
pub(crate) mod hold;
pub(crate) mod holds;
pub(crate) mod level;
pub(crate) mod lifecycle;
pub(crate) mod listener;
pub(crate) mod new_channel;
pub(crate) mod options;
mod out_accounts;
mod out_parts;
mod out_spent;
pub(crate) mod outbound;
pub(crate) mod rarely;
pub(crate) mod reading;
pub(crate) mod receive;
pub(crate) mod request;
pub(crate) mod shared;
mod socket;
pub(crate) mod sockets;
pub(crate) mod steps;
pub(crate) mod stream;
pub(crate) mod submissions;
pub mod transport;
mod unhandled;
pub(crate) mod writing;
