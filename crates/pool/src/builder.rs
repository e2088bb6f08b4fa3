//! Building a pool.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::{Bootstrap, Channel, Pipeline};
use waterwheel_executor::Error;
use waterwheel_executor::engine::CommandAccess;

use crate::error::InvalidPool;
use crate::hooks::{AsyncHook, PoolHooks};
use crate::options::{
    DEFAULT_ACQUIRE_TIMEOUT, DEFAULT_CHECK_TIMEOUT, LoopAffinity, PoolLimits, ReuseOrder,
};
use crate::pool::ChannelPool;
use crate::shared::{ChannelPoolShared, PoolParts};
use crate::state::PoolCore;
use crate::watch::WatchTimes;

/// Builds a [`ChannelPool`]. Created by [`ChannelPool::builder`].
#[must_use = "a builder does nothing until build is called"]
pub struct ChannelPoolBuilder {
    bootstrap: Bootstrap,
    limits: PoolLimits,
    acquire_timeout: Option<Duration>,
    times: WatchTimes,
    hooks: PoolHooks,
    created_limit: Duration,
    check_limit: Option<Duration>,
    check_after: Option<Duration>,
    holds_drain: bool,
    watch_after: Option<Arc<str>>,
}

impl ChannelPoolBuilder {
    pub(crate) fn new(bootstrap: Bootstrap) -> Self {
        Self {
            bootstrap,
            limits: PoolLimits::default(),
            acquire_timeout: Some(DEFAULT_ACQUIRE_TIMEOUT),
            times: WatchTimes { jitter: 10, ..WatchTimes::default() },
            hooks: PoolHooks::default(),
            created_limit: DEFAULT_CHECK_TIMEOUT,
            check_limit: None,
            check_after: None,
            holds_drain: true,
            watch_after: None,
        }
    }

    // Limits.

    /// Sets the limit of open connections for each address, over all loops. Default:
    /// [`DEFAULT_MAX_OPEN`](crate::DEFAULT_MAX_OPEN).
    pub fn max_open(mut self, max: usize) -> Self {
        self.limits.max_open = Some(max);
        self
    }

    /// Removes the limit of open connections for each address: an acquire that finds no idle connection opens one.
    pub fn unbounded(mut self) -> Self {
        self.limits.max_open = None;
        self
    }

    /// Sets the limit of open connections of the whole pool. At the limit, the connection that was idle longest is
    /// closed to make room for another address. Default: none.
    pub fn max_open_total(mut self, max: usize) -> Self {
        self.limits.max_open_total = Some(max);
        self
    }

    /// Sets how many acquires may wait for one address while no connection is being opened for them. Default:
    /// [`DEFAULT_MAX_WAITING`](crate::DEFAULT_MAX_WAITING).
    pub fn max_waiting(mut self, max: usize) -> Self {
        self.limits.max_waiting = max;
        self
    }

    /// Sets how many acquires may wait in the whole pool while no connection is being opened for them. Default:
    /// [`DEFAULT_MAX_WAITING_TOTAL`](crate::DEFAULT_MAX_WAITING_TOTAL).
    pub fn max_waiting_total(mut self, max: usize) -> Self {
        self.limits.max_waiting_total = max;
        self
    }

