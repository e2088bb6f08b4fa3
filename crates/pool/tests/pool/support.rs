//! A pool over a manual driver, and the peers of its connections.

use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::{Bootstrap, EventLoop, EventLoopGroup};
use waterwheel_executor::Error;
use waterwheel_pool::{
    Acquire, ChannelPool, ChannelPoolBuilder, Lease, PoolCloseReason, PoolCounts, PoolError,
};
use waterwheel_testkit::manual::{ClockMode, Manual, ManualSockets, Peer, PendingConnect};
use waterwheel_testkit::recorder::Log;

pub(crate) const ADDRESS: &str = "192.0.2.1:80";
pub(crate) const OTHER: &str = "192.0.2.2:80";
pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) struct Fixture {
    pub(crate) manual: Manual,
    pub(crate) sockets: ManualSockets,
    pub(crate) group: EventLoopGroup,
    pub(crate) pool: ChannelPool,
}

impl Fixture {
    /// Builds a pool over one loop.
    pub(crate) fn new(build: impl FnOnce(ChannelPoolBuilder) -> ChannelPoolBuilder) -> Self {
        Self::with_loops(1, build)
    }

    pub(crate) fn with_loops(
        loops: usize,
        build: impl FnOnce(ChannelPoolBuilder) -> ChannelPoolBuilder,
    ) -> Self {
        Self::with_bootstrap(loops, |bootstrap| bootstrap, build)
    }

    pub(crate) fn with_bootstrap(
        loops: usize,
        bootstrap: impl FnOnce(Bootstrap) -> Bootstrap,
        build: impl FnOnce(ChannelPoolBuilder) -> ChannelPoolBuilder,
    ) -> Self {
        let manual = Manual::readiness();
        let group = EventLoopGroup::builder(manual.clone())
            .threads(loops)
            .reporter(Arc::new(Log::new()))
            .build()
            .unwrap();
        for event_loop in group.children() {
            // A loop that was never started is never idle.
            event_loop.submit(|| ()).unwrap().join().unwrap();
        }
        let sockets = manual.sockets();
        let bootstrap = bootstrap(Bootstrap::new(&group, sockets.clone()));
        let pool = build(ChannelPool::builder(bootstrap)).build().unwrap();
        Self { manual, sockets, group, pool }
    }

    pub(crate) fn settle(&self) {
        self.manual.wait_idle();
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.settle();
        self.manual.advance(by);
        self.settle();
    }

    pub(crate) fn event_loop(&self, index: usize) -> EventLoop {
        self.group.children().nth(index).unwrap()
    }

    /// Acquires on a loop.
    pub(crate) fn acquire_on(&self, index: usize, address: &'static str) -> Acquire {
        let pool = self.pool.clone();
        self.event_loop(index).submit(move || pool.acquire(address)).unwrap().join().unwrap()
    }

    /// Returns the oldest connect that the test has not answered.
    pub(crate) fn next_connect(&self) -> Option<PendingConnect> {
        self.settle();
        self.sockets.next_connect()
    }

    /// Accepts the oldest connect.
    pub(crate) fn accept(&self) -> Peer {
        let peer = self.next_connect().expect("a connect was begun").accept();
        self.settle();
        peer
    }

    /// Acquires a connection that has to be opened.
    pub(crate) fn open(&self, address: &'static str) -> (Lease, Peer) {
        let acquire = self.pool.acquire(address);
        let peer = self.accept();
        (acquire.join().unwrap(), peer)
    }

    pub(crate) fn counts(&self) -> PoolCounts {
        self.settle();
        self.pool.metrics().now
    }

    pub(crate) fn closed(&self, reason: PoolCloseReason) -> u64 {
        self.settle();
        self.pool.metrics().closed(reason)
    }

    /// Checks that only connections of these stages are left.
    #[track_caller]
    pub(crate) fn assert_at_rest(&self, idle: usize, leased: usize) {
        let counts = self.counts();
        let found = (counts.open, counts.idle, counts.leased, counts.waiting);
        assert_eq!(found, (idle + leased, idle, leased, 0), "{counts}");
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.manual.set_clock_mode(ClockMode::AutoAdvance);
    }
}

#[track_caller]
pub(crate) fn pool_error(error: &Error) -> &PoolError {
    error.find().unwrap_or_else(|| panic!("not an error of the pool: {error}"))
}
