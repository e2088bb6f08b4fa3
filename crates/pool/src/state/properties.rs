//! Random events against the state of a pool, whose effects a slow model follows by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use waterwheel_channel::{Address, AddressSpec, Token};
use waterwheel_executor::Nanos;

use super::*;
use crate::options::{LoopAffinity, ReuseOrder};

const ADDRESSES: usize = 3;
const LOOPS: usize = 2;

/// A connection of the model.
struct ModelHandle {
    id: Token,
    address: usize,
    is_idle: AtomicBool,
    is_usable: AtomicBool,
}

impl PooledHandle for Arc<ModelHandle> {
    fn set_idle(&self, is_idle: bool) {
        assert_ne!(self.is_idle.swap(is_idle, Ordering::Relaxed), is_idle);
    }

    fn is_usable(&self) -> bool {
        self.is_usable.load(Ordering::Relaxed)
    }
}

/// An acquire of the model: its address and its ticket.
type ModelWaiter = (usize, u64);

/// Knows every connection and acquire by what the actions told about it.
struct Model {
    core: PoolCore<Arc<ModelHandle>, ModelWaiter>,
    limits: PoolLimits,
    names: Vec<Arc<AddressSpec>>,
    now: Nanos,
    next_ticket: u64,
    waiting: Vec<BTreeSet<u64>>,
    connecting: BTreeMap<Token, usize>,
    preparing: Vec<Arc<ModelHandle>>,
    checking: Vec<Arc<ModelHandle>>,
    leased: Vec<Arc<ModelHandle>>,
    /// Told to close; not closed yet.
    closing: Vec<Arc<ModelHandle>>,
    /// Every connection that was neither closed nor taken out.
    open: Vec<Arc<ModelHandle>>,
    retries: Vec<Arc<AddressSpec>>,
    failed: usize,
}

#[derive(Clone, Debug)]
enum PoolEvent {
    Acquire {
        address: usize,
        from: Option<usize>,
    },
    Cancel(usize),
    TimeOut(usize),
    Connected(usize),
    ConnectFailed(usize),
    Prepared(usize),
    PrepareFailed(usize),
    Checked(usize),
    CheckFailed(usize),
    Release(usize),
    Discard(usize),
    TakeOut(usize),
    Closed(usize),
    /// Closed by the peer, at any stage.
    Lost(usize),
    /// Closed, but the pool is not notified yet.
    Unusable(usize),
    ReadWhileIdle(usize),
    AgeLimit(usize),
    IdleLimit(usize),
    CheckIdle(usize),
    Retire(usize),
    WarmUp(usize),
    Retry,
    Pass(u64),
}

fn events() -> impl Strategy<Value = PoolEvent> {
    let at = 0..64_usize;
    prop_oneof![
        12 => (0..ADDRESSES, proptest::option::of(0..LOOPS))
            .prop_map(|(address, from)| PoolEvent::Acquire { address, from }),
        2 => at.clone().prop_map(PoolEvent::Cancel),
        1 => at.clone().prop_map(PoolEvent::TimeOut),
        8 => at.clone().prop_map(PoolEvent::Connected),
        2 => at.clone().prop_map(PoolEvent::ConnectFailed),
        8 => at.clone().prop_map(PoolEvent::Prepared),
        1 => at.clone().prop_map(PoolEvent::PrepareFailed),
        5 => at.clone().prop_map(PoolEvent::Checked),
        1 => at.clone().prop_map(PoolEvent::CheckFailed),
        8 => at.clone().prop_map(PoolEvent::Release),
        2 => at.clone().prop_map(PoolEvent::Discard),
        1 => at.clone().prop_map(PoolEvent::TakeOut),
        6 => at.clone().prop_map(PoolEvent::Closed),
        1 => at.clone().prop_map(PoolEvent::Lost),
        1 => at.clone().prop_map(PoolEvent::Unusable),
        1 => at.clone().prop_map(PoolEvent::ReadWhileIdle),
        1 => at.clone().prop_map(PoolEvent::AgeLimit),
        1 => at.clone().prop_map(PoolEvent::IdleLimit),
        1 => at.prop_map(PoolEvent::CheckIdle),
        1 => (0..ADDRESSES).prop_map(PoolEvent::Retire),
        1 => (0..ADDRESSES).prop_map(PoolEvent::WarmUp),
        1 => Just(PoolEvent::Retry),
        2 => (0..4_u64).prop_map(PoolEvent::Pass),
    ]
}

