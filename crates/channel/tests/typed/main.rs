//! The typed layer: typed handlers, codecs and chains.

mod chains;
mod decoders;
mod encoders;
mod handlers;
mod lines;
mod protocol_upgrade;
