//! A close completes whichever of its steps panics (rule 11).

use bytes::Bytes;
use waterwheel_channel::{AttrKey, Channel, Ctx, Events, Handler, HandlerResult, Message, Msg};

use super::support::{LoopFixture, PanicPoint, ScriptedTransport};

/// Panics when it is dropped.
struct PanicsWhenDropped;

impl Message for PanicsWhenDropped {}

impl AsRef<[u8]> for PanicsWhenDropped {
    fn as_ref(&self) -> &[u8] {
        b"bytes"
    }
}

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("destructor panics");
    }
}

static PANICS_WHEN_DROPPED: AttrKey<PanicsWhenDropped> = AttrKey::new("panics_when_dropped");

/// The step of a close that panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClosingStep {
    SentBytes,
    UnsentMessage,
    WriteCompletion,
    WriteListener,
    CloseCompletion,
    CloseListener,
    FutureListener,
    Inactive,
    Unregistered,
    Removed,
    HandlerDestructor,
    Attribute,
}

impl ClosingStep {
    const ALL: [ClosingStep; 12] = [
        ClosingStep::SentBytes,
        ClosingStep::UnsentMessage,
        ClosingStep::WriteCompletion,
        ClosingStep::WriteListener,
        ClosingStep::CloseCompletion,
        ClosingStep::CloseListener,
        ClosingStep::FutureListener,
        ClosingStep::Inactive,
        ClosingStep::Unregistered,
        ClosingStep::Removed,
        ClosingStep::HandlerDestructor,
        ClosingStep::Attribute,
    ];
}

/// Closes its channel at a user event and panics in one step of the close.
struct ClosesAndPanics(ClosingStep);

impl ClosesAndPanics {
    fn panic_if_at(&self, step: ClosingStep) -> HandlerResult {
        assert!(self.0 != step, "at {step:?}");
        Ok(())
    }
}

impl Handler for ClosesAndPanics {
    fn interest(&self) -> Events {
        Events::USER_EVENT | Events::INACTIVE | Events::UNREGISTERED
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        let channel = ctx.channel();
        match self.0 {
            ClosingStep::SentBytes => ctx.write_and_flush(Bytes::from_owner(PanicsWhenDropped)),
            ClosingStep::UnsentMessage => ctx.write(PanicsWhenDropped),
            ClosingStep::WriteCompletion => ctx.write_then(1_u8, |_| panic!("a completion")),
            ClosingStep::WriteListener => {
                channel.write(1_u8).add_listener(|_| panic!("a listener"))
            }
            ClosingStep::CloseCompletion => ctx.close_then(|_| panic!("a completion")),
            ClosingStep::CloseListener => channel.closed().add_listener(|_| panic!("a listener")),
            ClosingStep::FutureListener => channel.close().add_listener(|_| panic!("a listener")),
            ClosingStep::Attribute => {
                drop(channel.set_attribute(&PANICS_WHEN_DROPPED, PanicsWhenDropped))
            }
            _ => {}
        }
        ctx.close();
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_inactive();
        self.panic_if_at(ClosingStep::Inactive)
    }

    fn on_unregistered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_unregistered();
        self.panic_if_at(ClosingStep::Unregistered)
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        let _ = self.panic_if_at(ClosingStep::Removed);
    }
}

impl Drop for ClosesAndPanics {
    fn drop(&mut self) {
        let _ = self.panic_if_at(ClosingStep::HandlerDestructor);
    }
}

/// Closes a channel with a handler that panics at `step`; the only handle is on the loop.
fn close(fixture: &mut LoopFixture, step: ClosingStep) -> waterwheel_executor::SharedFuture<()> {
    let channel = fixture.register(ScriptedTransport(PanicPoint::None), |edit| {
        edit.add_last("fragile", ClosesAndPanics(step))?;
        Ok(())
    });
    let closed = channel.closed();
    fixture.on(move |_| {
        channel.fire_user_event(());
        drop(channel);
    });
    closed
}

#[test]
fn c05_rule_11_a_close_completes_although_any_of_its_steps_panics() {
    for step in ClosingStep::ALL {
        let mut fixture = LoopFixture::new();
        let other = fixture.register(ScriptedTransport(PanicPoint::None), |_| Ok(()));
        let closed = close(&mut fixture, step);
        fixture.run();
        assert!(closed.is_done(), "at {step:?}");
        let left: Vec<Channel> = fixture.on(|here| here.registered_channels());
        assert_eq!(left, [other], "at {step:?}");
        let metrics = fixture.event_loop.event_loop().metrics();
        assert_eq!(metrics.channels, 1, "the channel is deregistered, at {step:?}");
        let reports = fixture.reports.take();
        assert!(reports.iter().any(|it| it.contains("panicked")), "at {step:?}: {reports:?}");
    }
}
