//! Kept contexts that remove their own handlers.

use std::cell::RefCell;
use std::rc::Rc;

use waterwheel_channel::{Completion, Ctx, Events, Handler, HandlerResult, LocalCtx, Msg};
use waterwheel_testkit::embedded::Embedded;

/// Adds a letter to what is written.
struct Marks;

impl Handler for Marks {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        let text = msg.take::<String>().expect("only text is written");
        ctx.write_with(text + "!", done.take());
        Ok(())
    }
}

/// Gives its place away.
struct Places(Rc<RefCell<Option<LocalCtx>>>);

impl Handler for Places {
    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        *self.0.borrow_mut() = Some(ctx.to_local());
        Ok(())
    }
}

#[test]
fn c05_rule_5_a_kept_context_whose_handler_it_removes_still_forwards_to_live_neighbours() {
    let place = Rc::new(RefCell::new(None));
    let kept = place.clone();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("marks", Marks)?;
        edit.add_last("app", Places(kept))?;
        Ok(())
    })
    .expect("it can be made");
    let place = place.take().expect("it was added");
    channel.on_loop(|_| {
        let ran = place.run(|ctx| {
            ctx.pipeline().remove("app").expect("it is there");
            assert!(ctx.is_removed());
            ctx.write_and_flush(String::from("left over"));
        });
        ran.expect("it is there");
    });
    channel.run();
    assert_eq!(channel.read_outbound::<String>().expect("it went out"), "left over!");
}

#[test]
fn c05_rule_5_a_kept_context_does_not_act_for_the_handler_that_follows_its_own() {
    let place = Rc::new(RefCell::new(None));
    let kept = place.clone();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("app", Places(kept))?;
        edit.add_last("marks", Marks)?;
        Ok(())
    })
    .expect("it can be made");
    let place = place.take().expect("it was added");
    let names = Rc::new(RefCell::new(Vec::new()));
    let seen = names.clone();
    channel.on_loop(|_| {
        let ran = place.run(move |ctx| {
            ctx.pipeline().remove("app").expect("it is there");
            ctx.pipeline().add_last("successor", Marks).expect("its name is free");
            seen.borrow_mut().push(ctx.name());
            ctx.write_and_flush(String::from("left over"));
        });
        ran.expect("it is there");
    });
    channel.run();
    assert_eq!(*names.borrow(), ["app"]);
    assert_eq!(channel.read_outbound::<String>().expect("it went out"), "left over");
}
