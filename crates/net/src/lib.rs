//! Drivers and sockets: the only I/O system calls of the workspace.
//!
//! A loop is built with one of the factories [`Epoll`], [`Poll`], [`Blocking`] or [`Auto`]; the driver
//! each opens obeys the [contract of `Driver`](waterwheel_channel::driver#the-contract).
//!
//! ```text
//!   Epoll  Poll  Blocking  Auto        factories: OpenDriver
//!      \     |     |     /
//!   ReadinessDriver<S>                 every rule about sockets: connect, write, read, accept, hang-up
//!          |
//!      S: Selector                     what a readiness selector must supply: five verbs
//!       /        \
//!   EpollSelector  PollSelector        the kernel's set
//! ```
//!
//! | to have | give bootstraps |
//! |---|---|
//! | servers and clients over TCP | [`Tcp`] |
//! | servers and clients within the machine, descriptors passed along | [`Unix`], [`passed`] |
//! | datagrams, to groups too | [`Udp`] |
//! | datagrams within the machine | [`UnixDatagrams`] |
//! | a thread for each of their channels | a group of [`EventLoopGroup::per_channel`](waterwheel_channel::EventLoopGroup::per_channel) with [`Blocking`] |
//! | a socket that is there already | [`existing_listener`], [`existing_stream`]; [`Inherited`], those the process was started with |
//!
//! Each runs over any of these drivers. [`Terminate`] ties the end of the process, SIGTERM, to a drain of its loops.
//!
//! What is watched crosses the driver trait as an opaque
//! [`Io`](waterwheel_channel::driver::Io): a [`Socket`], or any [`ForeignSource`] by way of
//! [`foreign_io`].
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
mod auto;
mod blocking;
mod context;
mod datagram_socket;
mod epoll;
mod existing;
mod foreign;
mod inherited;
mod multicast;
mod parcels;
mod poll;
mod readiness;
mod resolver;
mod selector;
mod signals;
mod socket;
mod socket_file;
mod socket_options;
mod sys;
mod tcp;
mod udp;
mod unix;
mod unix_datagrams;
mod waker;

pub use crate::auto::Auto;
pub use crate::blocking::Blocking;
pub use crate::datagram_socket::DatagramSocket;
pub use crate::epoll::{CoarseEpoll, Epoll};
pub use crate::existing::{existing_listener, existing_stream};
pub use crate::foreign::{ForeignSource, foreign, foreign_io};
pub use crate::inherited::{InheritError, Inherited};
pub use crate::parcels::{descriptor, passed};
pub use crate::poll::Poll;
pub use crate::resolver::SystemResolver;
pub use crate::signals::{Terminate, TerminationSignal};
pub use crate::socket::Socket;
pub use crate::tcp::Tcp;
pub use crate::udp::Udp;
pub use crate::unix::Unix;
pub use crate::unix_datagrams::UnixDatagrams;
