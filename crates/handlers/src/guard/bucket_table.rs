//! Token buckets for many addresses, in a table of bounded size.
//!
//! A bucket holds up to `burst` tokens and gets one more per interval; a connection takes one. Instead of the tokens
//! the table keeps the time at which the bucket will be full again: each connection moves it one interval on, and a
//! connection that would move it beyond `burst` intervals from now finds no token. A bucket that is full needs no
//! entry: it is what an unknown address has.
//!
//! # Eviction
//!
//! When the table is full, the entry that will be full first is replaced: the one with the fewest missing tokens. That
//! forgets the least that can be forgotten, often nothing. See
//! [`AcceptRate`](super::AcceptRate) for what this means under attack.
//!
//! There is no timer: each call also removes a few entries that are full by now, so an ended flood leaves nothing.

use std::collections::{BTreeMap, BTreeSet};

use waterwheel_channel::Network;
use waterwheel_executor::Nanos;

/// How many full buckets a call removes at most. More than one, so that the table shrinks while new addresses come.
const REMOVED_PER_CALL: usize = 2;

pub(super) struct BucketTable {
    /// The time in which a bucket gets one token, in nanoseconds.
    interval: u64,
    /// The time in which an empty bucket becomes full: `burst` intervals.
    refill: u64,
    max: usize,
    /// The time of the last call. Loops read the clock before they take the lock, so times may come out of order; one
    /// that is behind would find the last token of a burst missing.
    latest: Nanos,
    full_at: BTreeMap<Network, Nanos>,
    /// The entries of `full_at`, by time.
    by_time: BTreeSet<(Nanos, Network)>,
}

impl BucketTable {
    /// Creates an empty table for `max` addresses, at least one. `refill` is at least `interval`.
    pub(super) fn new(interval: u64, refill: u64, max: usize) -> Self {
        let (full_at, by_time) = (BTreeMap::new(), BTreeSet::new());
        Self { interval, refill, max, latest: Nanos::default(), full_at, by_time }
    }

    /// Takes a token of an address. Returns false, and changes nothing, if there is none.
    pub(super) fn try_take(&mut self, address: Network, now: Nanos) -> bool {
        let now = now.max(self.latest);
        self.latest = now;
        self.remove_full(now);
        let before = self.full_at.get(&address).copied();
        if !self.has_token(address, now) {
            return false;
        }
        let start = before.map_or(now, |full_at| full_at.max(now));
        let after = Nanos(start.0.saturating_add(self.interval));
        match before {
            Some(full_at) => _ = self.by_time.remove(&(full_at, address)),
            None if self.full_at.len() >= self.max => self.remove_first(),
            None => {}
        }
        self.full_at.insert(address, after);
        self.by_time.insert((after, address));
        true
    }

    /// True if an address has a token.
    pub(super) fn has_token(&self, address: Network, now: Nanos) -> bool {
        let now = now.max(self.latest);
        let start = self.full_at.get(&address).map_or(now, |full_at| (*full_at).max(now));
        start.0.saturating_add(self.interval) - now.0 <= self.refill
    }

    pub(super) fn len(&self) -> usize {
        self.full_at.len()
    }

    fn remove_full(&mut self, now: Nanos) {
        for _ in 0..REMOVED_PER_CALL {
            match self.by_time.first() {
                Some((full_at, _)) if *full_at <= now => self.remove_first(),
                _ => break,
            }
        }
    }

    fn remove_first(&mut self) {
        if let Some((_, address)) = self.by_time.pop_first() {
            self.full_at.remove(&address);
        }
    }
}
