//! The order of publications on their way to the inboxes, and how a gap in it is filled from the history.
//!
//! While a gap is filled, what the engine hands on is held. The task that fills it posts what the history has, then what was
//! held and is not in it, and ends when nothing is held any more.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard, PoisonError};

use waterwheel::channel::timeout;

use super::Hub;
use super::loop_inbox::{InboxItem, LoopInbox};
use crate::engine::HistoryQuery;
use crate::engine::position::Position;
use crate::engine::publication::Publication;
use crate::session::limits::GatewayLimits;
use crate::topic::filter::TopicFilter;

/// Publications that are read at once.
const PAGE: usize = 1_000;

/// The state of the way from the engine to the inboxes.
#[derive(Debug, Default)]
pub(super) struct PublicationRoute {
    /// The position of the last publication that was posted.
    last: Option<Position>,
    /// Present while a gap is filled.
    held: Option<HeldCalls>,
}

/// The calls of the engine that have come while a gap is filled.
#[derive(Debug, Default)]
struct HeldCalls {
    calls: VecDeque<HeldCall>,
    /// The bytes of the publications.
    bytes: usize,
    /// True if there were more than the limit, and publications were dropped.
    has_lost: bool,
}

impl HeldCalls {
    /// Adds a call, unless as many wait as for a loop.
    fn add(&mut self, call: HeldCall, limits: &GatewayLimits) {
        let bytes = call.bytes();
        if self.calls.len() >= limits.loop_backlog
            || self.bytes.saturating_add(bytes) > limits.loop_backlog_bytes
        {
            self.has_lost = true;
            return;
        }
        self.bytes += bytes;
        self.calls.push_back(call);
    }

    /// Takes the first call.
    fn take(&mut self) -> Option<HeldCall> {
        let call = self.calls.pop_front()?;
        self.bytes -= call.bytes();
        Some(call)
    }
}

#[derive(Debug)]
enum HeldCall {
    Publication(Arc<Publication>),
    Gap(Option<Position>),
}

impl HeldCall {
    fn bytes(&self) -> usize {
        match self {
            Self::Publication(publication) => publication.payload.len(),
            Self::Gap(_) => 0,
        }
    }
}

impl Hub {
    pub(super) fn route_publication(&self, publication: Arc<Publication>) {
        let mut to_wake = Vec::new();
        {
            let mut route = self.lock_route();
            if let Some(held) = &mut route.held {
                held.add(HeldCall::Publication(publication), &self.limits);
                return;
            }
            route.last = Some(publication.position);
            self.post(publication, &mut to_wake);
        }
        to_wake.iter().for_each(LoopInbox::wake);
    }

    /// Returns the position of the last publication that was posted.
    pub(super) fn routed(&self) -> Option<Position> {
        self.lock_route().last
    }

    pub(super) fn route_gap(self: &Arc<Self>, last: Option<Position>) {
        let since = {
            let mut route = self.lock_route();
            if let Some(held) = &mut route.held {
                held.add(HeldCall::Gap(last), &self.limits);
                return;
            }
            route.held = Some(HeldCalls::default());
            last.or(route.last)
        };
        let fill = GapFill { hub: self.clone(), since, filled_to: None, is_finished: false };
        // If the loop does not take the task, its drop ends the fill, and clients are told.
        if let Some(inbox) = self.open_inboxes().first() {
            drop(inbox.event_loop().spawn_with(move || fill.run()));
        }
    }

    /// Adds a note to all inboxes that publications may be missing.
    fn post_missed(&self, to_wake: &mut Vec<Arc<LoopInbox>>) {
        let inboxes = self.open_inboxes();
        to_wake.extend(inboxes.into_iter().filter(|inbox| inbox.push(InboxItem::Missed)));
    }

    fn lock_route(&self) -> MutexGuard<'_, PublicationRoute> {
        self.route.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A fill under way. If it is dropped before it has finished, clients are told that publications may be missing.
struct GapFill {
    hub: Arc<Hub>,
    since: Option<Position>,
    /// The position up to which the history was read.
    filled_to: Option<Position>,
    is_finished: bool,
}

impl GapFill {
    async fn run(mut self) {
        while !self.is_finished {
            self.post_history().await;
            self.is_finished = self.post_held(true);
        }
    }

    /// Posts what the history has. If something is missing in it, clients are told first.
    async fn post_history(&mut self) {
        let mut read = 0;
        let mut cursor = self.since;
        self.filled_to = None;
        // Without a position there is no telling what is new: the whole history is not.
        let mut is_missing = cursor.is_none();
        while !is_missing {
            let filter = TopicFilter::everything();
            let query = HistoryQuery { filter, since: cursor, limit: PAGE };
            let Ok(engine) = self.hub.engine() else { return };
            let answer = timeout(self.hub.limits.engine_timeout, engine.history(query)).await;
            let Ok(Ok(page)) = answer else { break };
            let mut to_wake = Vec::new();
            if page.has_gap && read == 0 {
                self.hub.post_missed(&mut to_wake);
            }
            read += page.publications.len();
            is_missing = page.has_gap && read > page.publications.len();
            cursor = page.publications.last().map(|last| last.position).or(Some(page.position));
            {
                let mut route = self.hub.lock_route();
                for publication in page.publications {
                    route.last = Some(publication.position);
                    self.hub.post(publication, &mut to_wake);
                }
            }
            to_wake.iter().for_each(LoopInbox::wake);
            if !page.has_more {
                self.filled_to = Some(page.position);
                return;
            }
            self.filled_to = cursor;
            is_missing |= read >= self.hub.limits.recovered;
        }
        let mut to_wake = Vec::new();
        self.hub.post_missed(&mut to_wake);
        to_wake.iter().for_each(LoopInbox::wake);
    }

    /// Posts what was held and is not yet posted. Returns false if there was another gap and `may_fill` allows to fill it;
    /// what was held after that is held on.
    fn post_held(&mut self, may_fill: bool) -> bool {
        let mut to_wake = Vec::new();
        let is_finished = {
            let mut route = self.hub.lock_route();
            loop {
                let Some(held) = &mut route.held else { break true };
                match held.take() {
                    Some(HeldCall::Publication(publication)) => {
                        let is_posted = |to: Position| {
                            publication.position.epoch == to.epoch
                                && !publication.position.is_after(to)
                        };
                        if !self.filled_to.is_some_and(is_posted) {
                            route.last = Some(publication.position);
                            self.hub.post(publication, &mut to_wake);
                        }
                    }
                    Some(HeldCall::Gap(last)) if may_fill => {
                        // What the history had beyond is posted already.
                        self.since = later_of(last.or(route.last), self.filled_to);
                        break false;
                    }
                    Some(HeldCall::Gap(_)) => self.hub.post_missed(&mut to_wake),
                    None => {
                        if held.has_lost {
                            self.hub.post_missed(&mut to_wake);
                        }
                        route.held = None;
                        break true;
                    }
                }
            }
        };
        to_wake.iter().for_each(LoopInbox::wake);
        is_finished
    }
}

/// Returns the later of two positions; of different epochs, the second.
fn later_of(first: Option<Position>, second: Option<Position>) -> Option<Position> {
    match (first, second) {
        (Some(first), Some(second)) if first.is_after(second) => Some(first),
        (first, second) => second.or(first),
    }
}

impl Drop for GapFill {
    fn drop(&mut self) {
        if !self.is_finished {
            let mut to_wake = Vec::new();
            self.hub.post_missed(&mut to_wake);
            to_wake.iter().for_each(LoopInbox::wake);
            self.post_held(false);
        }
    }
}
