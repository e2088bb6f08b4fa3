//! The conformance matrix of datagrams: cells are datagram transports over drivers, cases are in `case_list.rs`.

mod case_list;
mod cell;
mod errors;
mod leaks;
mod reading;
mod shutdown;
mod test_bed;
mod unix_transport;
mod writing;

use waterwheel::net::{Blocking, Epoll, Poll};
use waterwheel_testkit::manual::Manual;

use self::case_list::datagram_matrix;
use self::cell::{Cell, MemoryTransport, UdpTransport};
use self::unix_transport::UnixTransport;
use crate::loops::Loops;

datagram_matrix! {
    udp_over_epoll: Cell::new(UdpTransport, Loops::over(Epoll));
    udp_over_poll: Cell::new(UdpTransport, Loops::over(Poll));
    udp_over_blocking: Cell::new(UdpTransport, Loops::per_channel(Blocking));
    unix_over_epoll: Cell::new(UnixTransport, Loops::over(Epoll));
    unix_over_poll: Cell::new(UnixTransport, Loops::over(Poll));
    unix_over_blocking: Cell::new(UnixTransport, Loops::per_channel(Blocking));
    memory_by_readiness: memory(Manual::readiness());
    memory_by_completion: memory(Manual::completion());
}

fn memory(manual: Manual) -> Cell {
    Cell::new(MemoryTransport::default(), Loops::manual(&manual))
}

#[test]
fn c13_every_datagram_case_of_the_matrix_runs_or_has_a_reason_not_to() {
    case_list::print_and_check(&cells());
}
