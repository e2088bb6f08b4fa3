//! C03: a handler that chooses the handlers after it. Detectors and ALPN handlers have more tests of it.

use waterwheel_channel::{Ctx, Events, Handler, HandlerResult, Msg, PipelineHandover};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::Log;

fn inbound() -> Events {
    Events::ACTIVE
        | Events::INACTIVE
        | Events::READ
        | Events::READ_COMPLETE
        | Events::USER_EVENT
        | Events::ERROR
}

/// Chooses at the first message: 1 adds a recorder, everything else fails.
struct Chooser {
    handover: PipelineHandover,
    log: Log,
}

impl Handler for Chooser {
    fn interest(&self) -> Events {
        inbound().without(Events::ERROR)
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.handover.on_active(ctx);
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.handover.on_inactive(ctx);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.handover.on_read_complete(ctx);
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        self.handover.on_user_event(ctx, event);
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let is_one = msg.get() == Some(&1u32);
        let recorder = self.log.recorder().interest(inbound());
        let chosen = self.handover.hand_over(ctx, |edit| {
            edit.add_last("chosen", recorder)?;
            if is_one { Ok(()) } else { Err(Error::new("not one")) }
        });
        if let Err(error) = chosen {
            assert!(self.handover.is_pending(), "nothing was fired yet");
            assert!(!self.handover.refuse(ctx, error));
        }
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        if self.handover.is_pending() {
            self.handover.release(ctx);
        }
    }
}

fn chooser() -> (Embedded, Log) {
    let log = Log::new();
    let chooser = Chooser { handover: PipelineHandover::default(), log: log.clone() };
    let channel = Embedded::new(|edit| {
        edit.add_last("chooser", chooser)?;
        Ok(())
    });
    (channel.unwrap(), log)
}

#[test]
fn c03_chosen_handlers_see_the_channel_from_its_beginning() {
    let (mut channel, log) = chooser();
    channel.fire_user_event(String::from("early"));
    assert_eq!(log.take(), [""; 0]);
    channel.write_inbound(1u32);
    let lines = ["on_added", "on_active", "on_user_event early", "on_read_complete"];
    assert_eq!(log.take(), lines.map(|line| format!("chosen {line}")));
    assert_eq!(channel.with_pipeline(|pipeline| pipeline.names()).unwrap(), ["chosen"]);
    channel.close();
    assert_eq!(log.take()[0], "chosen on_inactive");
}

#[test]
fn c03_a_refused_channel_announces_nothing_and_is_closed_with_the_error() {
    let (mut channel, log) = chooser();
    let app = log.recorder().interest(inbound());
    channel.with_pipeline(|pipeline| pipeline.add_last("app", app)).unwrap().unwrap();
    channel.fire_user_event(String::from("early"));
    channel.write_inbound(2u32);
    let lines = ["app on_added", "never-added dropped", "app on_error not one", "app on_removed"];
    assert_eq!(log.take()[..4], lines);
    assert!(!channel.channel().is_open());
}

#[test]
fn c03_a_chooser_that_is_removed_fires_what_it_has_held() {
    let (mut channel, log) = chooser();
    let app = log.recorder().interest(inbound());
    channel.with_pipeline(|pipeline| pipeline.add_last("app", app)).unwrap().unwrap();
    for at in 0..PipelineHandover::MAX_EVENTS + 2 {
        channel.fire_user_event(format!("{at}"));
    }
    let early = ["app on_added", "app on_user_event 16", "app on_user_event 17"];
    assert_eq!(log.take(), early, "beyond the limit events pass at once");
    channel.with_pipeline(|pipeline| pipeline.remove("chooser")).unwrap().unwrap();
    let lines = log.take();
    assert_eq!(lines[..2], ["app on_active", "app on_user_event 0"]);
    assert_eq!(lines.len(), 1 + PipelineHandover::MAX_EVENTS);
}
