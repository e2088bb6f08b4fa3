//! Kept contexts that remove their own handlers.

use std::cell::RefCell;
use std::rc::Rc;

use waterwheel_channel::{Completion, Ctx, Events, Handler, HandlerResult, LocalCtx, Msg};
use waterwheel_testkit::embedded::Embedded;

/// Appends a mark to each written text.
struct AppendsMark;

impl Handler for AppendsMark {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        let text = msg.take::<String>().expect("only text is written");
        ctx.write_with(text + "!", done.take());
        Ok(())
    }
}

/// Hands its kept context to the test.
struct KeepsContext(Rc<RefCell<Option<LocalCtx>>>);

impl Handler for KeepsContext {
    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        *self.0.borrow_mut() = Some(ctx.to_local());
        Ok(())
    }
}

#[test]
fn c05_rule_5_a_kept_context_whose_handler_it_removes_still_forwards_to_live_neighbours() {
    let exposed = Rc::new(RefCell::new(None));
    let kept = exposed.clone();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("marks", AppendsMark)?;
        edit.add_last("app", KeepsContext(kept))?;
        Ok(())
    })
    .expect("the channel can be built");
    let kept = exposed.take().expect("the handler was added");
    channel.on_loop(|_| {
        let ran = kept.run(|ctx| {
            ctx.pipeline().remove("app").expect("it is there");
            assert!(ctx.is_removed());
            ctx.write_and_flush(String::from("left over"));
        });
        ran.expect("it is there");
    });
    channel.run();
    assert_eq!(channel.read_outbound::<String>().expect("a message was sent"), "left over!");
}

#[test]
fn c05_rule_5_a_kept_context_does_not_act_for_the_handler_that_follows_its_own() {
    let exposed = Rc::new(RefCell::new(None));
    let kept = exposed.clone();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("app", KeepsContext(kept))?;
        edit.add_last("marks", AppendsMark)?;
        Ok(())
    })
    .expect("the channel can be built");
    let kept = exposed.take().expect("the handler was added");
    let names = Rc::new(RefCell::new(Vec::new()));
    let seen = names.clone();
    channel.on_loop(|_| {
        let ran = kept.run(move |ctx| {
            ctx.pipeline().remove("app").expect("it is there");
            ctx.pipeline().add_last("successor", AppendsMark).expect("its name is free");
            seen.borrow_mut().push(ctx.name());
            ctx.write_and_flush(String::from("left over"));
        });
        ran.expect("it is there");
    });
    channel.run();
    assert_eq!(*names.borrow(), ["app"]);
    assert_eq!(channel.read_outbound::<String>().expect("a message was sent"), "left over");
}
