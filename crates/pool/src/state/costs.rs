//! The cost of changes in large pools: no change looks at all connections or addresses.

use std::sync::Arc;
use std::time::{Duration, Instant};

use waterwheel_channel::{AddressSpec, Token};
use waterwheel_executor::Nanos;

use super::{PoolAction, PoolActions, PoolCore, PooledHandle};
use crate::options::PoolLimits;

/// Enough for a walk over all of them, at each of them, to take minutes; without walks it takes part of a second.
const MANY: usize = 30_000;
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone)]
struct PlainHandle(Token);

impl PooledHandle for PlainHandle {
    fn set_idle(&self, _: bool) {}

    fn is_usable(&self) -> bool {
        true
    }
}

type PlainCore = PoolCore<PlainHandle, ()>;

fn unlimited() -> PoolLimits {
    let (max_waiting, max_waiting_total) = (usize::MAX, usize::MAX);
    PoolLimits { max_open: None, max_waiting, max_waiting_total, ..PoolLimits::default() }
}

fn name(at: usize) -> Arc<AddressSpec> {
    Arc::new(AddressSpec::from(format!("host-{at}:80")))
}

/// Does at once what the actions ask for, and returns the connections that were handed out.
fn follow(core: &mut PlainCore, mut actions: PoolActions<PlainHandle, ()>) -> Vec<PlainHandle> {
    let mut leased = Vec::new();
    while let Some(action) = actions.pop() {
        match action {
            PoolAction::Connect { id, .. } => {
                core.connected(id, (PlainHandle(id), Some(0)), Nanos(0), &mut actions);
                core.ready(id, Nanos(0), &mut actions);
            }
            PoolAction::Close(handle) => core.closed(handle.0, Nanos(0), &mut actions),
            PoolAction::Deliver { connection, .. } => leased.push(connection),
            _ => {}
        }
    }
    leased
}

fn acquire(core: &mut PlainCore, name: &Arc<AddressSpec>, ticket: usize) -> Vec<PlainHandle> {
    let mut actions = Vec::new();
    core.enqueue(name, (None, ticket as u64), (), Nanos(0), &mut actions);
    follow(core, actions)
}

fn release(core: &mut PlainCore, handle: &PlainHandle) -> Vec<PlainHandle> {
    let mut actions = Vec::new();
    core.ready(handle.0, Nanos(0), &mut actions);
    follow(core, actions)
}

#[allow(clippy::disallowed_methods, reason = "the time that the test itself takes")]
fn begin() -> Instant {
    Instant::now()
}

#[test]
fn k12_a_total_limit_costs_no_walk_over_the_addresses() {
    let began = begin();
    let mut core = PlainCore::new(PoolLimits { max_open_total: Some(MANY), ..unlimited() }, 1);
    let leased: Vec<_> = (0..MANY).flat_map(|at| acquire(&mut core, &name(at), at)).collect();
    assert_eq!(leased.len(), MANY);
    // No acquire waits.
    leased.iter().for_each(|handle| assert!(release(&mut core, handle).is_empty()));
    for at in 0..MANY {
        let taken = core.try_acquire(&name(at), None, Nanos(0), &mut Vec::new());
        assert!(taken.unwrap().is_some());
    }
    // As many other addresses wait.
    for at in MANY..2 * MANY {
        assert!(acquire(&mut core, &name(at), at).is_empty());
    }
    let served: usize = leased.iter().map(|handle| release(&mut core, handle).len()).sum();
    assert_eq!(served, MANY);
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

#[test]
fn k12_checks_cost_no_walk_over_the_idle_connections() {
    let began = begin();
    let mut core = PlainCore::new(PoolLimits { max_open_total: Some(MANY), ..unlimited() }, 1);
    let leased: Vec<_> = (0..MANY).flat_map(|at| acquire(&mut core, &name(0), at)).collect();
    leased.iter().for_each(|handle| assert!(release(&mut core, handle).is_empty()));
    let (interval, later) = (Duration::from_secs(1), Nanos(2_000_000_000));
    for PlainHandle(id) in &leased {
        let mut actions = Vec::new();
        core.check_idle(*id, interval, later, &mut actions);
        assert!(matches!(actions[..], [PoolAction::Check { .. }]));
        core.ready(*id, later, &mut actions);
    }
    assert_eq!(core.metrics().now.idle, MANY);
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}
