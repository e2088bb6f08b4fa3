//! The typed layer over handlers: typed handlers, codecs, chains.

mod chains;
mod decoders;
mod encoders;
mod handlers;
mod lines;
mod protocol_upgrade;
