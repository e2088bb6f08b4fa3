//! Panics on the way to offloaded handlers (rule 11).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc;

use waterwheel_channel::{
    Completion, Ctx, Events, Handler, HandlerResult, Message, Msg, Offloaded, RemoteCtx,
    RemoteHandler,
};
use waterwheel_executor::{Clock, EventExecutor, VirtualClock};

use super::support::{Puppet, Stage};

/// A message that cannot be weighed.
struct Weightless;

impl Message for Weightless {
    fn size_hint(&self) -> usize {
        panic!("nobody knows");
    }
}

/// Passes everything on, and says when it takes its leave.
struct Remote(mpsc::Sender<&'static str>);

impl RemoteHandler for Remote {
    fn on_removed(&mut self, _: &RemoteCtx) {
        let _ = self.0.send("removed");
    }
}

#[test]
fn c03_operations_queued_for_an_offloaded_handler_complete_although_its_slot_is_gone() {
    for removed in [false, true] {
        let builder = EventExecutor::builder();
        let mut remote = builder.build_manual(Clock::Virtual(VirtualClock::new())).unwrap();
        let executor = remote.executor().clone();
        let (said, heard) = mpsc::channel();
        let mut stage = Stage::new();
        let channel = stage.register(Puppet::default(), |edit| {
            edit.add_last("remote", Offloaded::on(&executor, move || Remote(said)))?;
            Ok(())
        });
        remote.run_now();
        stage.run();
        let told = Rc::new(Cell::new(0));
        let count = told.clone();
        let written = stage.on(|here| {
            let written = here.with_pipeline(&channel, |pipeline| {
                if removed {
                    pipeline.remove("remote").expect("it is there");
                }
                let done = Completion::local(move |_| count.set(count.get() + 1));
                pipeline.write_with(String::from("waits"), done);
                channel.write(String::from("waits, too"))
            });
            channel.send(Weightless);
            written.expect("it is there")
        });
        assert!(!channel.is_open());
        while remote.run_now() > 0 {
            stage.run();
        }
        stage.run();
        assert!(written.is_done(), "removed: {removed}");
        assert_eq!(told.get(), 1, "removed: {removed}");
        assert_eq!(channel.pending_bytes(), 0, "removed: {removed}");
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["removed"], "removed: {removed}");
    }
}

/// Answers with what cannot be weighed.
struct Answers;

impl Handler for Answers {
    fn interest(&self) -> Events {
        Events::READ
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        ctx.write(Weightless);
        Ok(())
    }
}

#[test]
fn c03_operations_behind_a_removed_offloaded_handler_complete_although_its_slot_is_gone() {
    let builder = EventExecutor::builder();
    let mut remote = builder.build_manual(Clock::Virtual(VirtualClock::new())).unwrap();
    let executor = remote.executor().clone();
    let mut stage = Stage::new();
    let channel = stage.register(Puppet::default(), |edit| {
        let (said, _) = mpsc::channel();
        edit.add_last("remote", Offloaded::on(&executor, move || Remote(said)))?;
        edit.add_last("app", Answers)?;
        Ok(())
    });
    remote.run_now();
    stage.run();
    let written = stage.on(|here| {
        here.with_pipeline(&channel, |pipeline| {
            pipeline.remove("remote").expect("it is there");
            // These wait until it has left, and then go past: the first one brings the slot down.
            pipeline.fire_read(String::from("a question"));
            pipeline.write_with(String::from("waits"), Completion::local(|_| ()));
            channel.write(String::from("waits, too"))
        })
    });
    while remote.run_now() > 0 {
        stage.run();
    }
    stage.run();
    assert!(!channel.is_open());
    assert!(written.expect("it was there").is_done());
    assert_eq!(channel.pending_bytes(), 0);
}
