//! When a close is complete (C02, rule 8).

use std::sync::{Arc, Mutex};

use waterwheel::channel::{Channel, ChannelOptions, Ctx, Handler, HandlerResult, Msg};

use crate::cell::Cell;
use crate::test_bed::{TestBed, get};

/// Logs the closing events of its channel; on a user event it closes the channel and logs when the close completes.
#[derive(Clone, Default)]
struct CallLog(Arc<Mutex<Vec<&'static str>>>);

impl CallLog {
    fn add(&self, what: &'static str) -> HandlerResult {
        self.0.lock().expect("the lock is not poisoned").push(what);
        Ok(())
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().expect("the lock is not poisoned"))
    }
}

impl Handler for CallLog {
    fn on_user_event(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        let mut closed = ctx.channel().close();
        self.add(if closed.is_done() { "closed at once" } else { "closed later" })?;
        closed.add_listener({
            let log = self.clone();
            move |_| drop(log.add("closed"))
        });
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.add("inactive")
    }

    fn on_unregistered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.add("unregistered")
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        let _ = self.add("removed");
    }
}

/// Connects a client without auto-read, so that a completion-based driver has no operation under way.
fn client(test_bed: &TestBed<'_>) -> (Channel, CallLog) {
    let (server, log) = (test_bed.echo(), CallLog::default());
    let handler_log = log.clone();
    let client = test_bed
        .cell
        .client(&test_bed.group)
        .options(ChannelOptions { auto_read: false, ..ChannelOptions::default() })
        .initialiser(move |edit| Ok(edit.add_last("log", handler_log.clone()).map(drop)?));
    let address = server.local_address().expect("the server is bound");
    (get(client.connect(address)).expect("the connection is made"), log)
}

/// Calls `f` in a task on the channel's loop.
fn in_a_task<R: Send + 'static>(
    channel: &Channel,
    f: impl FnOnce(&Channel) -> R + Send + 'static,
) -> R {
    let own = channel.clone();
    let task = channel.event_loop().submit(move || f(&own)).expect("the loop accepts tasks");
    get(task).expect("the task ran")
}

pub(crate) fn c02_a_close_in_a_task_is_complete_when_the_call_returns(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (channel, log) = client(&test_bed);
    let seen = log.clone();
    let (is_done, calls) = in_a_task(&channel, move |channel| {
        let closed = channel.close();
        (closed.is_done() && channel.closed().is_done(), seen.take())
    });
    assert!(is_done, "the close future is done when the call returns");
    assert_eq!(calls, ["inactive", "unregistered", "removed"]);
    assert_eq!(log.take(), [""; 0], "each event is delivered once");
}

pub(crate) fn c05_a_close_in_a_handler_completes_after_the_handlers_call_returns(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (channel, log) = client(&test_bed);
    in_a_task(&channel, |channel| channel.fire_user_event(()));
    assert_eq!(log.take(), ["closed later", "closed", "inactive", "unregistered", "removed"]);
}
