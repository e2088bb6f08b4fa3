//! permessage-deflate (RFC 7692): its parameters, and the compression of messages.
//!
//! ```text
//!   DeflateOptions ──put_offer──► offers ──negotiate──► DeflateParameters ──put_response──► response ──check_response──►
//!      client                                server                                                        client
//! ```
//!
//! `options.rs`, `parameters.rs` and `negotiation.rs` are about the opening handshake; `deflater.rs` and `inflater.rs` about
//! messages, with the streams of zlib that `spare_streams.rs` keeps for the connections of a thread.

pub(crate) mod deflater;
pub(crate) mod inflater;
pub(crate) mod negotiation;
pub(crate) mod options;
pub(crate) mod parameters;
pub(crate) mod spare_streams;
