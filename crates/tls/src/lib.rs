//! TLS as a handler, over [rustls].
//!
//! A [`TlsHandler`] stands first in a pipeline, or after the handlers that see the connection as it is (PROXY protocol,
//! wire log, shaping). It decrypts what is read and encrypts what is written; protocols after it and transports before
//! it do not know of it.
//!
//! | for | look at |
//! |---|---|
//! | a server or a client with TLS | [`TlsHandler::server`], [`TlsHandler::client`] |
//! | certificates, keys and trust from files | [`ServerTls`], [`ClientTls`], [`pem`] |
//! | certificates by name, reload | [`ServerCertificates`], [`ServerNameMap`] |
//! | the outcome of the handshake | [`TlsHandshake`], a user event |
//! | a pipeline for each application protocol (ALPN) | [`AlpnHandler`] |
//! | limits, and the answer to close_notify | [`TlsOptions`], [`OnCloseNotify`] |
//! | ending TLS in the middle of a stream | [`StopTls`], [`TlsStopped`] |
//! | the configuration by the client's name or offers | [`ServerTls::chosen_by`], [`ClientHello`] |
//! | a ClientHello without a connection | [`ClientHelloReader`], [`fatal_alert`] |
//! | failures | [`TlsError`], [`TlsConfigError`], [`AlpnError`], [`ClientHelloError`] |
//!
//! The parts: `session` is one connection as a state machine over bytes; `handler` feeds it, fires what it says and
//! keeps the time; `alpn` chooses the handlers after it; `config` builds the configurations of rustls.
#![forbid(unsafe_code)]

mod alpn;
mod client_hello;
mod config;
mod error;
mod handler;
mod handshake;
mod session;

pub use rustls;

pub use self::alpn::{AlpnError, AlpnHandler, AlpnHandlerBuilder, InvalidAlpnHandler};
pub use self::client_hello::ClientHello;
pub use self::client_hello::alert::fatal_alert;
pub use self::client_hello::error::ClientHelloError;
pub use self::client_hello::reader::ClientHelloReader;
pub use self::config::certificates::{ServerCertificates, ServerCertificatesBuilder};
pub use self::config::client::{ClientTls, ClientTlsBuilder};
pub use self::config::client_certificates::ClientCertificates;
pub use self::config::error::TlsConfigError;
pub use self::config::pem;
pub use self::config::server::{ServerTls, ServerTlsBuilder};
pub use self::config::server_name_map::{InvalidServerName, ServerNameMap};
pub use self::error::{ChooserError, TlsError};
pub use self::handler::TlsHandler;
pub use self::handler::options::{InvalidTlsOption, OnCloseNotify, TlsOptions, TlsOptionsBuilder};
pub use self::handshake::{StopTls, TlsHandshake, TlsPeerClosed, TlsStopped};
