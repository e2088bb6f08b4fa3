#![doc = include_str!("../../../README.md")]
//!
//! # Where to find what
//!
//! | for | look at |
//! |---|---|
//! | servers and clients | [`ServerBootstrap`](channel::ServerBootstrap), [`Bootstrap`](channel::Bootstrap) |
//! | the loops they run on | [`EventLoopGroup`](channel::EventLoopGroup), with a driver: [`Auto`](net::Auto), [`Epoll`](net::Epoll), [`Poll`](net::Poll), [`Blocking`](net::Blocking) |
//! | transports | [`Tcp`](net::Tcp), [`Udp`](net::Udp), [`Unix`](net::Unix), [`UnixDatagrams`](net::UnixDatagrams), [`Local`](channel::local::Local) |
//! | handlers | [`Handler`](channel::Handler), [`Ctx`](channel::Ctx); with types: [`InboundHandler`](channel::InboundHandler), [`Decoder`](channel::Decoder) |
//! | stock codecs and handlers | [`codec`], [`handlers`] |
//! | a channel, from any thread | [`Channel`](channel::Channel); many as one: [`ChannelGroup`](channel::ChannelGroup) |
//! | options | [`ChannelOptions`](channel::ChannelOptions), [`SocketOption`](channel::driver::SocketOption) |
//! | addresses | [`Address`](channel::Address), [`UnixAddress`](channel::UnixAddress) |
//! | datagrams, files and descriptors as messages | [`Datagram`](channel::Datagram), [`FileRegion`](channel::FileRegion), [`AncillaryMessage`](channel::AncillaryMessage) |
//! | reusing client connections | [`ChannelPool`](pool::ChannelPool) |
//! | large messages in chunks | [`ChunkedWriter`](handlers::ChunkedWriter) |
//! | TLS | [`TlsHandler`](tls::TlsHandler), [`ServerTls`](tls::ServerTls), [`ClientTls`](tls::ClientTls) |
//! | TLS from start to end: STARTTLS, ALPN, one port | [`tls_guide`] |
//! | HTTP/1.1 servers and clients | [`HttpServer`](http::HttpServer), [`serve`](http::serve), [`Client`](http::Client) |
//! | HTTP from start to end: routes, bodies, files, limits | [`http_guide`] |
//! | WebSocket servers and clients | [`WebSocketUpgrade`](websocket::WebSocketUpgrade), [`WebSocketConnector`](websocket::WebSocketConnector), with the guide [`websocket_guide`] |
//! | async functions, tokio, hyper | [`async_bridge`], with the guide [`async_guide`] |
//! | limiting connections | [`ConnectionLimit`](channel::ConnectionLimit); by address: [`NetworkFilter`](handlers::NetworkFilter), [`AddressLimit`](handlers::AddressLimit), [`AcceptRate`](handlers::AcceptRate) in a [`GuardChain`](channel::GuardChain) |
//! | limiting rates, of a channel or of many | [`TrafficShaping`](handlers::TrafficShaping), [`TrafficLimiter`](handlers::TrafficLimiter) |
//! | existing sockets | [`Inherited`](net::Inherited), [`existing_listener`](net::existing_listener), [`existing_stream`](net::existing_stream) |
//! | graceful shutdown, reload by SIGHUP, take-over by SIGUSR2 | [`EventLoopGroup::drain`](channel::EventLoopGroup::drain), [`Terminate`](net::Terminate); [`ReloadSignal`](net::ReloadSignal), [`TakeOverSignal`](net::TakeOverSignal) |
//! | finding handlers that block a loop, metrics | [`Watchdog`](executor::Watchdog), [`LoopMetrics`](channel::LoopMetrics) |
//! | tasks, timers, promises | [`EventExecutor`](executor::EventExecutor), [`PromiseFuture`](executor::PromiseFuture) |
//! | tests | the crate `waterwheel-testkit`, its `embedded` first |
//! | programs to read | [`examples`] |
//! | a protocol of your own | [`codecs`] |
//! | which stock handler, and where it stands | [`stock_handlers`] |
//! | the counterpart of a Netty class | [`coming_from_netty`] |
//! | the counterpart of something in tokio | [`coming_from_tokio`] |
#![forbid(unsafe_code)]

pub use bytes;
pub use waterwheel_async as async_bridge;
pub use waterwheel_channel as channel;
pub use waterwheel_codec as codec;
pub use waterwheel_executor as executor;
pub use waterwheel_handlers as handlers;
pub use waterwheel_http as http;
pub use waterwheel_net as net;
pub use waterwheel_pool as pool;
pub use waterwheel_tls as tls;
pub use waterwheel_websocket as websocket;

#[doc = include_str!("../../../docs/EXAMPLES.md")]
pub mod examples {}

#[doc = include_str!("../../../docs/COMING_FROM_NETTY.md")]
pub mod coming_from_netty {}

#[doc = include_str!("../../../docs/COMING_FROM_TOKIO.md")]
pub mod coming_from_tokio {}

#[doc = include_str!("../../../docs/ASYNC.md")]
pub mod async_guide {}

#[doc = include_str!("../../../docs/CODECS.md")]
pub mod codecs {}

#[doc = include_str!("../../../docs/HTTP.md")]
pub mod http_guide {}

#[doc = include_str!("../../../docs/WEBSOCKET.md")]
pub mod websocket_guide {}

#[doc = include_str!("../../../docs/TLS.md")]
pub mod tls_guide {}

#[doc = include_str!("../../../docs/HANDLERS.md")]
pub mod stock_handlers {}
