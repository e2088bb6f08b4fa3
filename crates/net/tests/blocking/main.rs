//! Channels with a loop and a thread each, over the blocking driver (L13), with TCP on the loopback.

mod bench;
mod corners;
mod echo;
mod ending;
mod interrupts;
mod limit;
mod reuse;
mod stress;