    /// Sets how long an acquire waits; `None` without a limit. Default:
    /// [`DEFAULT_ACQUIRE_TIMEOUT`](crate::DEFAULT_ACQUIRE_TIMEOUT).
    pub fn acquire_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.acquire_timeout = limit.into();
        self
    }

    // Reuse.

    /// Sets which idle connection is used next. Default: the one used last.
    pub fn reuse(mut self, order: ReuseOrder) -> Self {
        self.limits.reuse = order;
        self
    }

    /// Sets which connections an acquire takes on a loop. Default: those of the same loop first.
    pub fn affinity(mut self, affinity: LoopAffinity) -> Self {
        self.limits.affinity = affinity;
        self
    }

    /// Keeps at least this many connections idle or arriving for each address that was used or
    /// [warmed up](ChannelPool::warm_up), within the limits. After a failed connect, and after a connection that ended
    /// unused, the next one is opened after 1 s, then 2 s, up to 30 s. At the
    /// [total limit](Self::max_open_total) acquires come first: an address whose idle connections were closed for
    /// another one is stocked again when it is next used. Default: zero.
    pub fn min_idle(mut self, min: usize) -> Self {
        self.limits.min_idle = min;
        self
    }

    /// Sets how long a connection may be unused before it is closed; `None` without a limit. Keep it below the idle
    /// limit of the server, which would close the connection in the middle of a request otherwise. The
    /// [minimum](Self::min_idle) is kept. Default: [`DEFAULT_IDLE_LIMIT`](crate::DEFAULT_IDLE_LIMIT).
    pub fn idle_limit(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.limits.idle_limit = limit.into();
        self
    }

    /// Sets the age at which a connection is closed, at once if it is idle, otherwise when it is given back: so that
    /// clients follow changes of names and load balancers. Shortened at random by the
    /// [jitter](Self::age_jitter). Default: none.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.times.max_age = Some(age);
        self
    }

    /// Sets the part of the age limit that is chosen at random, in percent. Default: 10.
    pub fn age_jitter(mut self, percent: u8) -> Self {
        self.times.jitter = percent;
        self
    }

    // Hooks.

    /// Sets the hook for new connections, such as a login. The connection is handed out when its future has completed;
    /// if it fails or takes longer than `limit`, the connection is closed and the acquire fails. The future runs on the
    /// connection's loop.
    ///
    /// With a protocol in which the server speaks first, the hook has to wait for the greeting: bytes that arrive while
    /// the connection is idle close it.
    pub fn on_created<F>(
        mut self,
        limit: Duration,
        hook: impl Fn(Channel) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.created_limit = limit;
        self.hooks.created = Some(AsyncHook::new(limit, hook));
        self
    }

    /// Sets the hook for connections that are handed out. Called on the connection's loop before the acquire completes;
    /// an error closes the connection and fails the acquire.
    pub fn on_acquired(
        mut self,
        hook: impl Fn(Pipeline<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.acquired = Some(Arc::new(hook));
        self
    }

    /// Sets the hook for connections that are given back, such as a reset of the pipeline. Called on the connection's
    /// loop before anybody else gets it; an error closes the connection. Not called for a connection that is closed or
    /// discarded.
    pub fn on_released(
        mut self,
        hook: impl Fn(Pipeline<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.released = Some(Arc::new(hook));
        self
    }

    /// Sets the health check, run at every acquire of an idle connection. If its future fails, or takes longer than the
    /// [limit](Self::check_timeout), the connection is closed and the acquire gets another one. The future runs on the
    /// connection's loop. Without a check, a connection is handed out unless the pool knows that it is broken.
    pub fn health_check<F>(mut self, check: impl Fn(Channel) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.hooks.check = Some(AsyncHook::new(DEFAULT_CHECK_TIMEOUT, check));
        self
    }

    /// Sets the time limit of a health check. Default: [`DEFAULT_CHECK_TIMEOUT`](crate::DEFAULT_CHECK_TIMEOUT).
    pub fn check_timeout(mut self, limit: Duration) -> Self {
        self.check_limit = Some(limit);
        self
    }

    /// Checks a connection at an acquire only if it was idle for this long since its last use or check. Default: zero,
    /// every time.
    pub fn check_if_idle_for(mut self, time: Duration) -> Self {
        self.check_after = Some(time);
        self
    }

    /// Checks connections after every such time of being idle, too. Default: not.
    pub fn check_while_idle(mut self, interval: Duration) -> Self {
        self.times.check_interval = Some(interval);
        self
    }

    // Shutdown.

    /// Sets whether a lease keeps a drain of its loop waiting until it is given back. Default: true. Turn it off for
    /// connections that are leased for as long as the program runs.
    pub fn holds_drain(mut self, holds: bool) -> Self {
        self.holds_drain = holds;
        self
    }

    /// Names the handler after which the pool watches for bytes that arrive while a connection is idle. Default: none,
    /// next to the transport.
    ///
    /// For handlers whose peers may send something of their own at any time: behind TLS the handshake, session tickets
    /// and key updates of an idle connection do not close it, and data does. If a pipeline has no handler of that name,
    /// the connect fails.
    pub fn watch_after(mut self, name: &str) -> Self {
        self.watch_after = Some(name.into());
        self
    }

    /// Builds the pool. No connection is opened yet.
    ///
    /// # Errors
    /// [`InvalidPool`], which names the setting.
    pub fn build(mut self) -> Result<ChannelPool, InvalidPool> {
        self.validate()?;
        if let Some(check) = &mut self.hooks.check {
            check.limit = self.check_limit.unwrap_or(DEFAULT_CHECK_TIMEOUT);
            self.limits.check_after = Some(self.check_after.unwrap_or(Duration::ZERO));
        }
        self.times.idle_limit = self.limits.idle_limit;
        let loops = match self.bootstrap.loops().is_per_channel() {
            true => Vec::new(),
            false => {
                let on_loop = |at| (self.bootstrap.clone().on_loops(&at), at);
                let all = self.bootstrap.loops().all().into_iter();
                all.map(on_loop).map(|(bootstrap, at)| (at, bootstrap)).collect()
            }
        };
        let clock = self.bootstrap.loops().next().sender().clock().clone();
        let core = PoolCore::new(self.limits, loops.len());
        let parts = PoolParts {
            bootstrap: self.bootstrap,
            loops,
            clock,
            hooks: self.hooks,
            times: self.times,
            holds_drain: self.holds_drain,
            watch_after: self.watch_after,
        };
        Ok(ChannelPool::new(ChannelPoolShared::new(core, parts), self.acquire_timeout))
    }

    fn validate(&self) -> Result<(), InvalidPool> {
        let open =
            [("max_open", self.limits.max_open), ("max_open_total", self.limits.max_open_total)];
        for (setting, max) in open {
            if max == Some(0) {
                return Err(InvalidPool::NoConnections { setting });
            }
            if let Some(max_open) = max.filter(|max| *max < self.limits.min_idle) {
                return Err(InvalidPool::MinIdle { min_idle: self.limits.min_idle, max_open });
            }
        }
        let times = [
            ("acquire_timeout", self.acquire_timeout),
            ("idle_limit", self.limits.idle_limit),
            ("max_age", self.times.max_age),
            ("on_created's limit", Some(self.created_limit)),
            ("check_timeout", self.check_limit),
            ("check_while_idle", self.times.check_interval),
        ];
        if let Some((setting, _)) = times.iter().find(|(_, time)| *time == Some(Duration::ZERO)) {
            return Err(InvalidPool::ZeroTime { setting });
        }
        if self.times.jitter >= 100 {
            return Err(InvalidPool::Jitter { percent: self.times.jitter });
        }
        let checks = [
            ("check_timeout", self.check_limit),
            ("check_if_idle_for", self.check_after),
            ("check_while_idle", self.times.check_interval),
        ];
        match checks.iter().find(|(_, time)| time.is_some() && self.hooks.check.is_none()) {
            Some((setting, _)) => Err(InvalidPool::NoHealthCheck { setting }),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for ChannelPoolBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelPoolBuilder").field("limits", &self.limits).finish_non_exhaustive()
    }
}
