//! Tests of the server over an embedded channel: bytes in, bytes out, on a virtual clock.

mod answers;
mod bench;
mod bodies;
mod closing;
mod ending;
mod parts;
mod pipelining;
