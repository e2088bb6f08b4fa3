//! Runs the scenarios of a round on threads, and checks that each has run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::random::SeededRng;
use crate::soak_setup::SoakSetup;
use crate::{back_pressure, broken_connections, echo_traffic, faults, mixed_traffic, tls_traffic};

type Scenario = (&'static str, fn(&SoakSetup, &mut SeededRng));

/// Number of threads that run the scenarios of [`TRAFFIC`].
const TRAFFIC_THREADS: usize = 5;

const TRAFFIC: &[Scenario] = &[
    ("burst", echo_traffic::burst),
    ("request and response", echo_traffic::request_and_response),
    ("byte by byte", echo_traffic::byte_by_byte),
    ("read slowly", echo_traffic::read_slowly),
    ("edit", echo_traffic::edit),
    ("reregister", echo_traffic::reregister),
    ("cancel writes", echo_traffic::cancel_writes),
    ("write beyond the cap", back_pressure::write_beyond_the_cap),
    ("reset", broken_connections::reset),
    ("connect refused", broken_connections::connect_refused),
    ("cancel a connect", broken_connections::cancel_a_connect),
    ("broadcast", mixed_traffic::broadcast),
    ("get a file", mixed_traffic::get_a_file),
    ("ask by datagrams", mixed_traffic::ask_by_datagrams),
    ("run tasks", mixed_traffic::run_tasks),
    ("echo over tls", echo_traffic::echo_over_tls),
    ("garbage for tls", tls_traffic::garbage),
    ("leave in the handshake", tls_traffic::leave_in_the_handshake),
    ("truncate tls", tls_traffic::truncate),
];

/// Scenarios that one thread runs one after the other: two of them at the same time would disturb each other's counts.
const FAULTS: &[Scenario] = &[
    ("drain and replace", faults::drain_and_replace),
    ("spin", faults::spin),
    ("fail waits", faults::fail_waits),
    ("rebuild", faults::rebuild),
    ("panic", broken_connections::panic),
    ("shut down", broken_connections::shut_down),
];

/// Scenarios that take about a second each, on a thread of their own.
const SLOW_SCENARIOS: &[Scenario] = &[
    ("never read", back_pressure::never_read),
    ("exhaust descriptors", faults::exhaust_descriptors),
    ("block a loop", faults::block_a_loop),
];

/// Runs all scenarios for `time`, and each at least once.
pub(crate) fn run_all(setup: &SoakSetup, rng: &mut SeededRng, time: Duration) {
    let over = AtomicBool::new(false);
    let runs = Mutex::new(BTreeMap::new());
    let queues =
        [TRAFFIC, FAULTS, SLOW_SCENARIOS].map(|scenarios| ScenarioQueue::new(scenarios, rng));
    let (notices, stopped) = channel();
    thread::scope(|scope| {
        let threads = [(&queues[0], TRAFFIC_THREADS), (&queues[1], 1), (&queues[2], 1)];
        for (queue, count) in threads {
            for _ in 0..count {
                let mut rng = SeededRng::from_seed(rng.next());
                let (over, runs, stopped) = (&over, &runs, StopNotice(notices.clone()));
                scope.spawn(move || {
                    while let Some((name, scenario)) = queue.next(over.load(Ordering::Relaxed)) {
                        scenario(setup, &mut rng);
                        *lock(runs).entry(name).or_insert(0_u64) += 1;
                    }
                    drop(stopped);
                });
            }
        }
        // A thread that stops before the time is over has panicked: the round ends early.
        let _ = stopped.recv_timeout(time);
        over.store(true, Ordering::Relaxed);
    });
    let runs = lock(&runs);
    let scenarios = TRAFFIC.iter().chain(FAULTS).chain(SLOW_SCENARIOS);
    let missing: Vec<_> = scenarios.filter(|scenario| !runs.contains_key(scenario.0)).collect();
    assert!(missing.is_empty(), "scenarios that never ran: {missing:?}");
    println!("runs of each scenario: {:?}", *runs);
}

/// Sends a message when a thread stops, also by a panic.
struct StopNotice(Sender<()>);

impl Drop for StopNotice {
    fn drop(&mut self) {
        let _ = self.0.send(()); // The receiver is gone when the time is over.
    }
}

/// Scenarios in a random order, repeated for ever.
struct ScenarioQueue(Mutex<(Vec<Scenario>, usize)>);

impl ScenarioQueue {
    fn new(scenarios: &[Scenario], rng: &mut SeededRng) -> Self {
        let mut scenarios = scenarios.to_vec();
        for at in (1..scenarios.len()).rev() {
            scenarios.swap(at, rng.below(at + 1));
        }
        Self(Mutex::new((scenarios, 0)))
    }

    /// Returns the next scenario, or `None` if the time is over and every scenario was taken once.
    fn next(&self, over: bool) -> Option<Scenario> {
        let mut queue = lock(&self.0);
        let (scenarios, taken) = &mut *queue;
        if over && *taken >= scenarios.len() {
            return None;
        }
        *taken += 1;
        Some(scenarios[(*taken - 1) % scenarios.len()])
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
