//! Completions of operations that pass an offloaded handler.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};

use waterwheel_channel::{
    Completion, Ctx, Handler, HandlerResult, Msg, Offloaded, RemoteCompletion, RemoteCtx,
    RemoteHandler,
};
use waterwheel_executor::Error;

use crate::support::{OffloadFixture, number};

/// Passes on, completes, fails, drops or keeps each write: the number in the write selects the action.
struct ScriptedWrites(Sender<RemoteCompletion>);

const PASS: u32 = 0;
const SUCCEED: u32 = 1;
const FAIL: u32 = 2;
const DROP: u32 = 3;
const RETURN_ERROR: u32 = 4;
const FORGET: u32 = 5;
const KEEP: u32 = 6;

impl RemoteHandler for ScriptedWrites {
    fn write(&mut self, ctx: &RemoteCtx, msg: Msg, done: &mut RemoteCompletion) -> HandlerResult {
        match number(&msg) {
            PASS => ctx.write_with(msg, done.take()),
            SUCCEED => done.take().succeed(),
            FAIL => done.take().fail(Error::new("failed on purpose")),
            DROP => drop(done.take()),
            RETURN_ERROR => return Err(Error::new("returned")),
            KEEP => self.0.send(done.take()).unwrap(),
            FORGET => {}
            other => unreachable!("{other}"),
        }
        Ok(())
    }
}

fn describe(result: Result<(), Error>) -> String {
    result.map_or_else(|error| error.to_string(), |()| String::from("done"))
}

const EXPECTED: [(u32, &str); 6] = [
    (PASS, "done"),
    (SUCCEED, "done"),
    (FAIL, "failed on purpose"),
    (DROP, "the completion of the operation was dropped without a result"),
    (RETURN_ERROR, "returned"),
    (FORGET, "the handler `does` neither passed the operation on nor completed it"),
];

/// Writes the number in each user event, with a local closure as its completion.
struct Writes(Rc<RefCell<Vec<(u32, String)>>>);

impl Handler for Writes {
    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        let (what, log) = (number(&event), self.0.clone());
        ctx.write_then(what, move |result| log.borrow_mut().push((what, describe(result))));
        ctx.flush();
        Ok(())
    }
}

#[test]
fn c03_a_completion_on_the_loop_receives_the_outcome_of_the_remote_handler() {
    let log = Rc::new(RefCell::new(Vec::new()));
    let (sender, kept) = channel();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("does", Offloaded::on(executor, || ScriptedWrites(sender)))?;
        edit.add_last("writes", Writes(log.clone()))?;
        Ok(())
    });
    for (what, _) in EXPECTED {
        fixture.handle().fire_user_event(what);
    }
    fixture.channel.run();
    assert!(log.borrow().is_empty(), "no completion comes before the handler has run");
    fixture.run_until_idle();
    let mut seen = log.take();
    seen.sort_unstable();
    assert_eq!(seen, EXPECTED.map(|(what, outcome)| (what, outcome.to_owned())));

    fixture.handle().fire_user_event(KEEP);
    fixture.run_until_idle();
    assert!(log.borrow().is_empty());
    let done = kept.recv().unwrap();
    std::thread::spawn(move || done.succeed()).join().unwrap();
    fixture.run_until_idle();
    assert_eq!(log.take(), [(KEEP, String::from("done"))], "completed later from another thread");
}

#[test]
fn c03_a_promise_receives_the_outcome_of_the_remote_handler() {
    let (sender, kept) = channel();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("does", Offloaded::on(executor, || ScriptedWrites(sender)))?;
        Ok(())
    });
    for (what, expected) in EXPECTED {
        let written = fixture.handle().write_and_flush(what);
        fixture.channel.run();
        assert!(!written.is_done());
        fixture.run_until_idle();
        let outcome = describe(written.join());
        if what == DROP {
            assert!(outcome.contains("was dropped uncompleted"), "{outcome}");
        } else {
            assert_eq!(outcome, expected);
        }
    }
    let written = fixture.handle().write(KEEP);
    fixture.run_until_idle();
    kept.recv().unwrap().fail(Error::new("late"));
    assert_eq!(describe(written.join()), "late");
}

#[test]
fn c03_a_write_cancelled_while_queued_for_the_handler_is_not_sent() {
    let (sender, _kept) = channel();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("does", Offloaded::on(executor, || ScriptedWrites(sender)))?;
        Ok(())
    });
    fixture.run_until_idle();
    let written = fixture.handle().write_and_flush(PASS);
    fixture.channel.run();
    assert!(written.cancel());
    fixture.run_until_idle();
    assert_eq!(fixture.outbound(), [0; 0]);
    assert_eq!(fixture.handle().pending_bytes(), 0);
}

#[test]
fn c03_a_remote_handlers_own_writes_have_futures() {
    struct Asks(Sender<waterwheel_channel::ChannelFuture>);
    impl RemoteHandler for Asks {
        fn on_user_event(&mut self, ctx: &RemoteCtx, event: Msg) -> HandlerResult {
            self.0.send(ctx.write_future(event)).unwrap();
            ctx.flush();
            self.0.send(ctx.close_future()).unwrap();
            self.0.send(ctx.write_future(9u32)).unwrap();
            Ok(())
        }
    }
    let (sender, futures) = channel();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("asks", Offloaded::on(executor, || Asks(sender)))?;
        Ok(())
    });
    fixture.handle().fire_user_event(1u32);
    fixture.run_until_idle();
    let outcomes: Vec<_> = futures.try_iter().map(|future| describe(future.join())).collect();
    assert_eq!(outcomes, ["done", "done", "the channel is closed"]);
    assert_eq!(fixture.outbound(), [1]);
}

#[test]
fn c03_completions_are_completed_when_the_loop_ends() {
    let log = Rc::new(RefCell::new(Vec::new()));
    let (sender, kept) = channel();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("does", Offloaded::on(executor, || ScriptedWrites(sender)))?;
        edit.add_last("writes", Writes(log.clone()))?;
        Ok(())
    });
    fixture.handle().fire_user_event(KEEP);
    fixture.run_until_idle();
    let OffloadFixture { channel, mut remote, .. } = fixture;
    drop(channel);
    assert_eq!(log.take().len(), 1, "failed with the channel");
    kept.recv().unwrap().succeed();
    remote.run_now();
    assert!(log.borrow().is_empty(), "completed once");
}

#[test]
fn c03_a_completion_may_be_none() {
    let done = RemoteCompletion::none();
    assert!(done.is_none() && format!("{done:?}").contains("none"));
    done.succeed();
    assert!(Completion::none().is_none());
}

#[test]
fn c03_nothing_follows_a_required_message_that_an_offloaded_handler_refuses() {
    struct Answers;
    impl Handler for Answers {
        fn on_user_event(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
            [PASS, RETURN_ERROR, PASS].into_iter().for_each(|what| ctx.write_or_close(what));
            ctx.flush();
            Ok(())
        }
    }
    let (sender, _kept) = channel();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("does", Offloaded::on(executor, || ScriptedWrites(sender)))?;
        edit.add_last("answers", Answers)?;
        Ok(())
    });
    fixture.handle().fire_user_event(1u32);
    fixture.run_until_idle();
    assert_eq!(fixture.outbound(), [PASS], "the third does not take the place of the second");
    assert_eq!(fixture.handle().close_cause().unwrap().to_string(), "returned");
}
