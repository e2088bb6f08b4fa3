//! One list of cases over every transport and driver (C13).
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
//! A [`Cell`] is a transport (in `kinds/`) over a driver (`loops.rs`). A case is a function over any cell;
//! the list of them is in `listing.rs`. A cell that cannot have a case says why, and only what its nature
//! forbids is a reason. `cargo test -p waterwheel --test conformance matrix -- --nocapture` prints the
//! whole, case by case.
//!
//! Datagrams have a list of their own, in `datagrams/`, for there is no server, no connection and no end.
//!
//! Rules of the suite:
//!
//! 1. Nothing sleeps: a case waits on futures, or on what a handler tells it, with a limit.
//! 2. That something does *not* happen is shown by a round trip on the same loop that ends after it would
//!    have.
//! 3. Random data comes from a seed that is printed; `WATERWHEEL_SEED` sets it.
//! 4. A case leaves nothing: its groups end at its end, and that is waited for.

mod cell;
mod closing;
mod connecting;
mod counted;
mod datagrams;
mod dice;
mod echoing;
mod editing;
mod ending;
mod half_closure;
mod kinds;
mod leaving;
mod listing;
mod loops;
mod matrix;
mod pressure;
mod reading;
mod resets;
mod stage;
mod waves;
mod writing;

use waterwheel::channel::driver::TaskOnly;
use waterwheel::net::{Blocking, Epoll, Poll};
use waterwheel_testkit::manual::Manual;

use crate::cell::Cell;
use crate::kinds::{EmbeddedKind, LocalKind, MemoryKind, TcpKind, UnixKind};
use crate::listing::conformance_matrix;
use crate::loops::Loops;

conformance_matrix! {
    tcp_over_epoll: Cell::new(TcpKind, Loops::over(Epoll));
    tcp_over_poll: Cell::new(TcpKind, Loops::over(Poll));
    tcp_over_blocking: Cell::new(TcpKind, Loops::per_channel(Blocking));
    unix_over_epoll: Cell::new(UnixKind::new(), Loops::over(Epoll));
    unix_over_poll: Cell::new(UnixKind::new(), Loops::over(Poll));
    unix_over_blocking: Cell::new(UnixKind::new(), Loops::per_channel(Blocking));
    local_over_nothing: Cell::new(LocalKind, Loops::over(TaskOnly));
    local_over_epoll: Cell::new(LocalKind, Loops::over(Epoll));
    local_over_poll: Cell::new(LocalKind, Loops::over(Poll));
    local_over_blocking: Cell::new(LocalKind, Loops::per_channel(Blocking));
    local_by_readiness: Cell::new(LocalKind, Loops::by_hand(&Manual::readiness()));
    local_by_completion: Cell::new(LocalKind, Loops::by_hand(&Manual::completion()));
    embedded_over_nothing: embedded(Loops::over(TaskOnly));
    embedded_over_epoll: embedded(Loops::over(Epoll));
    embedded_over_poll: embedded(Loops::over(Poll));
    embedded_over_blocking: embedded(Loops::per_channel(Blocking));
    embedded_by_readiness: embedded(Loops::by_hand(&Manual::readiness()));
    embedded_by_completion: embedded(Loops::by_hand(&Manual::completion()));
    memory_by_readiness: memory(Manual::readiness());
    memory_by_completion: memory(Manual::completion());
}

fn embedded(loops: Loops) -> Cell {
    Cell::new(EmbeddedKind::default(), loops)
}

fn memory(manual: Manual) -> Cell {
    Cell::new(MemoryKind::of(&manual), Loops::by_hand(&manual))
}

#[test]
fn c13_every_case_of_the_matrix_runs_or_has_a_reason_not_to() {
    listing::print_and_check(&cells());
}
