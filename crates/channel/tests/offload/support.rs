//! A channel and the executor of its offloaded handlers, both driven by the test.

use std::sync::Arc;

use waterwheel_channel::{
    Address, Channel, ChannelOptions, Completion, ConnectTarget, Ctx, Edit, Events, Handler,
    HandlerResult, Msg, Offloaded, RemoteCompletion, RemoteCtx, RemoteHandler,
};
use waterwheel_executor::{Clock, Error, EventExecutor, ManualExecutor, VirtualClock};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::Log;

/// An embedded channel and a manually driven executor.
pub(crate) struct OffloadFixture {
    pub(crate) channel: Embedded,
    pub(crate) remote: ManualExecutor,
    pub(crate) reports: Log,
}

impl OffloadFixture {
    /// Builds a channel; `make` receives the executor of its offloaded handlers.
    pub(crate) fn new(
        make: impl FnOnce(&mut Edit<'_>, &EventExecutor) -> Result<(), Error>,
    ) -> Self {
        Self::with_options(ChannelOptions::default(), make)
    }

    pub(crate) fn with_options(
        options: ChannelOptions,
        make: impl FnOnce(&mut Edit<'_>, &EventExecutor) -> Result<(), Error>,
    ) -> Self {
        let reports = Log::new();
        let builder = EventExecutor::builder().name("remote").reporter(Arc::new(reports.clone()));
        let remote = builder.build_manual(Clock::Virtual(VirtualClock::new())).unwrap();
        let executor = remote.executor().clone();
        let channel = Embedded::builder().options(options).build(|edit| make(edit, &executor));
        Self { channel: channel.unwrap(), remote, reports }
    }

    /// Runs the channel and the executor until both are idle.
    pub(crate) fn run_until_idle(&mut self) {
        self.channel.run();
        while self.remote.run_now() > 0 {
            self.channel.run();
        }
    }

    /// Returns the channel's handle, as another thread would have it.
    pub(crate) fn handle(&self) -> Channel {
        self.channel.channel().clone()
    }

    /// Writes and flushes on the loop.
    pub(crate) fn write(&mut self, msg: u32) {
        self.channel.on_loop(|channel| channel.send(msg));
    }

    /// Returns the numbers that were sent.
    pub(crate) fn outbound(&mut self) -> Vec<u32> {
        std::iter::from_fn(|| self.channel.read_outbound()).collect()
    }

    /// Returns the numbers that reached the tail of the pipeline.
    pub(crate) fn inbound(&mut self) -> Vec<u32> {
        std::iter::from_fn(|| self.channel.read_inbound()).collect()
    }
}

/// A remote handler that logs every call and passes it on.
pub(crate) struct Recorder {
    pub(crate) name: &'static str,
    pub(crate) log: Log,
}

impl Recorder {
    pub(crate) fn on(executor: &EventExecutor, name: &'static str, log: &Log) -> Offloaded<Self> {
        let log = log.clone();
        Offloaded::on(executor, move || {
            log.push(format!("{name} built"));
            Recorder { name, log }
        })
    }

    fn note(&self, what: &str) {
        self.log.push(format!("{} {what}", self.name));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.note("dropped");
    }
}

pub(crate) fn number(msg: &Msg) -> u32 {
    *msg.get::<u32>().unwrap()
}

impl RemoteHandler for Recorder {
    fn on_added(&mut self, _: &RemoteCtx) -> HandlerResult {
        self.note("added");
        Ok(())
    }

    fn on_removed(&mut self, _: &RemoteCtx) {
        self.note("removed");
    }

    fn on_registered(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        self.note("registered");
        ctx.fire_registered();
        Ok(())
    }

    fn on_unregistered(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        self.note("unregistered");
        ctx.fire_unregistered();
        Ok(())
    }

    fn on_active(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        self.note("active");
        ctx.fire_active();
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        self.note("inactive");
        ctx.fire_inactive();
        Ok(())
    }

    fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
        self.note(&format!("read {}", number(&msg)));
        ctx.fire_read(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        self.note("read complete");
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &RemoteCtx, event: Msg) -> HandlerResult {
        self.note(&format!("user event {}", number(&event)));
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        self.note("writability changed");
        ctx.fire_writability_changed();
        Ok(())
    }

    fn on_error(&mut self, ctx: &RemoteCtx, error: Error) -> HandlerResult {
        self.note(&format!("error {error}"));
        ctx.fire_error(error);
        Ok(())
    }

    fn bind(&mut self, ctx: &RemoteCtx, to: Address, done: &mut RemoteCompletion) -> HandlerResult {
        self.note("bind");
        ctx.bind_with(to, done.take());
        Ok(())
    }

    fn connect(
        &mut self,
        ctx: &RemoteCtx,
        to: ConnectTarget,
        done: &mut RemoteCompletion,
    ) -> HandlerResult {
        self.note("connect");
        ctx.connect_with(to, done.take());
        Ok(())
    }

    fn disconnect(&mut self, ctx: &RemoteCtx, done: &mut RemoteCompletion) -> HandlerResult {
        self.note("disconnect");
        ctx.disconnect_with(done.take());
        Ok(())
    }

    fn close(&mut self, ctx: &RemoteCtx, done: &mut RemoteCompletion) -> HandlerResult {
        self.note("close");
        ctx.close_with(done.take());
        Ok(())
    }

    fn deregister(&mut self, ctx: &RemoteCtx, done: &mut RemoteCompletion) -> HandlerResult {
        self.note("deregister");
        ctx.deregister_with(done.take());
        Ok(())
    }

    fn read(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        self.note("begin read");
        ctx.read();
        Ok(())
    }

    fn write(&mut self, ctx: &RemoteCtx, msg: Msg, done: &mut RemoteCompletion) -> HandlerResult {
        self.note(&format!("write {}", number(&msg)));
        ctx.write_with(msg, done.take());
        Ok(())
    }

    fn flush(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        self.note("flush");
        ctx.flush();
        Ok(())
    }
}

/// A handler on the loop that logs its lifecycle and its events.
pub(crate) struct Inner(pub(crate) Log);

impl Handler for Inner {
    fn interest(&self) -> Events {
        Events::ALL.without(Events::BEGIN_READ | Events::FLUSH | Events::READ_COMPLETE)
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.0.push("inner removed");
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.push("inner active");
        ctx.fire_active();
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.push("inner inactive");
        ctx.fire_inactive();
        Ok(())
    }

    fn on_unregistered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.push("inner unregistered");
        ctx.fire_unregistered();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.push(format!("inner read {}", number(&msg)));
        ctx.fire_read(msg);
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.0.push(format!("inner error {error}"));
        Ok(())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        self.0.push(format!("inner write {}", number(&msg)));
        ctx.write_with(msg, done.take());
        Ok(())
    }
}
