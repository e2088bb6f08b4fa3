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
mod leaving;
mod listing;
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

use crate::cell::{Cell, LocalOver, NetworkOver, TcpOver};
use crate::listing::conformance_suite;

conformance_suite!(tcp_over_epoll, TcpOver::new(Epoll::default()));
conformance_suite!(tcp_over_poll, TcpOver::new(Poll));
conformance_suite!(tcp_over_blocking, TcpOver::per_channel(Blocking));
conformance_suite!(local_over_nothing, LocalOver::new(TaskOnly));
conformance_suite!(local_over_epoll, LocalOver::new(Epoll::default()));
conformance_suite!(manual_readiness, NetworkOver::new(Manual::readiness()));
conformance_suite!(manual_completion, NetworkOver::new(Manual::completion()));

/// Every column of the matrix.
fn cells() -> Vec<Box<dyn Cell>> {
    vec![
        Box::new(TcpOver::new(Epoll::default())),
        Box::new(TcpOver::new(Poll)),
        Box::new(TcpOver::per_channel(Blocking)),
        Box::new(LocalOver::new(TaskOnly)),
        Box::new(LocalOver::new(Epoll::default())),
        Box::new(NetworkOver::new(Manual::readiness())),
        Box::new(NetworkOver::new(Manual::completion())),
    ]
}

#[test]
fn c13_every_case_of_the_matrix_runs_or_has_a_reason_not_to() {
    listing::print_and_check(&cells());
}
