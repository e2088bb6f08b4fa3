//! A group with a loop per channel, a server on it, and its reports.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel_channel::driver::OpenDriver;
use waterwheel_channel::{
    Address, Bootstrap, Channel, Ctx, EventLoopGroup, EventLoopGroupBuilder, Handler,
    HandlerResult, Msg, ServerBootstrap,
};
use waterwheel_executor::{Clock, Error, PromiseFuture, Report, Reporter};
use waterwheel_net::{Blocking, Tcp};

/// Longer than any step takes, even on a busy machine; a test that waits this long fails.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(20);

/// The time for which a loop is observed for spinning, and the number of turns that counts as spinning (L17).
const WATCH_TIME: Duration = Duration::from_millis(200);
const SPIN_TURNS: u64 = 5;

/// A group with a loop per channel, and its reports.
pub(crate) struct Bench {
    pub(crate) group: EventLoopGroup,
    reports: Receiver<String>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(Blocking, |builder| builder)
    }

    pub(crate) fn with(
        driver: impl OpenDriver + 'static,
        how: impl FnOnce(EventLoopGroupBuilder) -> EventLoopGroupBuilder,
    ) -> Self {
        let (sender, reports) = channel();
        let builder = EventLoopGroup::per_channel(driver).name("each");
        let group =
            how(builder.reporter(Arc::new(ReportSender(Mutex::new(sender))))).build().unwrap();
        Self { group, reports }
    }

    /// Starts a server whose connections have this handler.
    pub(crate) fn server<H: Handler>(
        &self,
        handler: impl Fn() -> H + Send + Sync + 'static,
    ) -> (Channel, SocketAddr) {
        let server = ServerBootstrap::new(&self.group, Tcp).child_initialiser(move |edit| {
            edit.add_last("handler", handler())?;
            Ok(())
        });
        let server = get(server.bind("127.0.0.1:0"));
        let address = ip(server.local_address());
        (server, address)
    }

    pub(crate) fn client(&self) -> Bootstrap {
        Bootstrap::new(&self.group, Tcp)
    }

    /// Returns the number of loops.
    pub(crate) fn loops(&self) -> usize {
        self.group.children().len()
    }

    /// Returns the number of channels on all loops.
    pub(crate) fn channels(&self) -> usize {
        self.group.children().map(|it| it.metrics().channels).sum()
    }

    /// Waits until there are `n` channels and as many registrations: every closed channel has left its loop.
    #[track_caller]
    pub(crate) fn until_channels(&self, n: usize) {
        self.until_channels_and(n, n);
    }

    #[track_caller]
    pub(crate) fn until_channels_and(&self, channels: usize, registrations: usize) {
        wait_until(&format!("{channels} channels"), || self.channels() == channels);
        let registered = || self.group.children().map(|it| it.metrics().registrations).sum();
        wait_until(&format!("{registrations} registrations"), || registrations == registered());
    }

    /// Waits for the first report that contains these words.
    #[track_caller]
    pub(crate) fn wait_for_report(&self, words: &str) -> String {
        loop {
            let report = self.reports.recv_timeout(TIME_LIMIT).expect(words);
            if report.contains(words) {
                return report;
            }
        }
    }

    /// Returns the reports that were not consumed yet.
    pub(crate) fn reports(&self) -> Vec<String> {
        self.reports.try_iter().collect()
    }

    /// Fails if one of the loops spins (L17).
    #[track_caller]
    pub(crate) fn assert_not_spinning(&self) {
        let watched: Vec<_> = self
            .group
            .children()
            .map(|it| {
                let (sender, events) = channel();
                let before = it.metrics().turns;
                let at = it.clone();
                let count = move || sender.send(at.metrics().turns - before);
                drop(it.schedule(WATCH_TIME, count).unwrap());
                (it, events)
            })
            .collect();
        for (it, events) in watched {
            let turns = events.recv_timeout(TIME_LIMIT).expect("the timer comes");
            assert!(turns < SPIN_TURNS, "{turns} turns of {it:?} in {WATCH_TIME:?}");
        }
    }

    /// Shuts the group down and waits for its end.
    #[track_caller]
    pub(crate) fn end(&self) {
        let ended = self.group.shutdown_gracefully(Duration::ZERO, TIME_LIMIT).unwrap();
        ended.wait_timeout(TIME_LIMIT).expect("the group terminates");
    }
}

struct ReportSender(Mutex<Sender<String>>);

impl Reporter for ReportSender {
    fn report(&self, report: &Report<'_>) {
        let _ = self.0.lock().unwrap().send(report.fault.to_string());
    }
}

/// Writes back every message.
pub(crate) struct Echo;

impl Handler for Echo {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        Ok(())
    }
}

/// Sends its channel to the test when it is active, and ignores everything else.
pub(crate) struct AnnouncesChannel(pub(crate) Sender<Channel>);

impl Handler for AnnouncesChannel {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let _ = self.0.send(ctx.channel());
        Ok(())
    }

    fn on_read(&mut self, _: &Ctx<'_>, _: Msg) -> HandlerResult {
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        Ok(())
    }
}

/// Returns the value of a future that must succeed within the time limit.
#[track_caller]
pub(crate) fn get<T: Send + 'static>(future: PromiseFuture<T>) -> T {
    future.wait_timeout(TIME_LIMIT).expect("done in time");
    future.join().expect("success")
}

/// Returns the error of a future that must fail within the time limit.
#[track_caller]
pub(crate) fn failure<T: Send + 'static>(future: PromiseFuture<T>) -> Error {
    future.wait_timeout(TIME_LIMIT).expect("done in time");
    match future.join() {
        Err(error) => error,
        Ok(_) => panic!("success instead of a failure"),
    }
}

pub(crate) fn ip(address: Option<Address>) -> SocketAddr {
    match address {
        Some(Address::Ip(address)) => address,
        other => panic!("not an IP address: {other:?}"),
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let peer = TcpStream::connect(address).unwrap();
    peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    peer.set_nodelay(true).unwrap();
    peer
}

#[track_caller]
pub(crate) fn assert_echoes(peer: &mut TcpStream) {
    peer.write_all(b"ping").unwrap();
    let mut back = [0; 4];
    peer.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"ping");
}

/// Reads until the end of the stream or a reset.
#[track_caller]
pub(crate) fn read_to_end(peer: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    match peer.read_to_end(&mut all).map_err(|error| error.kind()) {
        Ok(_) | Err(ErrorKind::ConnectionReset) => all,
        Err(error) => panic!("no end: {error}"),
    }
}

/// Waits by polling until `holds` returns true.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let clock = Clock::Monotonic;
    let limit = clock.now().plus(TIME_LIMIT);
    while !holds() {
        assert!(clock.now() < limit, "timed out waiting for: {what}");
        std::thread::yield_now();
    }
}
