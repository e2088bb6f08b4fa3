//! The filters that subscriptions of this gateway use, and whether the engine has them.
//!
//! # Calls of the engine
//!
//! ```text
//!            first subscription              future is ready
//!   Idle ────────────────────────► Starting ────────────────► Active
//!    ▲                                │ future fails or is dropped │ last subscription ends
//!    │          call has returned     ▼                            │
//!    └───────────────────────────── Stopping ◄─────────────────────┘
//! ```
//!
//! Each change is made under the lock, each call without it; in `Starting` and `Stopping` one caller is inside of the
//! engine, and the others wait for it. So the engine sees the calls for one filter one after the other, as the contract asks.

use std::future::poll_fn;
use std::sync::{Arc, PoisonError, RwLockWriteGuard};
use std::task::{Poll, Waker};

use super::Hub;
use super::filter_table::FilterTable;
use super::loop_inbox::LoopInbox;
use crate::engine::EngineError;
use crate::engine::position::Position;
use crate::topic::filter::TopicFilter;

/// The subscriptions to one filter, by loop.
#[derive(Debug, Default)]
pub(super) struct FilterInterest {
    loops: Vec<LoopInterest>,
    engine: EngineInterest,
    /// The tasks that wait until the call of another has returned.
    waiting: Vec<Waker>,
}

#[derive(Debug)]
struct LoopInterest {
    inbox: Arc<LoopInbox>,
    subscriptions: usize,
    /// Subscriptions that are told who enters and leaves.
    watching: usize,
}

/// The state of a filter in the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EngineInterest {
    #[default]
    Idle,
    Starting,
    Active(ActiveFilter),
    Stopping,
}

/// A filter that the engine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ActiveFilter {
    /// The engine hands on everything after this position.
    start: Position,
    /// The last publication of any filter that the hub had posted by then.
    routed: Option<Position>,
}

impl ActiveFilter {
    /// Returns the position after which everything reaches a subscription that exists now. `routed` is the last publication
    /// that the hub has posted: those before it may have passed a loop by that had no subscription then.
    fn position(self, routed: Option<Position>) -> Position {
        let Self { start, routed: before } = self;
        match routed {
            // An engine that has come back with another epoch has handed something on since.
            Some(now) if now.epoch != start.epoch && routed != before => now,
            Some(now) if now.is_after(start) => now,
            _ => start,
        }
    }
}

impl FilterInterest {
    pub(super) fn subscriptions(&self) -> usize {
        self.loops.iter().map(|each| each.subscriptions).sum()
    }

    pub(super) fn inboxes(&self) -> impl Iterator<Item = &Arc<LoopInbox>> {
        self.loops.iter().map(|each| &each.inbox)
    }

    pub(super) fn watching_inboxes(&self) -> impl Iterator<Item = &Arc<LoopInbox>> {
        self.loops.iter().filter(|each| each.watching > 0).map(|each| &each.inbox)
    }
}

/// The interest of one subscription in a filter; it ends when this is dropped.
pub(in crate::session) struct HubInterest {
    hub: Arc<Hub>,
    filter: TopicFilter,
    inbox: Arc<LoopInbox>,
    is_watching: bool,
}

impl HubInterest {
    /// Adds a subscription of a loop. What the engine hands on reaches the loop from now on.
    pub(in crate::session) fn add(
        hub: &Arc<Hub>,
        filter: &TopicFilter,
        inbox: &Arc<LoopInbox>,
        is_watching: bool,
    ) -> Self {
        let mut interests = hub.write_interests();
        let interest = interests.get_or_insert_with(filter, FilterInterest::default);
        let at = interest.loops.iter().position(|each| Arc::ptr_eq(&each.inbox, inbox));
        let at = at.unwrap_or_else(|| {
            let inbox = inbox.clone();
            interest.loops.push(LoopInterest { inbox, subscriptions: 0, watching: 0 });
            interest.loops.len() - 1
        });
        interest.loops[at].subscriptions += 1;
        interest.loops[at].watching += usize::from(is_watching);
        drop(interests);
        Self { hub: hub.clone(), filter: filter.clone(), inbox: inbox.clone(), is_watching }
    }

    /// Waits until the engine has the filter. Returns a position after which everything reaches the loop; everything up to it
    /// that the loop gets at all is in its inbox.
    pub(in crate::session) async fn activate(&self) -> Result<Position, EngineError> {
        loop {
            let found = {
                let mut interests = self.hub.write_interests();
                let Some(interest) = interests.get_mut(&self.filter) else {
                    unreachable!("this interest keeps the filter in the table")
                };
                let found = interest.engine;
                if found == EngineInterest::Idle {
                    interest.engine = EngineInterest::Starting;
                }
                found
            };
            match found {
                // Asked without the lock of the filters: the hub takes that under the lock of the route.
                EngineInterest::Active(active) => return Ok(active.position(self.hub.routed())),
                EngineInterest::Idle => return self.start().await,
                EngineInterest::Starting | EngineInterest::Stopping => self.wait_for_other().await,
            }
        }
    }

