//! O03: everything at the same time, for a while.
//!
//! Bounded writes (C07), choosers that look at the load (E18), drains (L11), selectors that are rebuilt and
//! left alone for a while (L06) and the wake-up (E10) each have tests of their own. Here they meet: servers of
//! every transport, clients of every temper, and faults on purpose.
//!
//! ```text
//!   deck ──► actors: a thread each, takes a scene, plays it, takes the next
//!   │ talk, broadcast, read slowly, never read, reset, cancel, edit, leave …
//!   │ drain and replace, spin, fail, starve of descriptors, panic, hold a loop …
//!   ▼
//!   round ──► round ──► round ──► …      after each all is quiet: what was sent is accounted for, nothing
//!                                        is left, nothing has grown, nothing was reported but what was done
//! ```
//!
//! Rules:
//!
//! 1. A client knows every byte it should get. What it does not get it was told of: by an end of the
//!    connection, where ends are made, or by an error.
//! 2. A scene waits on what it has caused, with a limit, and leaves nothing behind.
//! 3. Every scene is played in every round, however slow the machine is. How often each was is printed.
//! 4. Random data comes from a seed that is printed; `WATERWHEEL_SEED` sets it. Which thread comes first is
//!    the kernel's affair, so the same seed is the same load and not the same run.
//!
//! It takes five seconds; `WATERWHEEL_SOAK` sets another number. `scripts/test soak` runs it for a minute.

mod actors;
mod alarm;
mod breaking;
#[path = "../../../../support/counting_allocator.rs"]
mod counting_allocator;
mod crowds;
mod faults;
mod handlers;
mod ledger;
mod line;
mod pressure;
mod quiet;
#[path = "../support/random.rs"]
mod random;
mod reports;
mod services;
mod talking;
mod world;

use std::time::Duration;

use crate::alarm::Alarm;
use crate::quiet::{Process, Quiet};
use crate::random::SeededRng;
use crate::world::World;

/// How long it takes when nothing is said.
const DEFAULT_SECONDS: u64 = 5;

/// A run is divided into so many rounds, if they are long enough then and not too long.
const ROUNDS: u32 = 12;
const SHORTEST_ROUND: Duration = Duration::from_millis(2500);
const LONGEST_ROUND: Duration = Duration::from_secs(30);

#[test]
fn o03_under_load_and_faults_nothing_is_lost_nothing_is_left_and_nothing_grows() {
    let seconds = std::env::var("WATERWHEEL_SOAK").ok().map_or(DEFAULT_SECONDS, |seconds| {
        seconds.parse().expect("WATERWHEEL_SOAK is a number of seconds")
    });
    let whole = Duration::from_secs(seconds);
    let round = (whole / ROUNDS).clamp(SHORTEST_ROUND, LONGEST_ROUND);
    let rounds = (whole.as_millis() / round.as_millis()).max(3) as u32;
    let mut dice = SeededRng::new();
    let before = Process::now();
    let world = World::new(&mut dice);
    let alarm = Alarm::set(rounds, round, world.metrics());
    let mut quiet = Quiet::new(rounds, before);
    for _ in 0..rounds {
        actors::play(&world, &mut dice, round);
        quiet.check(&world);
    }
    world.end();
    alarm.off();
    quiet::threads_are(before.threads);
    assert_eq!(Process::now().files, before.files, "descriptors are left");
}
