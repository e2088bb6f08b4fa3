//! Services behind compression and decompression, over connections of a server.

mod answers;
mod client;
mod requests;
