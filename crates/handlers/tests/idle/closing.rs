//! `close_on`: channels closed because they are idle.

use bytes::Bytes;
use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};
use waterwheel_handlers::{IdleEvent, IdleKind};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{MS, bench, idle};

#[test]
fn c14_close_on_closes_the_channel_on_that_kind_of_idleness() {
    let mut bench = bench(idle().reader(MS * 10).writer(MS * 5).close_on(IdleKind::Reader));
    bench.advance(MS * 5);
    assert!(bench.channel().is_open());
    bench.read();
    bench.advance(MS * 5);
    bench.advance(MS * 5);
    let told = bench.events();
    assert_eq!(told.last(), Some(&(15, IdleKind::Reader, true)), "it is told before");
    assert!(!bench.channel().is_open());
    assert_eq!(bench.timers(), 0);
    bench.advance(MS * 100);
    assert_eq!(bench.events(), []);
}

/// Writes a last message, or removes the idle handler.
struct App {
    forgives: bool,
}

impl Handler for App {
    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        assert!(event.is::<IdleEvent>());
        if self.forgives {
            ctx.pipeline().remove("idle")?;
        } else {
            ctx.write_and_flush(Bytes::from_static(b"bye"));
        }
        Ok(())
    }
}

fn app(forgives: bool) -> Embedded {
    let idle = idle().all(MS * 10).close_on(IdleKind::All).build().unwrap();
    let channel = Embedded::builder().stream().build(|edit| {
        edit.add_last("idle", idle)?;
        edit.add_last("app", App { forgives })?;
        Ok(())
    });
    channel.unwrap()
}

#[test]
fn c14_a_message_written_in_response_is_sent_before_the_close() {
    let mut channel = app(false);
    channel.advance(MS * 10);
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "bye");
    assert!(!channel.channel().is_open());
}

#[test]
fn c14_removing_the_handler_in_response_keeps_the_channel_open() {
    let mut channel = app(true);
    channel.advance(MS * 10);
    assert!(channel.channel().is_open());
    assert_eq!(channel.channel().event_loop().metrics().timers, 0);
}
