//! O03: every part of the framework at the same time, under load and with injected faults.
//!
//! Bounded writes (C07), load-aware choosers (E18), drains (L11), selector rebuilds and back-off after failed waits
//! (L06) and the wake-up (E10) each have tests of their own. Here they run together: servers of every transport,
//! fast, slow and broken clients, and faults that the test injects.
//!
//! ```text
//!   scenario queue ──► threads: each takes a scenario, runs it, takes the next
//!   │ echo, broadcast, read slowly, never read, reset, cancel, edit the pipeline, re-register …
//!   │ drain and replace, spin, fail waits, exhaust descriptors (EMFILE), panic, block a loop …
//!   ▼
//!   round ──► round ──► round ──► …      after each round: every sent byte is accounted for, nothing is left
//!                                        open, nothing has grown, no report but those that scenarios caused
//! ```
//!
//! Rules:
//!
//! 1. A client knows every byte it should receive. A missing byte was reported to it: by the end of a connection that
//!    the test may end early, or by an error.
//! 2. A scenario waits for what it has caused, with a limit, and leaves nothing behind.
//! 3. Every scenario runs in every round, however slow the machine is. The number of runs of each is printed.
//! 4. Random data comes from a seed that is printed; `WATERWHEEL_SEED` sets it. The kernel schedules the threads, so
//!    the same seed gives the same load, but not the same run.
//!
//! A run takes five seconds; `WATERWHEEL_SOAK` sets another number. `scripts/test soak` runs it for a minute.

mod back_pressure;
mod broken_connections;
mod byte_counts;
mod client_connection;
#[path = "../../../../support/counting_allocator.rs"]
mod counting_allocator;
mod echo_traffic;
mod faults;
mod handlers;
mod mixed_traffic;
#[path = "../support/random.rs"]
mod random;
mod reports;
mod round_checks;
mod run_deadline;
mod scenario_runner;
mod services;
mod soak_setup;
mod tls_traffic;

use std::time::Duration;

use crate::random::SeededRng;
use crate::round_checks::{ProcessUsage, RoundChecks};
use crate::run_deadline::RunDeadline;
use crate::soak_setup::SoakSetup;

/// Length of a run without `WATERWHEEL_SOAK`.
const DEFAULT_SECONDS: u64 = 5;

/// Number of rounds of a run; the limits on a round's length take precedence.
const ROUNDS: u32 = 12;
const SHORTEST_ROUND: Duration = Duration::from_millis(2500);
const LONGEST_ROUND: Duration = Duration::from_secs(30);

#[test]
fn o03_under_load_and_faults_nothing_is_lost_nothing_is_left_and_nothing_grows() {
    let seconds = std::env::var("WATERWHEEL_SOAK").ok().map_or(DEFAULT_SECONDS, |seconds| {
        seconds.parse().expect("WATERWHEEL_SOAK is a number of seconds")
    });
    let total = Duration::from_secs(seconds);
    let round = (total / ROUNDS).clamp(SHORTEST_ROUND, LONGEST_ROUND);
    let rounds = (total.as_millis() / round.as_millis()).max(3) as u32;
    let mut rng = SeededRng::new();
    let before = ProcessUsage::now();
    let setup = SoakSetup::new(&mut rng);
    let deadline = RunDeadline::start(rounds, round, setup.metrics());
    let mut checks = RoundChecks::new(rounds, before);
    for _ in 0..rounds {
        scenario_runner::run_all(&setup, &mut rng, round);
        checks.check_round(&setup);
    }
    setup.shut_down();
    deadline.cancel();
    round_checks::wait_for_threads(before.threads);
    assert_eq!(ProcessUsage::now().files, before.files, "open file descriptors after the run");
}
