//! Servers: the handler of a pipeline that reads requests, calls a service, and writes its answers in order.
//!
//! ```text
//!   bytes ──► RequestDecoder ──► ServerExchange: call ──► answer ──► body ──► bytes   one per request, in order
//!                    │              ▲
//!                    └── body ──► BodyPipe ──► Incoming
//! ```
//!
//! | file | |
//! |---|---|
//! | `http_server.rs`, `options.rs` | what a user builds, and its options |
//! | `handler.rs` | the handler of the pipeline: events in, calls of the connection out |
//! | `connection/`, `connection_state.rs` | one connection: reads requests, begins calls, writes answers whose turn it is, ends |
//! | `exchange.rs`, `service_call.rs` | one request on its way to its answer; the future of the service |
//! | `answer.rs`, `body_writer.rs` | a response as bytes; a streamed body |
//! | `deadlines.rs` | time limits: one timer for each connection |
//! | `loop_state.rs`, `counters.rs` | what the connections of a loop share: the service, the date, counters |
//!
//! What is written goes through `crate::outbound`, as that of the codecs does.
//!
//! Rules:
//! 1. *Fast path.* A request without a body whose service is ready at its first poll is answered in the call that read
//!    it: no task, no queue, and its answer joins those before it in one write.
//! 2. *Order.* At most `max_pipelined` requests of a connection are answered at the same time. An answer is written when
//!    all before it are.
//! 3. *A refused request* has one answer, after those before it; then the output is shut down, and what the peer still
//!    sends is read and dropped for a while, so that no RST overtakes the answer.
//! 4. *No borrow.* The state is taken out of its cell while it is used: services, bodies and their destructors run with
//!    nothing borrowed. All uses are calls of the pipeline's handler, so they never meet.
//! 5. *Wakes.* One waker for each connection: a wake polls everything of the connection that is pending.

mod answer;
mod body_writer;
mod connection;
mod connection_state;
mod counters;
mod deadlines;
mod driver;
mod exchange;
mod handler;
pub(crate) mod http_server;
mod loop_state;
pub(crate) mod options;
mod service_call;

pub use self::counters::{HttpMetrics, LATENCY_BUCKETS};
pub use self::http_server::{HttpServer, HttpServerBuilder, serve, upgrade_response};
pub use self::options::InvalidHttpOption;