    /// Gives the engine the filter, in the state `Starting`.
    async fn start(&self) -> Result<Position, EngineError> {
        let mut call = EngineStart { interest: self, is_done: false };
        let subscribed = self.hub.engine()?.subscribe(&self.filter);
        let start = subscribed.await?;
        call.is_done = true;
        let active = ActiveFilter { start, routed: self.hub.routed() };
        self.hub.set_engine_interest(&self.filter, EngineInterest::Active(active));
        Ok(start)
    }

    /// Waits until the call of another has returned.
    async fn wait_for_other(&self) {
        poll_fn(|context| {
            let mut interests = self.hub.write_interests();
            match interests.get_mut(&self.filter) {
                Some(FilterInterest {
                    engine: EngineInterest::Starting | EngineInterest::Stopping,
                    waiting,
                    ..
                }) => {
                    waiting.push(context.waker().clone());
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            }
        })
        .await;
    }
}

impl Drop for HubInterest {
    fn drop(&mut self) {
        let must_stop = {
            let mut interests = self.hub.write_interests();
            let Some(interest) = interests.get_mut(&self.filter) else { return };
            let loops = &mut interest.loops;
            if let Some(at) = loops.iter().position(|each| Arc::ptr_eq(&each.inbox, &self.inbox)) {
                loops[at].subscriptions -= 1;
                loops[at].watching -= usize::from(self.is_watching);
                if loops[at].subscriptions == 0 {
                    loops.swap_remove(at);
                }
            }
            match (loops.is_empty(), interest.engine) {
                (true, EngineInterest::Idle) => {
                    interests.remove(&self.filter);
                    false
                }
                (true, EngineInterest::Active(_)) => {
                    interest.engine = EngineInterest::Stopping;
                    true
                }
                // Whoever is inside of the engine looks at it afterwards.
                _ => false,
            }
        };
        if must_stop {
            self.hub.stop_engine_interest(&self.filter);
        }
    }
}

/// A call of `subscribe` under way. If it fails or is dropped, the engine may have the filter or not; it is then told to
/// remove it, and whoever waits tries again.
struct EngineStart<'a> {
    interest: &'a HubInterest,
    is_done: bool,
}

impl Drop for EngineStart<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            let HubInterest { hub, filter, .. } = self.interest;
            hub.set_engine_interest(filter, EngineInterest::Stopping);
            hub.stop_engine_interest(filter);
        }
    }
}

impl Hub {
    fn write_interests(&self) -> RwLockWriteGuard<'_, FilterTable<FilterInterest>> {
        self.interests.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `unsubscribe` for a filter in the state `Stopping`.
    fn stop_engine_interest(&self, filter: &TopicFilter) {
        if let Ok(engine) = self.engine() {
            engine.unsubscribe(filter);
        }
        self.set_engine_interest(filter, EngineInterest::Idle);
    }

    /// Sets the state of a filter, and wakes those who wait. A filter that nobody uses is removed, or stopped first.
    fn set_engine_interest(&self, filter: &TopicFilter, state: EngineInterest) {
        let waiting = {
            let mut interests = self.write_interests();
            let Some(interest) = interests.get_mut(filter) else { return };
            interest.engine = state;
            let waiting = std::mem::take(&mut interest.waiting);
            if interest.loops.is_empty() && state == EngineInterest::Idle {
                interests.remove(filter);
            }
            waiting
        };
        // Wakers may be anybody's code.
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g02_a_subscription_to_a_filter_that_others_have_begins_after_what_passed_its_loop_by() {
        let at = |epoch, sequence| Position { epoch, sequence };
        let active = |routed| ActiveFilter { start: at(2, 5), routed };
        let table = [
            // before, now, expected
            (None, None, at(2, 5)),
            (None, Some(at(2, 9)), at(2, 9)),
            (Some(at(2, 3)), Some(at(2, 3)), at(2, 5)),
            (Some(at(2, 7)), Some(at(2, 7)), at(2, 7)),
            // The engine was another one before the filter, or is another one since.
            (Some(at(1, 8)), Some(at(1, 8)), at(2, 5)),
            (Some(at(2, 4)), Some(at(3, 1)), at(3, 1)),
        ];
        for (before, now, expected) in table {
            assert_eq!(active(before).position(now), expected, "{before:?} {now:?}");
        }
    }
}
