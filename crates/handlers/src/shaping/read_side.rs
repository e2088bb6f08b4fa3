//! The read direction: reads pause while the limiters have nothing left.
//!
//! Bytes that were read are passed on at once and become a debt. A channel in debt pauses its reads and waits for a
//! ticket as large as its last read: the next read is paid in advance, so that many channels that share a limiter do not
//! all read when the debt is paid, but one after the other.

use std::time::Duration;

use waterwheel_channel::{Ctx, ReadPause};
use waterwheel_executor::Nanos;

use super::gates::Gates;
use super::wake_timer::WakeTimer;

/// The most bytes that a channel pays in advance, besides a quantum: the largest read of a channel by default.
const MAX_PREPAID: u64 = 64 * 1024;

/// How long bytes that were paid in advance stay valid. A channel that reads nothing for so long does not get them later,
/// when others have used the rate.
const PREPAID_LIFE: Duration = Duration::from_secs(1);

pub(super) struct ReadSide {
    gates: Gates,
    longest_delay: Option<Duration>,
    prepaid: u64,
    prepaid_until: Nanos,
    pause: Option<ShapedPause>,
    timer: WakeTimer,
}

struct ShapedPause {
    _reads: ReadPause,
    since: Nanos,
    /// The debt that this pause pays.
    charged: u64,
    /// The bytes of the ticket.
    wanted: u64,
}

impl ReadSide {
    pub(super) fn new(gates: Gates, longest_delay: Option<Duration>, timer: WakeTimer) -> Self {
        Self { gates, longest_delay, prepaid: 0, prepaid_until: Nanos(0), pause: None, timer }
    }

    /// Counts a message that was read, and pauses reads if the limiters have nothing left.
    pub(super) fn on_read(&mut self, ctx: &Ctx<'_>, size: u64) {
        let now = ctx.now();
        self.gates.count(size, now);
        if !self.gates.has_limit() {
            return;
        }
        if now > self.prepaid_until {
            self.prepaid = 0;
        }
        let paid = self.prepaid.min(size);
        self.prepaid -= paid;
        let is_empty = self.gates.charge(size - paid, now);
        if let Some(pause) = &mut self.pause {
            pause.charged += size - paid; // A handler before this one has emitted several messages of one read.
        } else if is_empty && self.prepaid == 0 {
            let wanted = self.gates.quantum().max(size.min(MAX_PREPAID));
            let reads = ctx.pause_reads();
            self.pause =
                Some(ShapedPause { _reads: reads, since: now, charged: size - paid, wanted });
            self.resume_if_paid(ctx);
        }
    }

    pub(super) fn on_timer(&mut self, ctx: &Ctx<'_>) {
        self.timer.on_fired();
        self.resume_if_paid(ctx);
    }

    pub(super) fn on_rate_changed(&mut self) {
        self.gates.on_rate_changed();
    }

    pub(super) fn apply_rates(&mut self, ctx: &Ctx<'_>) {
        self.gates.apply_rates(ctx.now());
        self.resume_if_paid(ctx);
    }

    /// Ends the pause if the ticket is due or the longest delay is over; otherwise sets the timer.
    fn resume_if_paid(&mut self, ctx: &Ctx<'_>) {
        let Some(pause) = &self.pause else { return };
        let deadline = self.longest_delay.map_or(Nanos::MAX, |longest| pause.since.plus(longest));
        match self.gates.pass(pause.wanted, ctx) {
            Ok(bytes) => {
                (self.prepaid, self.prepaid_until) = (bytes, ctx.now().plus(PREPAID_LIFE));
            }
            Err(due) if deadline > ctx.now() => return self.timer.set(due.min(deadline), ctx),
            Err(_) => {
                // The rest of the debt is forgiven: it would grow with every pause that ends too early.
                self.gates.forgive(pause.charged);
            }
        }
        self.timer.cancel(ctx);
        self.pause = None;
    }

    /// Ends the pause: the handler is removed, or the channel closed.
    pub(super) fn release(&mut self, ctx: &Ctx<'_>) {
        self.timer.cancel(ctx);
        self.gates.leave();
        self.pause = None;
    }
}
