//! An embedded channel with an idle handler and a recorder of its events.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{Ctx, Events, Handler, HandlerResult, Msg};
use waterwheel_executor::Nanos;
use waterwheel_handlers::{IdleEvent, IdleHandler, IdleHandlerBuilder, IdleKind};
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const NS: Duration = Duration::from_nanos(1);

/// An event: milliseconds after the start, kind, and whether it is the first.
pub(crate) type RecordedEvent = (u128, IdleKind, bool);

/// A stream channel whose first handler is the idle handler and whose last one records the events.
pub(crate) struct Bench {
    channel: Embedded,
    told: Rc<RefCell<Vec<(Nanos, IdleEvent)>>>,
    start: Nanos,
}

pub(crate) fn bench(idle: IdleHandlerBuilder) -> Bench {
    bench_with(Embedded::builder().stream(), idle)
}

pub(crate) fn bench_with(builder: EmbeddedBuilder, idle: IdleHandlerBuilder) -> Bench {
    let recorder = EventRecorder::default();
    let told = recorder.0.clone();
    let channel = builder.build(|edit| {
        edit.add_last("idle", idle.build()?)?;
        edit.add_last("recorder", recorder)?;
        Ok(())
    });
    Bench::of(channel.unwrap(), told)
}

pub(crate) fn idle() -> IdleHandlerBuilder {
    IdleHandler::builder()
}

impl Bench {
    pub(crate) fn of(channel: Embedded, told: Rc<RefCell<Vec<(Nanos, IdleEvent)>>>) -> Self {
        let start = channel.now();
        Self { channel, told, start }
    }

    /// Returns the events since the last call.
    pub(crate) fn events(&mut self) -> Vec<RecordedEvent> {
        let since = |at: Nanos| at.since(self.start).as_millis();
        self.told.take().into_iter().map(|(at, it)| (since(at), it.kind, it.first)).collect()
    }

    /// Runs one read round.
    pub(crate) fn read(&mut self) {
        self.channel.write_inbound(Bytes::from_static(b"in"));
        drop(self.channel.read_inbound_any());
    }

    /// Writes and flushes.
    pub(crate) fn write(&mut self) {
        self.channel.on_loop(|channel| channel.send(Bytes::from_static(b"out")));
        self.channel.run();
    }

    /// Counts the timers of the loop.
    pub(crate) fn timers(&mut self) -> usize {
        self.channel.run();
        self.channel.channel().event_loop().metrics().timers
    }
}

impl Deref for Bench {
    type Target = Embedded;

    fn deref(&self) -> &Embedded {
        &self.channel
    }
}

impl DerefMut for Bench {
    fn deref_mut(&mut self) -> &mut Embedded {
        &mut self.channel
    }
}

/// Records idle events with their time.
#[derive(Clone, Default)]
pub(crate) struct EventRecorder(pub(crate) Rc<RefCell<Vec<(Nanos, IdleEvent)>>>);

impl Handler for EventRecorder {
    fn interest(&self) -> Events {
        Events::USER_EVENT
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        let event = *event.get::<IdleEvent>().expect("only idle events are fired");
        self.0.borrow_mut().push((ctx.now(), event));
        Ok(())
    }
}