fn settings() -> impl Strategy<Value = PoolLimits> {
    let max_open = proptest::option::of(1..4_usize);
    let max_total = proptest::option::of(2..5_usize);
    let affinity = prop_oneof![
        Just(LoopAffinity::LocalFirst),
        Just(LoopAffinity::ReuseFirst),
        Just(LoopAffinity::Ignored)
    ];
    let reuse = prop_oneof![Just(ReuseOrder::NewestFirst), Just(ReuseOrder::OldestFirst)];
    let check = proptest::option::of((0..3_u64).prop_map(Duration::from_secs));
    let sizes = (0..6_usize, 0..8_usize, 0..2_usize);
    (max_open, max_total, affinity, reuse, check, sizes).prop_map(
        |(max_open, max_open_total, affinity, reuse, check_after, (one, all, min_idle))| {
            PoolLimits {
                max_open,
                max_open_total,
                max_waiting: one,
                max_waiting_total: all,
                min_idle,
                reuse,
                affinity,
                idle_limit: Some(Duration::from_secs(2)),
                check_after,
            }
        },
    )
}

impl Model {
    fn new(limits: PoolLimits) -> Self {
        let name = |index| Arc::new(AddressSpec::from(Address::local(format!("{index}"))));
        Self {
            core: PoolCore::new(limits, LOOPS),
            limits,
            names: (0..ADDRESSES).map(name).collect(),
            now: Nanos(0),
            next_ticket: 0,
            waiting: vec![BTreeSet::new(); ADDRESSES],
            connecting: BTreeMap::new(),
            preparing: Vec::new(),
            checking: Vec::new(),
            leased: Vec::new(),
            closing: Vec::new(),
            open: Vec::new(),
            retries: Vec::new(),
            failed: 0,
        }
    }

    fn pick_open(&self, at: usize) -> Option<Arc<ModelHandle>> {
        self.open.get(at % self.open.len().max(1)).cloned()
    }

    fn index_of(&self, address: &AddressSpec) -> usize {
        self.names.iter().position(|name| **name == *address).unwrap()
    }

