//! Channels: a transport below, a pipeline above, and the engine between them.
//!
//! | to understand | read |
//! |---|---|
//! | what users hold | `handle`: the handle on `shared_state`, `request`, `new_channel`, `attributes`; `options`, `error` |
//! | how calls enter a channel, and the work that they defer | `core`, `deferred_calls`, `panics`, then `loop_channels` |
//! | messages and errors that no handler took | `unhandled` |
//! | reading | `reading`, with `read_size` |
//! | writing | `writing` and `writability`, on `outbound`, `pending_writes`, `stream_pieces` and `drop_queue`; `submitted_bytes` for other threads |
//! | the life of a channel | `lifecycle`: the state machine, then `registration`, `connecting`, `closing`, `half_closure`, announced by `step_queue`; `drain`, with `hold` on `hold_count` |
//! | the layer below | [`transport`]: the contract, and `stream`, `listener` and `datagrams` as the transports over a driver, on `driver_socket`, made by `factories` |

mod cold_state;
pub(crate) mod core;
mod deferred_calls;
pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod lifecycle;
pub(crate) mod loop_channels;
pub(crate) mod options;
pub(crate) mod panics;
pub(crate) mod reading;
pub mod transport;
mod unhandled;
pub(crate) mod writing;
