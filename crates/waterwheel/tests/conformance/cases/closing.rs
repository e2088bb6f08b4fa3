//! When a close is over (C02, rule 8).

use std::sync::{Arc, Mutex};

use waterwheel::channel::{Channel, ChannelOptions, Ctx, Handler, HandlerResult, Msg};

use crate::cell::Cell;
use crate::test_bed::{TestBed, get};

/// Notes the end of its channel, and what it sees of it when it closes the channel itself.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<&'static str>>>);

impl Notes {
    fn note(&self, what: &'static str) -> HandlerResult {
        self.0.lock().expect("nobody panics here").push(what);
        Ok(())
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().expect("nobody panics here"))
    }
}

impl Handler for Notes {
    fn on_user_event(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        let mut closed = ctx.channel().close();
        self.note(if closed.is_done() { "closed at once" } else { "closed later" })?;
        closed.add_listener({
            let notes = self.clone();
            move |_| drop(notes.note("closed"))
        });
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("inactive")
    }

    fn on_unregistered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("unregistered")
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        let _ = self.note("removed");
    }
}

/// A client of a server, that does not read: so a driver that completes has nothing under way.
fn client(test_bed: &TestBed<'_>) -> (Channel, Notes) {
    let (server, notes) = (test_bed.echo(), Notes::default());
    let told = notes.clone();
    let client = test_bed
        .cell
        .client(&test_bed.group)
        .options(ChannelOptions { auto_read: false, ..ChannelOptions::default() })
        .initialiser(move |edit| Ok(edit.add_last("notes", told.clone()).map(drop)?));
    let address = server.local_address().expect("a server is bound");
    (get(client.connect(address)).expect("a connection"), notes)
}

/// Calls `f` in a task on the channel's loop.
fn in_a_task<R: Send + 'static>(
    channel: &Channel,
    f: impl FnOnce(&Channel) -> R + Send + 'static,
) -> R {
    let own = channel.clone();
    let task = channel.event_loop().submit(move || f(&own)).expect("the loop runs");
    get(task).expect("it was run")
}

pub(crate) fn c02_a_close_in_a_task_is_told_when_it_returns(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (channel, notes) = client(&test_bed);
    let seen = notes.clone();
    let (is_done, told) = in_a_task(&channel, move |channel| {
        let closed = channel.close();
        (closed.is_done() && channel.closed().is_done(), seen.take())
    });
    assert!(is_done, "the future is done");
    assert_eq!(told, ["inactive", "unregistered", "removed"]);
    assert_eq!(notes.take(), [""; 0], "each once");
}

pub(crate) fn c05_a_close_in_a_handler_is_told_when_its_call_has_returned(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (channel, notes) = client(&test_bed);
    in_a_task(&channel, |channel| channel.fire_user_event(()));
    assert_eq!(notes.take(), ["closed later", "closed", "inactive", "unregistered", "removed"]);
}
