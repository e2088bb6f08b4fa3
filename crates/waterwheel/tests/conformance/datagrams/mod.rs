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

use self::cell::{Cell, MemoryKind, UdpKind};
use self::listing::datagram_matrix;
use self::unix_kind::UnixKind;
use crate::loops::Loops;

datagram_matrix! {
    udp_over_epoll: Cell::new(UdpKind, Loops::over(Epoll));
    udp_over_poll: Cell::new(UdpKind, Loops::over(Poll));
    udp_over_blocking: Cell::new(UdpKind, Loops::per_channel(Blocking));
    unix_over_epoll: Cell::new(UnixKind, Loops::over(Epoll));
    unix_over_poll: Cell::new(UnixKind, Loops::over(Poll));
    unix_over_blocking: Cell::new(UnixKind, Loops::per_channel(Blocking));
    memory_by_readiness: memory(Manual::readiness());
    memory_by_completion: memory(Manual::completion());
}

fn memory(manual: Manual) -> Cell {
    Cell::new(MemoryKind::default(), Loops::by_hand(&manual))
}

#[test]
fn c13_every_datagram_case_of_the_matrix_runs_or_has_a_reason_not_to() {
    listing::print_and_check(&cells());
}
