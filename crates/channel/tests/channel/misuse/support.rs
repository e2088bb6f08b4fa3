//! A manually driven loop, channels over a scripted transport, and handlers made of closures.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel_channel::driver::{Detach, ReadPlan, Submit, TaskOnly};
use waterwheel_channel::transport::{Outbound, Transport, TransportContext};
use waterwheel_channel::{
    Channel, Ctx, Edit, EventLoopGroup, Events, Handler, HandlerResult, LocalLoop, ManualEventLoop,
    Msg, NewChannel, Types,
};
use waterwheel_executor::{Error, Report, Reporter};

/// A manually driven loop and its reports.
pub(crate) struct LoopFixture {
    pub(crate) event_loop: ManualEventLoop,
    pub(crate) reports: Arc<Reports>,
}

impl LoopFixture {
    pub(crate) fn new() -> Self {
        let reports = Arc::new(Reports::default());
        let builder = EventLoopGroup::builder(TaskOnly).reporter(reports.clone());
        Self { event_loop: builder.build_manual().expect("the loop can be built"), reports }
    }

    pub(crate) fn on<R>(&mut self, f: impl FnOnce(&LocalLoop) -> R) -> R {
        self.event_loop.on_loop(f).expect("the loop has not ended")
    }

    /// Turns the loop often enough to complete all work that is not endless.
    pub(crate) fn run(&mut self) {
        for _ in 0..100 {
            self.event_loop.turn(Some(Duration::ZERO));
        }
    }

    /// Registers a channel.
    pub(crate) fn register(
        &mut self,
        transport: ScriptedTransport,
        make: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>,
    ) -> Channel {
        let made = self.on(|here| here.register_with(NewChannel::new(transport), make));
        made.expect("the channel can be registered")
    }
}

/// A reporter that collects faults as text.
#[derive(Default)]
pub(crate) struct Reports(Mutex<Vec<String>>);

impl Reports {
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("the lock is not poisoned"))
    }
}

impl Reporter for Reports {
    fn report(&self, report: &Report<'_>) {
        self.0.lock().expect("the lock is not poisoned").push(report.fault.to_string());
    }
}

/// The transport method that panics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PanicPoint {
    #[default]
    None,
    Register,
    Write,
    SetRead,
    Close,
}

/// A connected transport that accepts every write, reads nothing, and panics in one method.
#[derive(Default)]
pub(crate) struct ScriptedTransport(pub(crate) PanicPoint);

impl ScriptedTransport {
    fn may_panic(&self, at: PanicPoint) {
        assert!(self.0 != at, "panic in {at:?}");
    }
}

impl Transport for ScriptedTransport {
    fn name(&self) -> &'static str {
        "puppet"
    }

    fn reads(&self) -> Types {
        Types::Unknown
    }

    fn accepts(&self) -> Types {
        Types::Unknown
    }

    fn writes_stream(&self) -> bool {
        false
    }

    fn register(&mut self, _: &TransportContext) -> Result<bool, Error> {
        self.may_panic(PanicPoint::Register);
        Ok(true)
    }

    fn deregister(&mut self, _: &TransportContext) -> Result<(), Error> {
        Ok(())
    }

    fn set_read(&mut self, _: &TransportContext, plan: Option<ReadPlan>) {
        if plan.is_none() {
            self.may_panic(PanicPoint::SetRead);
        }
    }

    fn write(&mut self, _: &TransportContext, outbound: &mut Outbound) -> io::Result<Submit> {
        self.may_panic(PanicPoint::Write);
        let all = outbound.messages(usize::MAX).count();
        outbound.sent(all);
        Ok(Submit::Done(all))
    }

    fn close(&mut self, _: &TransportContext) -> Detach {
        self.may_panic(PanicPoint::Close);
        Detach::Done
    }
}

/// Returns a handler that calls `f` for each user event.
pub(crate) fn on_event(f: impl FnMut(&Ctx<'_>) + 'static) -> impl Handler {
    OnEvent(f, Events::USER_EVENT)
}

/// Returns a handler that calls `f` for each user event and is interested in writes: writes made meanwhile are
/// deferred.
pub(crate) fn on_event_in_the_path_of_writes(f: impl FnMut(&Ctx<'_>) + 'static) -> impl Handler {
    OnEvent(f, Events::USER_EVENT | Events::WRITE)
}

struct OnEvent<F>(F, Events);

impl<F: FnMut(&Ctx<'_>) + 'static> Handler for OnEvent<F> {
    fn interest(&self) -> Events {
        self.1
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        (self.0)(ctx);
        Ok(())
    }
}
