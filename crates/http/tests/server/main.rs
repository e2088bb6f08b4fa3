//! Tests of the server over an embedded channel: bytes in, bytes out, on a virtual clock.

mod answers;
mod bench;
mod bodies;
mod closing;
mod drains;
mod ending;
mod hostile;
mod metrics;
mod parts;
mod pipelining;
mod random;
mod time_limits;
