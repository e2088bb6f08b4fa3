//! A stream channel over a manual driver, with the test as its peer.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use waterwheel_channel::driver::OpenDriver;
use waterwheel_channel::{
    Channel, ChannelFuture, ChannelOptions, Ctx, HalfClosed, Handler, HandlerResult, Msg,
    NewChannel, Stream,
};
use waterwheel_executor::Error;
use waterwheel_testkit::loop_suite::Bench;
use waterwheel_testkit::manual::{Manual, Peer};

/// Runs a test over a readiness driver and over a completion driver.
pub(crate) fn over_both_drivers(test: impl Fn(Manual)) {
    for manual in [Manual::readiness(), Manual::completion()] {
        test(manual);
    }
}

/// Log lines in the order of the events.
pub(crate) type Log = Rc<RefCell<Vec<String>>>;

/// A channel, its loop and its peer.
pub(crate) struct StreamFixture {
    pub(crate) manual: Manual,
    pub(crate) bench: Bench,
    pub(crate) channel: Channel,
    pub(crate) peer: Rc<Peer>,
    pub(crate) log: Log,
    write_outcomes: WriteOutcomes,
}

/// The number and success of each completed write, in order of completion.
pub(crate) type WriteOutcomes = Arc<Mutex<Vec<(usize, bool)>>>;

impl StreamFixture {
    pub(crate) fn new(manual: &Manual) -> Self {
        Self::with(manual, manual, ChannelOptions::default(), |_, _| ())
    }

    /// Builds a fixture with its own driver of `manual`, with options and an extra `on_read`.
    pub(crate) fn with(
        manual: &Manual,
        drivers: &dyn OpenDriver,
        options: ChannelOptions,
        mut on_read: impl FnMut(&Ctx<'_>, &Peer) + 'static,
    ) -> Self {
        let mut bench = Bench::new(drivers);
        let (io, peer) = manual.pair();
        let peer = Rc::new(peer);
        let (new, log) =
            (NewChannel::new(Stream::connected(io, None)).options(options), Log::default());
        let far = peer.clone();
        let probe =
            RecordingHandler { log: log.clone(), on_read: Box::new(move |ctx| on_read(ctx, &far)) };
        let registered = bench.here(|here| {
            here.register_with(new, |edit| Ok(edit.add_last("probe", probe).map(drop)?))
        });
        let channel = registered.expect("the channel can be registered");
        Self {
            manual: manual.clone(),
            bench,
            channel,
            peer,
            log,
            write_outcomes: WriteOutcomes::default(),
        }
    }

    /// Turns the loop until it is idle.
    pub(crate) fn run(&mut self) {
        let (mut quiet, mut events) = (0, 0);
        for _ in 0..10_000 {
            self.bench.turn();
            let now = self.manual.counts().events;
            quiet = if now == events && self.bench.manual.is_idle() { quiet + 1 } else { 0 };
            events = now;
            if quiet == 3 {
                return;
            }
        }
        panic!("it never ends: {:?}", self.log.borrow());
    }

    /// Calls `f` with the channel on the loop.
    pub(crate) fn on_loop<R>(&mut self, f: impl FnOnce(&Channel) -> R) -> R {
        let channel = self.channel.clone();
        self.bench.here(|_| f(&channel))
    }

    /// Writes bytes on the loop; the outcome is recorded under `number`.
    pub(crate) fn write(&mut self, number: usize, bytes: impl Into<Bytes>, flush: bool) {
        self.write_msg(number, bytes.into(), flush);
    }

    /// Writes any message on the loop; the outcome is recorded under `number`.
    pub(crate) fn write_msg(&mut self, number: usize, msg: impl Into<Msg>, flush: bool) {
        let (write_outcomes, msg) = (self.write_outcomes.clone(), msg.into());
        self.on_loop(|channel| {
            let note = move |result: Result<(), Error>| {
                write_outcomes.lock().unwrap().push((number, result.is_ok()));
            };
            let written: ChannelFuture =
                if flush { channel.write_and_flush(msg) } else { channel.write(msg) };
            written.on_complete(note);
        });
    }

    pub(crate) fn write_outcomes(&self) -> Vec<(usize, bool)> {
        self.write_outcomes.lock().unwrap().clone()
    }

    pub(crate) fn take_log(&self) -> Vec<String> {
        self.log.take()
    }
}

/// Logs every inbound event.
pub(crate) struct RecordingHandler {
    pub(crate) log: Log,
    pub(crate) on_read: Box<dyn FnMut(&Ctx<'_>)>,
}

impl RecordingHandler {
    pub(crate) fn new(log: &Log) -> Self {
        Self { log: log.clone(), on_read: Box::new(|_| ()) }
    }

    fn note(&self, what: impl Into<String>) -> HandlerResult {
        self.log.borrow_mut().push(what.into());
        Ok(())
    }
}

impl Handler for RecordingHandler {
    fn on_added(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("added")
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        let _ = self.note("removed");
    }

    fn on_registered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("registered")
    }

    fn on_unregistered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("unregistered")
    }

    fn on_active(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("active")
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("inactive")
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        (self.on_read)(ctx);
        self.note(format!("read {}", msg.size_hint()))
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("read complete")
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        let half = event.get::<HalfClosed>();
        self.note(half.map_or_else(|| event.type_name().into(), |half| format!("{half:?} over")))
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.note(format!("error {error}"))
    }
}
