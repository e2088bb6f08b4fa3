//! One list of test cases over every transport and driver (C13).
//!
//! ```text
//!               epoll    poll  blocking  manual  …
//!   TCP        34 run  34 run    33 run     (1)
//!   Unix       32 run  32 run    31 run     (1)
//!   local      27 run  27 run    26 run  27 run
//!   embedded   31 run  31 run    30 run  31 run
//!   memory        (3)     (3)       (3)  32 run
//! ```
//!
//! A [`Cell`] is a transport (in `transports/`) over a driver (`loops.rs`). A case is a function over any cell;
//! the list of cases is in `case_list.rs`. A cell that cannot support a case gives the reason; only a limit of the
//! transport or driver itself is a reason. `cargo test -p waterwheel --test conformance matrix -- --nocapture` prints
//! the matrix case by case.
//!
//! Datagrams have a list of their own in `datagrams/`: they have no server, no connection and no end of stream.
//!
//! Rules of the suite:
//!
//! 1. Nothing sleeps: a case waits for futures, or for events of a handler, with a limit.
//! 2. To show that something does *not* happen, a case makes a round trip on the same loop that ends after the event
//!    would have happened.
//! 3. Random data comes from a seed that is printed; `WATERWHEEL_SEED` sets it.
//! 4. A case leaves nothing behind: it shuts its groups down at its end and waits until they have terminated.

mod case_list;
mod cases;
mod cell;
mod datagrams;
mod loops;
mod matrix;
#[path = "../support/random.rs"]
mod random;
mod test_bed;
mod transports;
mod write_counter;

use waterwheel::channel::driver::TaskOnly;
use waterwheel::net::{Blocking, Epoll, Poll};
use waterwheel_testkit::manual::Manual;

use crate::case_list::conformance_matrix;
use crate::cell::Cell;
use crate::loops::Loops;
use crate::transports::{
    EmbeddedTransport, LocalTransport, MemoryTransport, TcpTransport, UnixTransport,
};

conformance_matrix! {
    tcp_over_epoll: Cell::new(TcpTransport, Loops::over(Epoll));
    tcp_over_poll: Cell::new(TcpTransport, Loops::over(Poll));
    tcp_over_blocking: Cell::new(TcpTransport, Loops::per_channel(Blocking));
    unix_over_epoll: Cell::new(UnixTransport::new(), Loops::over(Epoll));
    unix_over_poll: Cell::new(UnixTransport::new(), Loops::over(Poll));
    unix_over_blocking: Cell::new(UnixTransport::new(), Loops::per_channel(Blocking));
    local_over_nothing: Cell::new(LocalTransport, Loops::over(TaskOnly));
    local_over_epoll: Cell::new(LocalTransport, Loops::over(Epoll));
    local_over_poll: Cell::new(LocalTransport, Loops::over(Poll));
    local_over_blocking: Cell::new(LocalTransport, Loops::per_channel(Blocking));
    local_by_readiness: Cell::new(LocalTransport, Loops::manual(&Manual::readiness()));
    local_by_completion: Cell::new(LocalTransport, Loops::manual(&Manual::completion()));
    embedded_over_nothing: embedded(Loops::over(TaskOnly));
    embedded_over_epoll: embedded(Loops::over(Epoll));
    embedded_over_poll: embedded(Loops::over(Poll));
    embedded_over_blocking: embedded(Loops::per_channel(Blocking));
    embedded_by_readiness: embedded(Loops::manual(&Manual::readiness()));
    embedded_by_completion: embedded(Loops::manual(&Manual::completion()));
    memory_by_readiness: memory(Manual::readiness());
    memory_by_completion: memory(Manual::completion());
}

fn embedded(loops: Loops) -> Cell {
    Cell::new(EmbeddedTransport::default(), loops)
}

fn memory(manual: Manual) -> Cell {
    Cell::new(MemoryTransport::of(&manual), Loops::manual(&manual))
}

#[test]
fn c13_every_case_of_the_matrix_runs_or_has_a_reason_not_to() {
    case_list::print_and_check(&cells());
}
