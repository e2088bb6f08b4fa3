//! Sockets: TCP, UDP and Unix domain sockets, their options, existing sockets and inherited sockets.

pub(crate) mod ancillary;
pub(crate) mod datagram_socket;
pub(crate) mod existing_sockets;
pub(crate) mod inherited;
mod multicast;
mod options;
pub(crate) mod socket;
mod socket_file;
pub(crate) mod tcp;
pub(crate) mod udp;
pub(crate) mod unix_datagrams;
pub(crate) mod unix_streams;
