//! One list of cases over every transport and driver (C13).
//!
//! ```text
//!              TCP over epoll   TCP over poll   local over nothing   …
//!   echo            ran              ran                ran
//!   reset           ran              ran         empty: there is no …
//!   …
//! ```
//!
//! A [`Cell`] is one column: a transport over a driver. A case is a function over any cell; the list of
//! them is in `listing.rs`. A cell that cannot have a case says why, and only what its nature forbids is a
//! reason. `cargo test --test conformance matrix -- --nocapture` prints the whole.
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
use crate::kinds::{LocalKind, MemoryKind, TcpKind, UnixKind};
use crate::listing::conformance_matrix;
use crate::loops::Loops;

conformance_matrix! {
    tcp_over_epoll: Cell::new(TcpKind, Loops::over(Epoll::default()));
    tcp_over_poll: Cell::new(TcpKind, Loops::over(Poll));
    tcp_over_blocking: Cell::new(TcpKind, Loops::per_channel(Blocking));
    unix_over_epoll: Cell::new(UnixKind::new(), Loops::over(Epoll::default()));
    unix_over_poll: Cell::new(UnixKind::new(), Loops::over(Poll));
    unix_over_blocking: Cell::new(UnixKind::new(), Loops::per_channel(Blocking));
    local_over_nothing: Cell::new(LocalKind, Loops::over(TaskOnly));
    local_over_epoll: Cell::new(LocalKind, Loops::over(Epoll::default()));
    local_over_poll: Cell::new(LocalKind, Loops::over(Poll));
    local_over_blocking: Cell::new(LocalKind, Loops::per_channel(Blocking));
    local_by_hand: Cell::new(LocalKind, Loops::by_hand(&Manual::readiness()));
    memory_by_readiness: memory(Manual::readiness());
    memory_by_completion: memory(Manual::completion());
}

fn memory(manual: Manual) -> Cell {
    Cell::new(MemoryKind::of(&manual), Loops::by_hand(&manual))
}

#[test]
fn c13_every_case_of_the_matrix_runs_or_has_a_reason_not_to() {
    listing::print_and_check(&cells());
}
