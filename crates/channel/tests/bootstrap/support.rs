//! An event loop group over a manual driver, and the sockets of its channels.

use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::{
    Address, Bootstrap, Channel, ChannelOptions, EventLoop, EventLoopGroup, Resolver,
    ServerBootstrap,
};
use waterwheel_executor::{Error, Promise, PromiseFuture};
use waterwheel_testkit::manual::{ClockMode, ListenerControl, Manual, ManualSockets};
use waterwheel_testkit::recorder::Log;

/// A real-time limit longer than any step of these tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct BootstrapFixture {
    pub(crate) manual: Manual,
    pub(crate) sockets: ManualSockets,
    pub(crate) group: EventLoopGroup,
    pub(crate) reports: Log,
}

impl BootstrapFixture {
    pub(crate) fn new(manual: Manual) -> Self {
        Self::with_loops(manual, 1)
    }

    pub(crate) fn with_loops(manual: Manual, loops: usize) -> Self {
        let reports = Log::new();
        let group = EventLoopGroup::builder(manual.clone())
            .threads(loops)
            .reporter(Arc::new(reports.clone()))
            .build()
            .unwrap();
        let fixture = Self { sockets: manual.sockets(), manual, group, reports };
        fixture.start();
        fixture
    }

    /// Starts the loops: a loop that was never started is never idle.
    fn start(&self) {
        for event_loop in self.group.children() {
            event_loop.submit(|| ()).unwrap().join().unwrap();
        }
    }

    pub(crate) fn first(&self) -> EventLoop {
        self.group.children().next().expect("the group has a loop")
    }

    /// Waits until all loops sleep.
    pub(crate) fn run_until_idle(&self) {
        self.manual.wait_idle();
    }

    pub(crate) fn client(&self) -> Bootstrap {
        Bootstrap::new(&self.group, self.sockets.clone())
    }

    pub(crate) fn server(&self) -> ServerBootstrap {
        ServerBootstrap::new(&self.group, self.sockets.clone())
    }

    /// Binds a server and returns it with the control of its listener.
    pub(crate) fn bind(&self, server: &ServerBootstrap) -> (Channel, ListenerControl) {
        let channel = server.bind("192.0.2.9:80").join().unwrap();
        self.run_until_idle();
        (channel, self.sockets.next_listener().unwrap())
    }
}

impl Drop for BootstrapFixture {
    fn drop(&mut self) {
        self.manual.set_clock_mode(ClockMode::AutoAdvance);
        if let Ok(ended) = self.group.shutdown_gracefully(Duration::ZERO, PATIENCE)
            && !std::thread::panicking()
        {
            ended.wait_timeout(PATIENCE).expect("the group terminates");
        }
    }
}

/// Runs a test over a readiness driver and over a completion driver.
pub(crate) fn over_both_drivers(test: impl Fn(BootstrapFixture)) {
    for manual in [Manual::readiness(), Manual::completion()] {
        test(BootstrapFixture::new(manual));
    }
}

pub(crate) fn options(timeout: Option<Duration>) -> ChannelOptions {
    ChannelOptions { connect_timeout: timeout, ..ChannelOptions::default() }
}

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Returns the error text of a future that must have failed by now.
#[track_caller]
pub(crate) fn failure<T: Send + 'static>(future: PromiseFuture<T>) -> String {
    assert!(future.is_done(), "the future is still open");
    future.join().err().expect("the operation failed").to_string()
}

/// A resolver that answers a lookup when the test says so.
#[derive(Default)]
pub(crate) struct ManualResolver {
    asked: std::sync::Mutex<Vec<(String, Promise<Vec<Address>>)>>,
}

impl ManualResolver {
    /// Answers the oldest lookup and returns its name.
    #[track_caller]
    pub(crate) fn answer(&self, addresses: Result<Vec<Address>, Error>) -> String {
        let (name, found) = self.asked.lock().unwrap().remove(0);
        found.complete(addresses);
        name
    }
}

impl Resolver for ManualResolver {
    fn resolve(&self, name: &str, found: Promise<Vec<Address>>) {
        self.asked.lock().unwrap().push((name.to_owned(), found));
    }
}

/// Returns `n` addresses of the documentation range 192.0.2.0/24, where no host listens.
pub(crate) fn addresses(n: u8) -> Vec<Address> {
    (1..=n).map(|last| std::net::SocketAddr::from(([192, 0, 2, last], 80)).into()).collect()
}
