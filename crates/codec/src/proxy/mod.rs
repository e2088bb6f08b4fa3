//! The PROXY protocol, versions 1 and 2: a header with the client's address at the start of a connection (K04).
//!
//! ```text
//!   Bytes ──► ProxyServer ──Bytes──► the protocol behind the proxy
//!                 │ sets the peer's address from the header, and fires the ProxyHeader as a user event
//!                 └ removes itself after the header; any other input is an error and closes the channel
//! ```
//!
//! The specification is `doc/proxy-protocol.txt` of HAProxy.

mod binary_header;
mod checksum;
mod decoder;
mod encoder;
mod error;
mod header;
mod server;
mod text_header;
mod tlv;

pub use self::decoder::ProxyDecoder;
pub use self::encoder::ProxyEncoder;
pub use self::error::ProxyError;
pub use self::header::{ProxyAddresses, ProxyHeader};
pub use self::server::ProxyServer;
pub use self::tlv::ProxyTlv;
