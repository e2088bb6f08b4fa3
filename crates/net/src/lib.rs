//! Drivers and sockets: the only crate of the workspace that does socket I/O.
//!
//! A loop is built with one of the factories [`Epoll`], [`Poll`], [`Blocking`] or [`Auto`]; the driver that it
//! opens obeys the [contract of `Driver`](waterwheel_channel::driver#the-contract).
//!
//! ```text
//!   Epoll  Poll  Blocking  Auto        factories: OpenDriver
//!      \     |     |     /
//!   ReadinessDriver<S>                 the rules for sockets: connect, write, read, accept, hang-up
//!          |
//!      S: Selector                     what a readiness selector must supply: five verbs
//!       /        \
//!   EpollSelector  PollSelector        the kernel's set of descriptors
//! ```
//!
//! | for | give bootstraps |
//! |---|---|
//! | TCP servers and clients | [`Tcp`] |
//! | Unix stream servers and clients, file descriptor passing | [`Unix`], [`wrap_descriptor`] |
//! | UDP, with multicast and broadcast | [`Udp`] |
//! | Unix datagrams | [`UnixDatagrams`] |
//! | a thread per channel | a group of [`EventLoopGroup::per_channel`](waterwheel_channel::EventLoopGroup::per_channel) with [`Blocking`] |
//! | a socket that exists already | [`existing_listener`], [`existing_stream`]; [`Inherited`] for systemd socket activation |
//!
//! Each transport runs over any of these drivers. [`Terminate`] ties SIGTERM and SIGINT to a drain of the
//! process's loops; [`ReloadSignal`] reports SIGHUP, [`TakeOverSignal`] SIGUSR2.
//!
//! Sockets and descriptors are passed to a driver as an opaque [`Io`](waterwheel_channel::driver::Io): a
//! [`Socket`], a [`DatagramSocket`], or any [`ForeignSource`] by way of [`foreign_io`].
//!
//! ```
//! use std::net::TcpListener;
//!
//! use waterwheel_channel::driver::{OpenDriver, ReadPlan, Role};
//! use waterwheel_channel::Slab;
//! use waterwheel_net::{Auto, Socket};
//!
//! # fn main() -> std::io::Result<()> {
//! let mut driver = Auto.open()?;
//! let listener = Socket::new(TcpListener::bind("127.0.0.1:0")?)?;
//! let token = Slab::new().insert(());
//! driver.attach(token, listener.into(), Role::Listener)?;
//! driver.set_read(token, Some(ReadPlan::default()));
//! assert!(["epoll", "poll"].contains(&driver.name()));
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)]

mod address;
mod drivers;
mod error_context;
mod foreign;
mod reload_signal;
mod resolver;
mod signal_calls;
mod signals;
mod sockets;
mod sys;
mod take_over_signal;

pub use crate::drivers::auto::Auto;
pub use crate::drivers::blocking::Blocking;
pub use crate::drivers::epoll::{CoarseEpoll, Epoll};
pub use crate::drivers::poll::Poll;
pub use crate::foreign::{ForeignSource, foreign, foreign_io};
pub use crate::reload_signal::ReloadSignal;
pub use crate::resolver::SystemResolver;
pub use crate::signals::{Terminate, TerminationSignal};
pub use crate::sockets::ancillary::{unwrap_descriptor, wrap_descriptor};
pub use crate::sockets::datagram_socket::DatagramSocket;
pub use crate::sockets::existing_sockets::{existing_listener, existing_stream};
pub use crate::sockets::inherited::{InheritError, Inherited};
pub use crate::sockets::socket::Socket;
pub use crate::sockets::tcp::Tcp;
pub use crate::sockets::udp::Udp;
pub use crate::sockets::unix_datagrams::UnixDatagrams;
pub use crate::sockets::unix_streams::Unix;
pub use crate::take_over_signal::TakeOverSignal;
