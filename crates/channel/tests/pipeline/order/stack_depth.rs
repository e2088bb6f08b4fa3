//! A million nested events on a small stack (rule 7).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use waterwheel_channel::{Channel, Completion, Ctx, Handler, HandlerResult, LocalCtx, Msg};

use crate::support::{PipelineFixture, ZeroSized, fixture};

const EVENTS: usize = 1_000_000;

/// Runs `f` on a stack of 128 KiB and checks that it used up all events.
fn on_a_small_stack(events: usize, f: impl FnOnce(Rc<Cell<usize>>) + Send + 'static) {
    let thread = thread::Builder::new().stack_size(128 * 1024).spawn(move || {
        let left = Rc::new(Cell::new(events));
        f(left.clone());
        assert_eq!(left.get(), 0);
    });
    thread.expect("the thread starts").join().expect("the stack is large enough");
}

/// Counts down; returns true while events are left.
fn count(left: &Cell<usize>) -> bool {
    left.set(left.get() - 1);
    left.get() > 0
}

fn with_handler(handler: impl Handler) -> PipelineFixture {
    fixture(|edit, _| {
        edit.add_last("app", handler)?;
        Ok(())
    })
}

/// Fires an event again for each user event.
struct RefiresEvent(Rc<Cell<usize>>);

impl Handler for RefiresEvent {
    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if count(&self.0) {
            ctx.pipeline().fire_user_event(event);
        }
        Ok(())
    }
}

#[test]
fn c05_rule_07_a_million_nested_inbound_events_fit_a_small_stack() {
    on_a_small_stack(EVENTS, |left| {
        let mut fixture = with_handler(RefiresEvent(left));
        fixture.on_loop(|channel| channel.fire_user_event(ZeroSized));
        fixture.run();
    });
}

/// Writes again, from the tail of the pipeline, for each write.
struct RepeatsWrite(Rc<Cell<usize>>);

impl Handler for RepeatsWrite {
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        done.take().succeed();
        if count(&self.0) {
            ctx.pipeline().write(msg);
        }
        Ok(())
    }
}

#[test]
fn c05_rule_07_a_million_nested_outbound_events_fit_a_small_stack() {
    on_a_small_stack(EVENTS, |left| {
        let mut fixture = with_handler(RepeatsWrite(left));
        fixture.on_loop(|channel| channel.send(ZeroSized));
        fixture.run();
    });
}

/// Writes again when a write completes.
fn write_again(later: &LocalCtx, left: &Rc<Cell<usize>>) {
    let (again, left) = (later.clone(), left.clone());
    let run = later.run(move |ctx| {
        ctx.write_then(ZeroSized, move |result| {
            assert!(result.is_ok());
            if count(&left) {
                write_again(&again, &left);
            }
        });
        ctx.flush();
    });
    assert!(run.is_ok());
}

/// Starts the repeated writes in `on_active`.
struct WritesOnCompletion(Rc<Cell<usize>>);

impl Handler for WritesOnCompletion {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        write_again(&ctx.to_local(), &self.0);
        Ok(())
    }
}

#[test]
fn c05_rule_07_many_completions_that_write_again_fit_a_small_stack() {
    // Every sixteenth completion is a turn of the loop.
    on_a_small_stack(EVENTS / 10, |left| {
        let mut fixture = with_handler(WritesOnCompletion(left.clone()));
        while left.get() > 0 {
            fixture.run();
            while fixture.read_outbound_any().is_some() {}
        }
    });
}

/// Writes to a closed channel again whenever a write fails.
fn write_in_vain(channel: &Channel, left: Arc<AtomicUsize>) {
    let again = channel.clone();
    channel.write_and_flush(ZeroSized).on_complete(move |result| {
        assert!(result.is_err());
        if left.fetch_sub(1, Ordering::Relaxed) > 1 {
            write_in_vain(&again, left);
        }
    });
}

#[test]
fn c05_rule_07_a_million_listeners_that_write_to_a_closed_channel_fit_a_small_stack() {
    on_a_small_stack(EVENTS, |left| {
        let mut fixture = fixture(|_, _| Ok(()));
        fixture.close();
        let count = Arc::new(AtomicUsize::new(left.get()));
        let counted = count.clone();
        fixture.on_loop(|channel| write_in_vain(channel, counted));
        fixture.run();
        left.set(count.load(Ordering::Relaxed));
    });
}

/// Passes a user event on to the other channel.
struct PassesToOtherChannel {
    to: Rc<RefCell<Option<Channel>>>,
    left: Rc<Cell<usize>>,
}

impl Handler for PassesToOtherChannel {
    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        if count(&self.left) {
            let to = self.to.borrow().clone();
            to.expect("the value was set").fire_user_event(event);
        }
        Ok(())
    }
}

#[test]
fn c05_rule_07_two_channels_that_call_each_other_a_million_times_fit_a_small_stack() {
    on_a_small_stack(EVENTS, |left| {
        let other = Rc::new(RefCell::new(None));
        let mut fixture =
            with_handler(PassesToOtherChannel { to: other.clone(), left: left.clone() });
        let back = Rc::new(RefCell::new(Some(fixture.channel().clone())));
        let second = fixture.another("second", |edit| {
            edit.add_last("second", PassesToOtherChannel { to: back, left })?;
            Ok(())
        });
        *other.borrow_mut() = Some(second.expect("the channel can be built"));
        fixture.on_loop(|channel| channel.fire_user_event(ZeroSized));
        fixture.run();
    });
}
