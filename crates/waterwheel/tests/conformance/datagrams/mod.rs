//! The same for datagrams: cells are kinds of datagrams over drivers, cases are in `listing.rs`.

mod cell;
mod ending;
mod errors;
mod listing;
mod reading;
mod stage;
mod unix_kind;
mod waves;
mod writing;

use waterwheel::net::{Blocking, Epoll, Poll};
use waterwheel_testkit::manual::Manual;

use self::cell::{Cell, MemoryKind, Over, UdpKind};
use self::listing::datagram_suite;
use self::unix_kind::UnixKind;

datagram_suite!(udp_over_epoll, Over::new(UdpKind, Epoll::default()));
datagram_suite!(udp_over_poll, Over::new(UdpKind, Poll));
datagram_suite!(udp_over_blocking, Over::per_channel(UdpKind, Blocking));
datagram_suite!(unix_over_epoll, Over::new(UnixKind, Epoll::default()));
datagram_suite!(unix_over_poll, Over::new(UnixKind, Poll));
datagram_suite!(unix_over_blocking, Over::per_channel(UnixKind, Blocking));
datagram_suite!(memory_readiness, Over::new(MemoryKind::default(), Manual::readiness()));
datagram_suite!(memory_completion, Over::new(MemoryKind::default(), Manual::completion()));

/// Every column of the matrix.
fn cells() -> Vec<Box<dyn Cell>> {
    vec![
        Box::new(Over::new(UdpKind, Epoll::default())),
        Box::new(Over::new(UdpKind, Poll)),
        Box::new(Over::per_channel(UdpKind, Blocking)),
        Box::new(Over::new(UnixKind, Epoll::default())),
        Box::new(Over::new(UnixKind, Poll)),
        Box::new(Over::per_channel(UnixKind, Blocking)),
        Box::new(Over::new(MemoryKind::default(), Manual::readiness())),
        Box::new(Over::new(MemoryKind::default(), Manual::completion())),
    ]
}

#[test]
fn c13_every_datagram_case_of_the_matrix_runs_or_has_a_reason_not_to() {
    listing::print_and_check(&cells());
}
