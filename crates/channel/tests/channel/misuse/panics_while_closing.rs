//! Whatever panics in the course of a close, the close comes to its end (rule 11).

use bytes::Bytes;
use waterwheel_channel::{AttrKey, Channel, Ctx, Events, Handler, HandlerResult, Message, Msg};

use super::support::{Puppet, Stage, Trouble};

/// Panics when it is dropped.
struct Bomb;

impl Message for Bomb {}

impl AsRef<[u8]> for Bomb {
    fn as_ref(&self) -> &[u8] {
        b"bomb"
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a bomb");
    }
}

static BOMB: AttrKey<Bomb> = AttrKey::new("bomb");

/// Where a close panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
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

impl Point {
    const ALL: [Point; 12] = [
        Point::SentBytes,
        Point::UnsentMessage,
        Point::WriteCompletion,
        Point::WriteListener,
        Point::CloseCompletion,
        Point::CloseListener,
        Point::FutureListener,
        Point::Inactive,
        Point::Unregistered,
        Point::Removed,
        Point::HandlerDestructor,
        Point::Attribute,
    ];
}

/// Closes its channel when it is told to, and panics at a point of that.
struct Fragile(Point);

impl Fragile {
    fn is_at(&self, point: Point) -> HandlerResult {
        assert!(self.0 != point, "at {point:?}");
        Ok(())
    }
}

impl Handler for Fragile {
    fn interest(&self) -> Events {
        Events::USER_EVENT | Events::INACTIVE | Events::UNREGISTERED
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        let channel = ctx.channel();
        match self.0 {
            Point::SentBytes => ctx.write_and_flush(Bytes::from_owner(Bomb)),
            Point::UnsentMessage => ctx.write(Bomb),
            Point::WriteCompletion => ctx.write_then(1_u8, |_| panic!("a completion")),
            Point::WriteListener => channel.write(1_u8).add_listener(|_| panic!("a listener")),
            Point::CloseCompletion => ctx.close_then(|_| panic!("a completion")),
            Point::CloseListener => channel.closed().add_listener(|_| panic!("a listener")),
            Point::FutureListener => channel.close().add_listener(|_| panic!("a listener")),
            Point::Attribute => drop(channel.set_attribute(&BOMB, Bomb)),
            _ => {}
        }
        ctx.close();
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_inactive();
        self.is_at(Point::Inactive)
    }

    fn on_unregistered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_unregistered();
        self.is_at(Point::Unregistered)
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        let _ = self.is_at(Point::Removed);
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        let _ = self.is_at(Point::HandlerDestructor);
    }
}

/// Closes a channel with this handler; the only handle is on the loop.
fn close(stage: &mut Stage, point: Point) -> waterwheel_executor::SharedFuture<()> {
    let channel = stage.register(Puppet(Trouble::None), |edit| {
        edit.add_last("fragile", Fragile(point))?;
        Ok(())
    });
    let closed = channel.closed();
    stage.on(move |_| {
        channel.fire_user_event(());
        drop(channel);
    });
    closed
}

#[test]
fn c05_rule_11_a_close_completes_although_any_of_its_steps_panics() {
    for point in Point::ALL {
        let mut stage = Stage::new();
        let other = stage.register(Puppet(Trouble::None), |_| Ok(()));
        let closed = close(&mut stage, point);
        stage.run();
        assert!(closed.is_done(), "at {point:?}");
        let left: Vec<Channel> = stage.on(|here| here.registered_channels());
        assert_eq!(left, [other], "at {point:?}");
        let metrics = stage.event_loop.event_loop().metrics();
        assert_eq!(metrics.channels, 1, "the loop has forgotten it, at {point:?}");
        let reports = stage.reports.take();
        assert!(reports.iter().any(|it| it.contains("panicked")), "at {point:?}: {reports:?}");
    }
}
