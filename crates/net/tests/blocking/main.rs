//! Channels with a loop and a thread each, over the blocking driver (L13), with TCP on the loopback.

mod echo;
mod group_end;
mod interrupted_waits;
mod loop_reuse;
mod max_channels;
mod no_spinning;
mod stress;
mod support;
