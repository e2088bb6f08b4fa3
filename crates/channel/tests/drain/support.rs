//! A loop on a virtual clock, its channels, and a log of their drain events.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel_channel::{
    Channel, Ctx, DrainOptions, Drained, Draining, EventLoop, Handler, HandlerResult, LocalLoop,
    Msg, NewChannel, local,
};
use waterwheel_executor::{Error, ErrorKind, PromiseFuture, SharedFuture};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::loop_suite;
use waterwheel_testkit::manual::Manual;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Options with ten seconds to drain, and a shutdown without a quiet period.
pub(crate) fn ten_seconds() -> DrainOptions {
    let options = DrainOptions::within(10 * SECOND).shutdown(Duration::ZERO, SECOND);
    options.expect("valid options")
}

/// A manually driven loop on a clock that the test moves.
pub(crate) struct DrainFixture {
    bench: loop_suite::Bench,
    manual: Manual,
    /// Kept peers: dropping a peer closes its channel.
    peers: Vec<NewChannel>,
}

impl DrainFixture {
    pub(crate) fn new() -> Self {
        Self::over(Manual::readiness())
    }

    pub(crate) fn over(manual: Manual) -> Self {
        Self { bench: loop_suite::Bench::new(&manual), manual, peers: Vec::new() }
    }

    pub(crate) fn event_loop(&self) -> EventLoop {
        self.bench.event_loop()
    }

    pub(crate) fn drain(&self) -> SharedFuture<Drained> {
        self.event_loop().drain(ten_seconds())
    }

    pub(crate) fn on<R>(&mut self, f: impl FnOnce(&LocalLoop) -> R) -> R {
        self.bench.here(f)
    }

    /// Runs until the loop is idle.
    pub(crate) fn run(&mut self) {
        while !self.bench.manual.is_terminated() {
            self.bench.turn();
            if self.bench.manual.is_idle() {
                return;
            }
        }
    }

    pub(crate) fn is_terminated(&self) -> bool {
        self.bench.manual.is_terminated()
    }

    /// Moves the clock and runs what is due.
    pub(crate) fn advance(&mut self, by: Duration) {
        self.manual.advance(by);
        self.run();
        self.run(); // Runs work that the first run made due, such as a timer that schedules itself again.
    }

    pub(crate) fn turns(&self) -> u64 {
        self.bench.metrics().turns
    }

    pub(crate) fn shut_down(&self) {
        let ended = self.event_loop().shutdown_gracefully(Duration::ZERO, SECOND);
        drop(ended.expect("valid shutdown times"));
    }

    /// Registers a channel with a handler.
    pub(crate) fn register(&mut self, new: NewChannel, handler: impl Handler) -> Channel {
        let registered = self.on(|here| {
            here.register_with(new, |edit| {
                edit.add_last("handler", handler)?;
                Ok(())
            })
        });
        self.run();
        registered.expect("the channel can be registered")
    }

    /// Registers a channel connected to a peer that neither reads nor writes.
    pub(crate) fn connected(&mut self, handler: impl Handler) -> Channel {
        let (ours, theirs) = local::pair();
        self.peers.push(theirs);
        self.register(ours, handler)
    }

    #[track_caller]
    pub(crate) fn outcome<T: Send + 'static>(
        &mut self,
        mut future: PromiseFuture<T>,
    ) -> Result<T, Error> {
        self.run();
        future.try_take().expect("the future has completed")
    }
}

/// Returns the outcome of a drain that has ended.
pub(crate) fn outcome_of(drained: &SharedFuture<Drained>) -> Option<Drained> {
    drained.try_get().map(|outcome| outcome.expect("the operation was carried out"))
}

/// True if the cause of the error is an `E`.
pub(crate) fn is<E: std::error::Error + 'static>(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Other(cause) if cause.is::<E>())
}

/// Returns an embedded channel whose network has no room.
pub(crate) fn embedded_without_room(handler: impl Handler) -> Embedded {
    let made = Embedded::builder().stream().build(|edit| {
        edit.add_last("handler", handler)?;
        Ok(())
    });
    let mut channel = made.expect("a pipeline");
    channel.set_room(0);
    channel
}

pub(crate) fn drain(channel: &mut Embedded) -> SharedFuture<Drained> {
    let drained = channel.channel().event_loop().drain(ten_seconds());
    channel.run();
    drained
}

/// Log lines in the order of the events.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, entry: impl Into<String>) {
        self.0.lock().unwrap().push(entry.into());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Logs the drain event, reads and `on_inactive`, and calls a closure at the drain event.
pub(crate) struct RecordsDrain<F = fn(&Ctx<'_>)> {
    pub(crate) log: Log,
    action: F,
}

impl RecordsDrain {
    pub(crate) fn new(log: &Log) -> Self {
        Self { log: log.clone(), action: |_| {} }
    }
}

impl<F: FnMut(&Ctx<'_>)> RecordsDrain<F> {
    pub(crate) fn with_action(log: &Log, action: F) -> Self {
        Self { log: log.clone(), action }
    }
}

impl<F: FnMut(&Ctx<'_>) + 'static> Handler for RecordsDrain<F> {
    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if let Some(draining) = event.get::<Draining>() {
            let left = draining.deadline.since(ctx.now());
            self.log.add(format!("draining, {left:?} left"));
            (self.action)(ctx);
        }
        Ok(())
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let text = msg.get::<String>().map_or("something", |text| text);
        self.log.add(format!("read {text}"));
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.log.add("inactive");
        Ok(())
    }
}
