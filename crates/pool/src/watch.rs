//! The pool's handler of a channel, the first or the one after TLS: notices what makes the channel unusable, and its
//! limits of time.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::{
    Ctx, Events, HalfClosed, Handler, HandlerResult, Msg, PeerFinished, Signature,
};

use crate::metrics::PoolCloseReason;
use crate::pooled_channel::PooledChannel;
use crate::shared::ChannelPoolShared;

/// The name of the handler in the pipelines of a pool.
pub(crate) const WATCH: &str = "pool-watch";

/// The limits of time of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WatchTimes {
    pub(crate) max_age: Option<Duration>,
    /// The part of the age limit that is chosen at random, in percent.
    pub(crate) jitter: u8,
    pub(crate) idle_limit: Option<Duration>,
    pub(crate) check_interval: Option<Duration>,
}

impl WatchTimes {
    /// Returns the age limit of one connection: shortened by up to the jitter, so that connections that were opened
    /// together are not closed together.
    fn age_of(&self, connection: &PooledChannel) -> Option<Duration> {
        let max_age = self.max_age?;
        let random = RandomState::new().hash_one(connection.channel.id()) as u32;
        let part = f64::from(random) / f64::from(u32::MAX) * f64::from(self.jitter) / 100.0;
        Some(max_age.saturating_sub(max_age.mul_f64(part)))
    }
}

/// Watches a pooled channel, next to its transport or after a handler that was named. Each limit has one timer, which is
/// not touched by acquires and releases: it looks when it fires and is set again for the rest. A read costs one load of
/// an atomic.
pub(crate) struct PoolWatch {
    connection: Arc<PooledChannel>,
    times: WatchTimes,
    /// True once something was read while the connection was idle: the rest is dropped too.
    drops_reads: bool,
}

/// The tags of the timers.
const AGE: u32 = 0;
const IDLE: u32 = 1;
const CHECK: u32 = 2;

impl PoolWatch {
    pub(crate) fn new(connection: Arc<PooledChannel>, times: WatchTimes) -> Self {
        Self { connection, times, drops_reads: false }
    }

    fn pool(&self) -> Option<Arc<ChannelPoolShared>> {
        self.connection.pool.upgrade()
    }

    fn retire(&self, reason: PoolCloseReason) {
        if let Some(pool) = self.pool() {
            pool.retire(self.connection.id, reason);
        }
    }
}

impl Handler for PoolWatch {
    fn interest(&self) -> Events {
        Events::READ | Events::USER_EVENT
    }

    fn signature(&self) -> Signature {
        Signature::any()
    }

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let age = self.times.age_of(&self.connection);
        let limits =
            [(AGE, age), (IDLE, self.times.idle_limit), (CHECK, self.times.check_interval)];
        for (tag, limit) in limits {
            if let Some(limit) = limit {
                ctx.schedule(limit, tag);
            }
        }
        Ok(())
    }

    /// Retires the connection: without this handler it cannot be watched.
    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        if ctx.channel().is_open() {
            self.retire(PoolCloseReason::HookFailed);
        }
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if self.connection.is_idle()
            && let Some(pool) = self.pool()
            && pool.read_while_idle(self.connection.id)
        {
            self.drops_reads = true;
        }
        if !self.drops_reads {
            ctx.fire_read(msg);
        }
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<HalfClosed>() || event.is::<PeerFinished>() {
            self.retire(PoolCloseReason::HalfClosed);
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        let (Some(pool), id) = (self.pool(), self.connection.id) else { return Ok(()) };
        let again = match tag {
            AGE => {
                pool.retire(id, PoolCloseReason::AgeLimit);
                None
            }
            IDLE => pool.expire_idle(id, ctx.now()),
            _ => {
                let interval = self.times.check_interval;
                interval.and_then(|interval| pool.check_idle(id, interval, ctx.now()))
            }
        };
        if let Some(delay) = again {
            ctx.schedule(delay, tag);
        }
        Ok(())
    }
}
