//! The life of a connection outside of the pool's state: connecting, watching, preparing, checking, closing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use waterwheel_channel::{AddressSpec, Channel, Token};
use waterwheel_executor::{Canceller, Error, Nanos};

use crate::error::PoolError;
use crate::pooled_channel::PooledChannel;
use crate::shared::ChannelPoolShared;
use crate::watch::{PoolWatch, WATCH};

impl ChannelPoolShared {
    pub(crate) fn connect(
        self: &Arc<Self>,
        id: Token,
        address: Arc<AddressSpec>,
        event_loop: Option<usize>,
    ) {
        let connecting = self.bootstrap_for(event_loop).connect((*address).clone());
        let canceller = connecting.canceller();
        let pool = Arc::downgrade(self);
        connecting.on_complete(move |outcome| match (pool.upgrade(), outcome) {
            (Some(pool), Ok(channel)) => pool.on_connected(id, address, channel),
            (Some(pool), Err(cause)) => pool.on_failed(id, &PoolError::Connect { address, cause }),
            (None, Ok(channel)) => channel.close_without_future(),
            (None, Err(_)) => {}
        });
        let unused = self.lock().core.keep_canceller(id, canceller);
        if let Some(canceller) = unused.filter(|_| self.lock().core.is_closed()) {
            canceller.cancel();
        }
    }

    /// Adds the pool's handler to a new channel. Runs on the channel's loop, before its handlers are active.
    fn on_connected(self: &Arc<Self>, id: Token, address: Arc<AddressSpec>, channel: Channel) {
        let connection = PooledChannel::new(Arc::downgrade(self), id, channel, address);
        let (watched, times) = (connection.clone(), self.times);
        let watch_after = self.watch_after.clone();
        let added = connection.channel.with_pipeline(move |pipeline| {
            let watch = PoolWatch::new(watched, times);
            let added = match watch_after.as_deref() {
                Some(before) => pipeline.add_after(before, WATCH, watch),
                None => pipeline.add_first(WATCH, watch),
            };
            added.map_err(Error::new)
        });
        let pool = Arc::downgrade(self);
        added.on_complete(move |added| match (pool.upgrade(), added.flatten()) {
            (Some(pool), Ok(_)) => pool.on_watched(&connection),
            (Some(pool), Err(cause)) => {
                connection.channel.close_without_future();
                let address = connection.address.clone();
                pool.on_failed(id, &PoolError::Connect { address, cause });
            }
            (None, _) => connection.channel.close_without_future(),
        });
    }

    /// Enters a connection into the state, then prepares it.
    fn on_watched(self: &Arc<Self>, connection: &Arc<PooledChannel>) {
        let (id, channel) = (connection.id, &connection.channel);
        let now = self.clock.now();
        let event_loop = self.loop_index.get(&channel.event_loop().id()).copied();
        let (unused, is_wanted) = self.change(|core, actions| {
            core.connected(id, (connection.clone(), event_loop), now, actions)
        });
        drop(unused);
        let (pool, address) = (Arc::downgrade(self), connection.address.clone());
        channel.closed().add_listener(move |_| {
            if let Some(pool) = pool.upgrade() {
                pool.on_closed(id, address);
            }
        });
        if !is_wanted {
            return;
        }
        let Some(hook) = &self.hooks.created else { return self.make_ready(connection) };
        let prepared = connection.clone();
        hook.run(
            "preparation of a connection",
            (self, channel),
            move |pool, outcome| match outcome {
                Ok(()) => pool.make_ready(&prepared),
                Err(cause) => {
                    let address = prepared.address.clone();
                    pool.on_failed(prepared.id, &PoolError::Prepare { address, cause });
                }
            },
        );
    }

    fn on_failed(self: &Arc<Self>, id: Token, failure: &PoolError) {
        let now = self.clock.now();
        self.change_for(Some(failure), |core, actions| core.failed(id, now, actions));
    }

    fn on_closed(self: &Arc<Self>, id: Token, address: Arc<AddressSpec>) {
        let cause = Error::closed("the connection was closed while it was prepared");
        let (now, failure) = (self.clock.now(), PoolError::Prepare { address, cause });
        self.change_for(Some(&failure), |core, actions| core.closed(id, now, actions));
    }

    pub(crate) fn check(self: &Arc<Self>, id: Token, connection: &Arc<PooledChannel>) {
        let Some(hook) = &self.hooks.check else { return self.make_ready(connection) };
        let checked = connection.clone();
        hook.run("health check", (self, &connection.channel), move |pool, outcome| match outcome {
            Ok(()) => pool.make_ready(&checked),
            Err(_) => {
                let now = pool.clock.now();
                pool.change(|core, actions| core.check_failed(id, now, actions));
            }
        });
    }

    /// Closes what is leased at the deadline of a drain, and adds the number to `forced`.
    pub(crate) fn close_leased_at(
        self: &Arc<Self>,
        deadline: Nanos,
        forced: Arc<AtomicUsize>,
    ) -> Option<Canceller> {
        // If all loops have ended none takes the timer: the connections are closed already.
        let delay = deadline.since(self.clock.now());
        let timer = self.event_loop(None).schedule(delay, || ()).ok()?;
        let (canceller, pool) = (timer.canceller(), Arc::downgrade(self));
        timer.on_complete(move |outcome| {
            let Some(pool) = pool.upgrade() else { return };
            if outcome.is_ok() {
                pool.change(|core, actions| {
                    // Counted before the channels are closed, which completes the drain.
                    forced.fetch_add(core.close_leased(actions), Ordering::Relaxed);
                });
                return;
            }
            // Cancelled: the drain is complete, or the timer's loop ends and another one keeps the deadline.
            let open = pool.lock().core.metrics().now.open;
            if open > 0 && !pool.event_loop(None).is_shutting_down() {
                pool.close_leased_at(deadline, forced);
            }
        });
        Some(canceller)
    }

    pub(crate) fn retry_later(self: &Arc<Self>, address: Arc<AddressSpec>, delay: Duration) {
        let pool = Arc::downgrade(self);
        // If all loops have ended none takes the timer: there is nothing to connect on either.
        let Ok(timer) = self.event_loop(None).schedule(delay, || ()) else { return };
        timer.on_complete(move |outcome| {
            let Some(pool) = pool.upgrade() else { return };
            // A timer whose loop ends is cancelled: the retry comes early, if another loop is left.
            if outcome.is_ok() || !pool.event_loop(None).is_shutting_down() {
                pool.change(|core, actions| core.retry(&address, actions));
            }
        });
    }
}
