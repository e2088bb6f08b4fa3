//! The take-over restart: a new process gets the listening sockets of this one, and this one drains.
//!
//! ```text
//!   old process                                          new process
//!   SIGUSR2: starts the program of its arguments ──────► standard input is a Unix socket, WATERWHEEL_TAKE_OVER=1
//!   sends the listening sockets (SCM_RIGHTS) ──────────► reads its configuration, starts its loops, accepts
//!   stops accepting, drains, ends ◄──────────── "ready" ──┘
//! ```
//!
//! # Rules
//!
//! 1. Both processes accept from the same sockets for a moment, and one of them always does: no connection is refused.
//! 2. The old process serves until the new one is ready. If that fails, ends or takes longer than `take_over`, it is killed, and
//!    the old process goes on as if nothing had happened.
//! 3. The new process reads file, environment and flags anew. It listens where the old one did: other values of `bind` and `port`
//!    wait for a stop and a start.
//! 4. The memory engine does not survive its process: clients that resume are told of a gap, and get what was published to the
//!    new process before they came.

pub mod hand_over;
mod handed_sockets;
pub mod predecessor;

/// The variable that tells a process that it takes over.
const VARIABLE: &str = "WATERWHEEL_TAKE_OVER";

/// The text with which the new process says that it accepts connections.
const READY: &[u8] = b"ready\n";
