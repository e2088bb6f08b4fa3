//! The typed layer over handlers: typed handlers, codecs, chains, and the verifier of decoders.

mod chains;
mod decoders;
mod encoders;
mod handlers;
mod lines;
mod upgrades;
mod verifier;
