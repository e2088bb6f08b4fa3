//! Messages whose `size_hint` panics on the way to offloaded handlers (rule 11).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc;

use waterwheel_channel::{
    Completion, Ctx, Events, Handler, HandlerResult, Message, Msg, Offloaded, RemoteCtx,
    RemoteHandler,
};
use waterwheel_executor::{Clock, EventExecutor, VirtualClock};

use super::support::{LoopFixture, ScriptedTransport};

/// A message whose `size_hint` panics.
struct PanicsInSizeHint;

impl Message for PanicsInSizeHint {
    fn size_hint(&self) -> usize {
        panic!("size_hint panics");
    }
}

/// Passes everything on and reports its removal.
struct ReportsRemoval(mpsc::Sender<&'static str>);

impl RemoteHandler for ReportsRemoval {
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
        let mut fixture = LoopFixture::new();
        let channel = fixture.register(ScriptedTransport::default(), |edit| {
            edit.add_last("remote", Offloaded::on(&executor, move || ReportsRemoval(said)))?;
            Ok(())
        });
        remote.run_now();
        fixture.run();
        let told = Rc::new(Cell::new(0));
        let count = told.clone();
        let written = fixture.on(|here| {
            let written = here.with_pipeline(&channel, |pipeline| {
                if removed {
                    pipeline.remove("remote").expect("it is there");
                }
                let done = Completion::local(move |_| count.set(count.get() + 1));
                pipeline.write_with(String::from("waits"), done);
                channel.write(String::from("waits, too"))
            });
            channel.send(PanicsInSizeHint);
            written.expect("it is there")
        });
        assert!(!channel.is_open());
        while remote.run_now() > 0 {
            fixture.run();
        }
        fixture.run();
        assert!(written.is_done(), "removed: {removed}");
        assert_eq!(told.get(), 1, "removed: {removed}");
        assert_eq!(channel.pending_bytes(), 0, "removed: {removed}");
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["removed"], "removed: {removed}");
    }
}

/// Answers each read with a message whose `size_hint` panics.
struct AnswersWithPanickingSize;

impl Handler for AnswersWithPanickingSize {
    fn interest(&self) -> Events {
        Events::READ
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        ctx.write(PanicsInSizeHint);
        Ok(())
    }
}

#[test]
fn c03_operations_behind_a_removed_offloaded_handler_complete_although_its_slot_is_gone() {
    let builder = EventExecutor::builder();
    let mut remote = builder.build_manual(Clock::Virtual(VirtualClock::new())).unwrap();
    let executor = remote.executor().clone();
    let mut fixture = LoopFixture::new();
    let channel = fixture.register(ScriptedTransport::default(), |edit| {
        let (said, _) = mpsc::channel();
        edit.add_last("remote", Offloaded::on(&executor, move || ReportsRemoval(said)))?;
        edit.add_last("app", AnswersWithPanickingSize)?;
        Ok(())
    });
    remote.run_now();
    fixture.run();
    let written = fixture.on(|here| {
        here.with_pipeline(&channel, |pipeline| {
            pipeline.remove("remote").expect("it is there");
            // These events wait until the handler is removed and then pass its slot: the answer to the first
            // one panics and closes the channel.
            pipeline.fire_read(String::from("a question"));
            pipeline.write_with(String::from("waits"), Completion::local(|_| ()));
            channel.write(String::from("waits, too"))
        })
    });
    while remote.run_now() > 0 {
        fixture.run();
    }
    fixture.run();
    assert!(!channel.is_open());
    assert!(written.expect("it was there").is_done());
    assert_eq!(channel.pending_bytes(), 0);
}