    fn apply(&mut self, event: PoolEvent) {
        let mut actions = Vec::new();
        let now = self.now;
        match event {
            PoolEvent::Acquire { address, from } => self.acquire(address, from, &mut actions),
            PoolEvent::Cancel(at) => {
                if let Some((address, ticket)) = self.pick_waiter(at) {
                    let name = self.names[address].clone();
                    assert!(self.core.cancel(&name, ticket, &mut actions).is_some());
                }
            }
            PoolEvent::TimeOut(at) => {
                if let Some((address, ticket)) = self.pick_waiter(at) {
                    let name = self.names[address].clone();
                    assert!(self.core.time_out(&name, ticket, &mut actions).is_some());
                }
            }
            PoolEvent::Connected(at) => self.connected(at, &mut actions),
            PoolEvent::ConnectFailed(at) => {
                if let Some(id) =
                    self.connecting.keys().nth(at % self.connecting.len().max(1)).copied()
                {
                    self.connecting.remove(&id);
                    self.core.failed(id, now, &mut actions);
                }
            }
            PoolEvent::Prepared(at) => {
                if let Some(handle) = take_at(&mut self.preparing, at) {
                    self.core.ready(handle.id, now, &mut actions);
                }
            }
            PoolEvent::PrepareFailed(at) => {
                if let Some(handle) = take_at(&mut self.preparing, at) {
                    self.core.failed(handle.id, now, &mut actions);
                }
            }
            PoolEvent::Checked(at) => {
                if let Some(handle) = take_at(&mut self.checking, at) {
                    self.core.ready(handle.id, now, &mut actions);
                }
            }
            PoolEvent::CheckFailed(at) => {
                if let Some(handle) = take_at(&mut self.checking, at) {
                    self.core.check_failed(handle.id, now, &mut actions);
                }
            }
            PoolEvent::Release(at) => {
                if let Some(handle) = take_at(&mut self.leased, at) {
                    self.core.ready(handle.id, now, &mut actions);
                }
            }
            PoolEvent::Discard(at) => {
                if let Some(handle) = take_at(&mut self.leased, at) {
                    self.core.discard(handle.id, PoolCloseReason::Discarded, &mut actions);
                }
            }
            PoolEvent::TakeOut(at) => {
                if let Some(handle) = take_at(&mut self.leased, at) {
                    let was_open = self.open.iter().any(|open| Arc::ptr_eq(open, &handle));
                    assert_eq!(self.core.take_out(handle.id, now, &mut actions), was_open);
                    self.open.retain(|open| !Arc::ptr_eq(open, &handle));
                }
            }
            PoolEvent::Closed(at) => {
                if let Some(handle) = take_at(&mut self.closing, at) {
                    self.closed(&handle, &mut actions);
                }
            }
            PoolEvent::Lost(at) => {
                if let Some(handle) = self.pick_open(at) {
                    self.closing.retain(|closing| !Arc::ptr_eq(closing, &handle));
                    self.closed(&handle, &mut actions);
                }
            }
            PoolEvent::Unusable(at) => {
                if let Some(handle) = self.pick_open(at) {
                    handle.is_usable.store(false, Ordering::Relaxed);
                }
            }
            PoolEvent::ReadWhileIdle(at) => {
                if let Some(handle) = self.pick_open(at) {
                    let was_idle = handle.is_idle.load(Ordering::Relaxed);
                    assert_eq!(self.core.read_while_idle(handle.id, &mut actions), was_idle);
                }
            }
            PoolEvent::AgeLimit(at) => {
                if let Some(handle) = self.pick_open(at) {
                    self.core.retire(handle.id, PoolCloseReason::AgeLimit, &mut actions);
                }
            }
            PoolEvent::IdleLimit(at) => {
                if let Some(handle) = self.pick_open(at) {
                    self.core.expire_idle(handle.id, now, &mut actions);
                }
            }
            PoolEvent::CheckIdle(at) => {
                if let Some(handle) = self.pick_open(at) {
                    let interval = Duration::from_secs(1);
                    self.core.check_idle(handle.id, interval, now, &mut actions);
                }
            }
            PoolEvent::Retire(address) => {
                let name = self.names[address].clone();
                self.core.retire_address(&name, &mut actions);
            }
            PoolEvent::WarmUp(address) => {
                let name = self.names[address].clone();
                self.core.warm_up(&name, &mut actions);
            }
            PoolEvent::Retry => {
                for name in std::mem::take(&mut self.retries) {
                    self.core.retry(&name, &mut actions);
                }
            }
            PoolEvent::Pass(seconds) => self.now = now.plus(Duration::from_secs(seconds)),
        }
        self.follow(actions);
        self.check();
    }

