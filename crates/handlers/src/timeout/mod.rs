//! Limits on time (K07).
//!
//! | limit on | handler | in |
//! |---|---|---|
//! | the time without a message from the peer | `ReadTimeout` | `read_timeout` |
//! | the time of each write | `WriteTimeout` | `write_timeout` |
//! | the time until the first message | `FirstMessageDeadline` | `first_message` |
//!
//! Each closes its channel when the limit is exceeded, after an error event that names the channel, its peer and the
//! limit (`TimeoutError`). The idle handler measures the same without closing. All of them share `rearming_timer` and
//! `read_activity`: activity records its time, and only the timer compares.

mod error;
mod first_message;
pub(crate) mod read_activity;
mod read_timeout;
pub(crate) mod rearming_timer;
mod write_timeout;

pub use self::error::{InvalidTimeout, TimeoutError};
pub use self::first_message::FirstMessageDeadline;
pub use self::read_timeout::ReadTimeout;
pub use self::write_timeout::WriteTimeout;
