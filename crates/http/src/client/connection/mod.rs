//! A connection of a client, as the handler at the end of its pipeline.
//!
//! ```text
//!   the caller's future                        on the same loop
//!   ClientCall ──begin──► ConnectionLink ◄──► ClientConnection (handler) ⇄ [pool-watch ⇄ TLS] ⇄ transport
//!      ▲                     │  RequestSender    polls the body of the request while the channel is writable
//!      └──head, Incoming─────┘  ResponseDecoder  pushes the body of the response into its pipe
//! ```
//!
//! Rules:
//! 1. *One exchange at a time.* It holds the lease of the connection, and gives it back when request and response are
//!    complete and both sides keep the connection; otherwise the connection is closed.
//! 2. *Nothing is borrowed* while a body source is polled, a waker is called, or something of the caller's is dropped.
//! 3. *The driver* is a future on the loop, spawned with the first exchange: its waker is the one that body sources and
//!    dropped bodies wake.

pub(super) mod call;
pub(super) mod driver;
pub(super) mod exchange;
pub(super) mod handler;
pub(super) mod link;
pub(super) mod reading;
pub(super) mod request_sender;
pub(super) mod time_limits;
