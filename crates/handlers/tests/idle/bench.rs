//! A channel with an idle handler, and what that has told.

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

/// An event, and how many milliseconds after the start it came.
pub(crate) type Told = (u128, IdleKind, bool);

/// A stream whose first handler is an idle one, and whose last one writes down what it is told.
pub(crate) struct Bench {
    channel: Embedded,
    told: Rc<RefCell<Vec<(Nanos, IdleEvent)>>>,
    start: Nanos,
}

pub(crate) fn bench(idle: IdleHandlerBuilder) -> Bench {
    bench_with(Embedded::builder().stream(), idle)
}

pub(crate) fn bench_with(builder: EmbeddedBuilder, idle: IdleHandlerBuilder) -> Bench {
    let listener = Listener::default();
    let told = listener.0.clone();
    let channel = builder.build(|edit| {
        edit.add_last("idle", idle.build()?)?;
        edit.add_last("listener", listener)?;
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

    /// What was told since this was last asked.
    pub(crate) fn told(&mut self) -> Vec<Told> {
        let since = |at: Nanos| at.since(self.start).as_millis();
        self.told.take().into_iter().map(|(at, it)| (since(at), it.kind, it.first)).collect()
    }

    /// One round of reads.
    pub(crate) fn read(&mut self) {
        self.channel.write_inbound(Bytes::from_static(b"in"));
        drop(self.channel.read_inbound_any());
    }

    /// Writes and flushes.
    pub(crate) fn write(&mut self) {
        self.channel.on_loop(|channel| channel.send(Bytes::from_static(b"out")));
        self.channel.run();
    }

    /// How many timers the loop has.
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

/// Writes down what it is told, and when.
#[derive(Clone, Default)]
pub(crate) struct Listener(pub(crate) Rc<RefCell<Vec<(Nanos, IdleEvent)>>>);

impl Handler for Listener {
    fn interest(&self) -> Events {
        Events::USER_EVENT
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        let event = *event.get::<IdleEvent>().expect("there are no others");
        self.0.borrow_mut().push((ctx.now(), event));
        Ok(())
    }
}
