//! hyper on a loop: what hyper asks of a runtime, and connections that take part in a drain.
//!
//! | hyper asks for | here |
//! |---|---|
//! | `Read` and `Write` | [`ByteStream`](crate::ByteStream) |
//! | `Executor`, for the streams of HTTP/2 | [`ScopeExecutor`]: they end with their channel |
//! | `Timer` | [`LoopTimer`], by the loop's clock |
//!
//! Nothing of it is `Send`, and nothing has to be: a connection, its streams and its services stay on the loop of the
//! channel. hyper's builders are the user's, with the features of hyper that the user enables; this crate enables none.
//!
//! # Servers
//!
//! [`serve_http`] runs one connection of hyper: in [`Serve::serve`](crate::Serve::serve) for a port with one protocol,
//! or in [`serve_channel`](crate::serve_channel) where an initialiser chooses. With TLS, that is an initialiser of an
//! `AlpnHandler` (`h2`, `http/1.1`); on a port for plain text, one of a `ProtocolDetector`: a client with prior
//! knowledge of HTTP/2 begins with its preface, `PRI * HTTP/2.0`.
//!
//! # Clients
//!
//! hyper's `handshake` takes the stream of a connection from
//! [`connect_async`](crate::ConnectAsync::connect_async), whose bootstrap adds the TLS handler if there is one; the
//! connection that it returns runs in the channel's scope:
//!
//! ```
//! use bytes::Bytes;
//! use http_body_util::Empty;
//! use hyper::client::conn::http2::{SendRequest, handshake};
//! use hyper::rt::Executor;
//! use waterwheel_async::{ByteStream, ConnectAsync, ScopeExecutor};
//! use waterwheel_channel::{AddressSpec, Bootstrap};
//!
//! async fn connect(
//!     bootstrap: &Bootstrap,
//!     to: impl Into<AddressSpec>,
//! ) -> Result<SendRequest<Empty<Bytes>>, Box<dyn std::error::Error>> {
//!     let connection = bootstrap.connect_async::<Bytes, Bytes>(to).await?;
//!     let executor = ScopeExecutor::of(&connection);
//!     let (requests, http) = handshake(executor.clone(), ByteStream::new(connection)).await?;
//!     executor.execute(http);
//!     Ok(requests)
//! }
//! ```

mod connection;
mod executor;
mod timer;

pub use self::connection::serve_http;
pub use self::executor::ScopeExecutor;
pub use self::timer::LoopTimer;
