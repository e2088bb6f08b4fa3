//! The limiters that one direction of a channel has to pass, one after the other.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use waterwheel_channel::Ctx;
use waterwheel_executor::Nanos;

use super::limiter::{NO_LIMIT, TrafficLimiter};
use super::schedule::Ticket;
use super::waiting::WaitingHandler;

/// Waiting handlers are woken at multiples of this time, so that many channels of a loop share a wake-up: at most 500
/// wake-ups of a loop per second. The bytes of the delay are not lost, because a burst is at least 20 ms.
const WAKE_GRID: u64 = 2_000_000;

/// A handler that waits for a group looks again after this time at the latest: channels that die give their tickets back,
/// and those after them are due earlier than they were told.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

static NEXT_KEY: AtomicU64 = AtomicU64::new(0);

/// The limiters of one direction: the channel's own one first, then those of its groups.
///
/// A limiter is asked for a ticket only when the one before it has let the bytes pass. So no place in a group's order is
/// taken by a channel that its own limit holds back.
pub(super) struct Gates {
    gates: Vec<Gate>,
    /// The bytes of all tickets; zero while there is none.
    wanted: u64,
    /// The name under which limiters list this direction of the channel.
    key: u64,
}

struct Gate {
    limiter: TrafficLimiter,
    /// The ticket, due or not.
    ticket: Option<Ticket>,
    /// True while the limiter's list may have an entry of this handler.
    is_listed: bool,
}

impl Gates {
    pub(super) fn new(limiters: impl IntoIterator<Item = TrafficLimiter>) -> Self {
        let gate = |limiter| Gate { limiter, ticket: None, is_listed: false };
        let key = NEXT_KEY.fetch_add(1, Ordering::Relaxed);
        Self { gates: limiters.into_iter().map(gate).collect(), wanted: 0, key }
    }

    /// Returns the bytes of a quantum: the smallest one of all limiters.
    pub(super) fn quantum(&self) -> u64 {
        self.gates.iter().map(|gate| gate.limiter.quantum()).min().unwrap_or(NO_LIMIT)
    }

    pub(super) fn has_limit(&self) -> bool {
        self.quantum() != NO_LIMIT
    }

    /// Takes bytes from all limiters, or from none. Used while the handler has no ticket.
    pub(super) fn try_take(&self, bytes: u64, now: Nanos) -> bool {
        for (taken, gate) in self.gates.iter().enumerate() {
            if !gate.limiter.try_take(bytes, now) {
                self.gates[..taken].iter().for_each(|gate| gate.limiter.give_back(bytes));
                return false;
            }
        }
        true
    }

    /// Requests tickets for `bytes`, unless there are tickets already. Returns their bytes if all limiters let them pass.
    ///
    /// # Errors
    /// Returns when to try again; [`Nanos::MAX`] for a rate of zero.
    pub(super) fn pass(&mut self, bytes: u64, ctx: &Ctx<'_>) -> Result<u64, Nanos> {
        let now = ctx.now();
        if self.wanted == 0 {
            self.wanted = bytes;
        }
        for (at, gate) in self.gates.iter_mut().enumerate() {
            if gate.limiter.quantum() == NO_LIMIT {
                continue;
            }
            let wanted = self.wanted;
            let ticket = *gate.ticket.get_or_insert_with(|| gate.limiter.issue(wanted, now));
            let entry = (!gate.is_listed).then(|| (self.key, WaitingHandler::new(ctx)));
            let due = gate.limiter.due(ticket, now, entry);
            if due > now {
                gate.is_listed = true;
                let is_shared = at > 0 && due != Nanos::MAX;
                return Err(align(if is_shared { due.min(now.plus(LONGEST_WAIT)) } else { due }));
            }
        }
        self.gates.iter_mut().for_each(|gate| gate.ticket = None);
        Ok(mem::take(&mut self.wanted))
    }

    /// Adds a debt. Returns true if nothing is left in one of the limiters.
    pub(super) fn charge(&self, bytes: u64, now: Nanos) -> bool {
        let mut is_empty = false;
        for gate in &self.gates {
            is_empty |= gate.limiter.charge(bytes, now);
        }
        is_empty
    }

    /// Gives back bytes that were passed or charged, and not used.
    pub(super) fn give_back(&self, bytes: u64) {
        self.gates.iter().for_each(|gate| gate.limiter.give_back(bytes));
    }

    /// Gives back the tickets.
    pub(super) fn return_tickets(&mut self) {
        self.wanted = 0;
        for gate in &mut self.gates {
            if let Some(ticket) = gate.ticket.take() {
                gate.limiter.give_back(ticket.bytes);
            }
        }
    }

    /// Gives back the tickets, and leaves the lists of waiting handlers.
    pub(super) fn leave(&mut self) {
        self.return_tickets();
        for gate in &mut self.gates {
            if mem::take(&mut gate.is_listed) {
                gate.limiter.stop_waiting(self.key);
            }
        }
    }

    /// Notes that a limiter has a new rate, and has removed its entries.
    pub(super) fn on_rate_changed(&mut self) {
        self.gates.iter_mut().for_each(|gate| gate.is_listed = false);
    }

    pub(super) fn apply_rates(&self, now: Nanos) {
        self.gates.iter().for_each(|gate| gate.limiter.apply_rate(now));
    }

    pub(super) fn count(&self, bytes: u64, now: Nanos) {
        self.gates.iter().for_each(|gate| gate.limiter.count(bytes, now));
    }

    /// Notes that bytes pass although the limiter that they wait for does not allow it. The others are charged.
    pub(super) fn pass_overdue(&self, bytes: u64, now: Nanos) {
        let blocking = self.blocking();
        for (at, gate) in self.gates.iter().enumerate() {
            if Some(at) == blocking {
                gate.limiter.count_overdue(bytes);
            } else {
                gate.limiter.charge(bytes, now);
            }
        }
    }

    /// Forgives a debt in the limiter that the handler waits for, and gives back the tickets.
    pub(super) fn forgive(&mut self, bytes: u64) {
        if let Some(at) = self.blocking() {
            self.gates[at].limiter.give_back(bytes);
            self.gates[at].limiter.count_overdue(bytes);
        }
        self.return_tickets();
    }

    /// Returns the limiter that the handler waits for: those before it have let the bytes pass, those after it were not
    /// asked.
    fn blocking(&self) -> Option<usize> {
        self.gates.iter().rposition(|gate| gate.ticket.is_some())
    }

    pub(super) fn replace_held(&self, before: u64, after: u64) {
        self.gates.iter().for_each(|gate| gate.limiter.replace_held(before, after));
    }
}

impl Drop for Gates {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Rounds a time up to the next common wake-up.
fn align(due: Nanos) -> Nanos {
    due.finite().map_or(Nanos::MAX, |due| {
        let past = due.0 % WAKE_GRID;
        if past == 0 { due } else { due.plus(Duration::from_nanos(WAKE_GRID - past)) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k08_wake_ups_are_at_common_times() {
        let aligned = |nanos| align(Nanos(nanos)).0;
        assert_eq!([aligned(0), aligned(1), aligned(2_000_000)], [0, 2_000_000, 2_000_000]);
        assert_eq!([aligned(2_000_001), aligned(u64::MAX)], [4_000_000, u64::MAX]);
    }
}
