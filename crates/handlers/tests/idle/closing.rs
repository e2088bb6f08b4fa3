//! Channels that are closed because they are idle.

use bytes::Bytes;
use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};
use waterwheel_handlers::{IdleEvent, IdleKind};
use waterwheel_testkit::embedded::Embedded;

use crate::bench::{MS, bench, idle};

#[test]
fn c14_a_channel_is_closed_when_it_is_idle_in_the_way_that_was_said() {
    let mut bench = bench(idle().reader(MS * 10).writer(MS * 5).close_on(IdleKind::Reader));
    bench.advance(MS * 5);
    assert!(bench.channel().is_open());
    bench.read();
    bench.advance(MS * 5);
    bench.advance(MS * 5);
    let told = bench.told();
    assert_eq!(told.last(), Some(&(15, IdleKind::Reader, true)), "it is told before");
    assert!(!bench.channel().is_open());
    assert_eq!(bench.timers(), 0);
    bench.advance(MS * 100);
    assert_eq!(bench.told(), []);
}

/// Says good-bye, or takes the idle handler out.
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
fn c14_what_is_said_in_answer_to_the_event_is_sent_before_the_close() {
    let mut channel = app(false);
    channel.advance(MS * 10);
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "bye");
    assert!(!channel.channel().is_open());
}

#[test]
fn c14_whoever_removes_the_handler_in_answer_to_the_event_keeps_the_channel() {
    let mut channel = app(true);
    channel.advance(MS * 10);
    assert!(channel.channel().is_open());
    assert_eq!(channel.channel().event_loop().metrics().timers, 0);
}
