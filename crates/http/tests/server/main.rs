//! Tests of the server over an embedded channel: bytes in, bytes out, on a virtual clock.

mod bench;
mod bodies;
mod closing;
mod parts;
mod pipelining;