    fn acquire(
        &mut self,
        address: usize,
        from: Option<usize>,
        actions: &mut PoolActions<Arc<ModelHandle>, ModelWaiter>,
    ) {
        let (name, now) = (self.names[address].clone(), self.now);
        match self.core.try_acquire(&name, from, now, actions) {
            Ok(Some(handle)) => return self.lease(address, handle),
            Ok(None) => {}
            Err(error) => panic!("{error}"),
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting[address].insert(ticket);
        let (place, waiter) = ((from, ticket), (address, ticket));
        match self.core.enqueue(&name, place, waiter, now, actions) {
            EnqueueOutcome::Queued => {}
            EnqueueOutcome::Served { .. } => panic!("the state has not changed since"),
            EnqueueOutcome::Refused { error, waiter } => {
                assert_eq!(waiter, (address, ticket));
                match error {
                    PoolError::TooManyWaiting { waiting, max, .. } => {
                        assert_eq!(max, self.limits.max_waiting);
                        assert!(waiting >= max);
                    }
                    PoolError::TooManyWaitingInTotal { waiting, max, .. } => {
                        assert_eq!(max, self.limits.max_waiting_total);
                        assert!(waiting >= max);
                    }
                    other => panic!("{other}"),
                }
                self.waiting[address].remove(&ticket);
            }
        }
    }

    /// Takes a waiting acquire out of the model.
    fn pick_waiter(&mut self, at: usize) -> Option<ModelWaiter> {
        let at = at % self.waiting.iter().map(BTreeSet::len).sum::<usize>().max(1);
        let all = self.waiting.iter().enumerate();
        let mut all = all.flat_map(|(address, tickets)| tickets.iter().map(move |t| (address, *t)));
        let (address, ticket) = all.nth(at)?;
        self.waiting[address].remove(&ticket);
        Some((address, ticket))
    }

    fn connected(&mut self, at: usize, actions: &mut PoolActions<Arc<ModelHandle>, ModelWaiter>) {
        let place = at % self.connecting.len().max(1);
        let Some((&id, &address)) = self.connecting.iter().nth(place) else { return };
        self.connecting.remove(&id);
        let (is_idle, is_usable) = (AtomicBool::new(false), AtomicBool::new(true));
        let handle = Arc::new(ModelHandle { id, address, is_idle, is_usable });
        self.open.push(handle.clone());
        let event_loop = (at % 3 < LOOPS).then_some(at % 3);
        let (_, is_wanted) =
            self.core.connected(id, (handle.clone(), event_loop), self.now, actions);
        if is_wanted {
            self.preparing.push(handle);
        }
    }

    fn closed(
        &mut self,
        handle: &Arc<ModelHandle>,
        actions: &mut PoolActions<Arc<ModelHandle>, ModelWaiter>,
    ) {
        handle.is_usable.store(false, Ordering::Relaxed);
        self.core.closed(handle.id, self.now, actions);
        self.open.retain(|open| !Arc::ptr_eq(open, handle));
    }

    fn lease(&mut self, address: usize, handle: Arc<ModelHandle>) {
        assert_eq!(handle.address, address);
        assert!(handle.is_usable.load(Ordering::Relaxed), "a broken connection was handed out");
        let is_leased = self.leased.iter().any(|leased| Arc::ptr_eq(leased, &handle));
        assert!(!is_leased, "two leases of one connection");
        self.leased.push(handle);
    }

    fn follow(&mut self, actions: PoolActions<Arc<ModelHandle>, ModelWaiter>) {
        for action in actions {
            match action {
                PoolAction::Connect { id, address, .. } => {
                    let address = self.index_of(&address);
                    assert!(self.connecting.insert(id, address).is_none());
                }
                PoolAction::Check { connection, .. } => self.checking.push(connection),
                PoolAction::Deliver { waiter: (address, ticket), connection } => {
                    self.pop_oldest(address, ticket);
                    self.lease(address, connection);
                }
                PoolAction::Fail((address, ticket)) => {
                    self.pop_oldest(address, ticket);
                    self.failed += 1;
                }
                PoolAction::Close(handle) => self.closing.push(handle),
                PoolAction::Forget(_) => {}
                PoolAction::RetryLater { address, .. } => self.retries.push(address),
                PoolAction::CancelConnect(_) | PoolAction::FailClosed(_) | PoolAction::Emptied => {
                    panic!("the pool is not closed")
                }
            }
        }
    }

    /// Removes an acquire that was served or failed: it has to be the oldest of its address.
    fn pop_oldest(&mut self, address: usize, ticket: u64) {
        assert_eq!(self.waiting[address].pop_first(), Some(ticket), "out of order");
    }

    fn check(&self) {
        let metrics = self.core.metrics();
        let waiting = self.waiting.iter().map(BTreeSet::len).sum::<usize>();
        assert_eq!(metrics.now.waiting, waiting);
        assert_eq!(metrics.now.open, self.open.len() + self.connecting.len());
        let idle = self.open.iter().filter(|it| it.is_idle.load(Ordering::Relaxed)).count();
        assert_eq!(metrics.now.idle, idle);
        let max_total = self.limits.max_open_total.unwrap_or(usize::MAX);
        assert!(metrics.now.open <= max_total);
        let mut uncovered = 0;
        let mut need_room = BTreeSet::new();
        for (index, name) in self.names.iter().enumerate() {
            let counts = self.core.counts_of(name);
            let max = self.limits.max_open.unwrap_or(usize::MAX);
            assert!(counts.open <= max);
            assert_eq!(counts.waiting, self.waiting[index].len());
            let missing = counts.waiting.saturating_sub(counts.connecting + counts.checking);
            uncovered += missing;
            if missing > 0 && (counts.idle > 0 || counts.open < max) {
                need_room.extend(self.waiting[index].first());
            }
            // No acquire waits for nothing: there is no idle connection, and either no room, or room is being made.
            if missing > 0 {
                assert_eq!(counts.idle, 0, "{counts}");
                let is_blocked = counts.open >= max
                    || metrics.now.open >= max_total
                        && (metrics.now.idle == 0 || metrics.now.closing > 0);
                assert!(is_blocked, "{counts}; in total {}", metrics.now);
            }
        }
        assert_eq!(self.core.uncovered, uncovered);
        let has_total_limit = self.limits.max_open_total.is_some();
        let expected = if has_total_limit { need_room } else { BTreeSet::new() };
        assert!(self.core.need_room.keys().eq(&expected));
    }

    /// Lets everything that is on its way arrive.
    fn finish(&mut self) {
        for _ in 0..10_000 {
            let event = match () {
                () if !self.connecting.is_empty() => PoolEvent::Connected(0),
                () if !self.preparing.is_empty() => PoolEvent::Prepared(0),
                () if !self.checking.is_empty() => PoolEvent::Checked(0),
                () if !self.closing.is_empty() => PoolEvent::Closed(0),
                () if !self.leased.is_empty() => PoolEvent::Release(0),
                () => break,
            };
            self.apply(event);
        }
        let now = self.core.metrics().now;
        assert_eq!(now.waiting, 0, "an acquire waits for ever: {now}");
        assert_eq!(now.open, now.idle, "a place was lost: {now}");
    }

    fn close(&mut self) {
        let mut actions = Vec::new();
        self.core.close(&mut actions);
        let mut emptied = self.core.metrics().now.open == 0;
        for action in actions {
            match action {
                PoolAction::Close(handle) => self.closing.push(handle),
                PoolAction::FailClosed((address, ticket)) => {
                    assert!(self.waiting[address].remove(&ticket));
                }
                PoolAction::Emptied | PoolAction::Forget(_) => {}
                _ => panic!("a closed pool begins nothing"),
            }
        }
        assert!(self.waiting.iter().all(BTreeSet::is_empty));
        let mut actions = Vec::new();
        for id in std::mem::take(&mut self.connecting).into_keys() {
            self.core.failed(id, self.now, &mut actions);
        }
        for handle in std::mem::take(&mut self.leased) {
            self.core.ready(handle.id, self.now, &mut actions);
        }
        for handle in std::mem::take(&mut self.open) {
            self.core.closed(handle.id, self.now, &mut actions);
        }
        emptied |= actions.iter().any(|action| matches!(action, PoolAction::Emptied));
        assert!(emptied && self.core.metrics().now == PoolCounts::default());
        assert_eq!(self.core.metrics().addresses, 0);
    }
}

fn take_at(list: &mut Vec<Arc<ModelHandle>>, at: usize) -> Option<Arc<ModelHandle>> {
    (!list.is_empty()).then(|| list.remove(at % list.len()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn k12_any_order_of_events_keeps_limits_and_order_and_loses_nothing(
        limits in settings(),
        events in proptest::collection::vec(events(), 0..120),
        closes_early in any::<bool>(),
    ) {
        let mut model = Model::new(limits);
        for event in events {
            model.apply(event);
        }
        if !closes_early {
            model.finish();
        }
        model.close();
    }
}
