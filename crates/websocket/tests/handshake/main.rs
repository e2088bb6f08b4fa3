//! The opening handshake, between bytes and an HTTP server, and between a client and a server of our own (W01).

mod requests;
