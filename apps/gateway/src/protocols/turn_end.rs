//! Clients to be written to at the end of the turn of their loop.
//!
//! A push is made while the hub walks over its receivers; to write then could call handlers that end sessions. So a push
//! is queued, and all clients with something in their queues are written to at the end of the turn: outside of any walk, and
//! with one write for everything that a client was sent in the turn.

use std::cell::RefCell;
use std::mem;
use std::rc::Rc;

use waterwheel::channel::LocalLoop;
use waterwheel::executor::LoopLocal;

/// A client that is called at the end of the turn.
pub(super) trait TurnEnd {
    /// Writes what waits.
    fn on_turn_end(self: Rc<Self>);
}

static WAITING: LoopLocal<RefCell<Vec<Rc<dyn TurnEnd>>>> = LoopLocal::new(RefCell::default);

/// Calls a client at the end of the turn of the calling loop.
pub(super) fn call_at_turn_end(client: Rc<dyn TurnEnd>) {
    let is_first = WAITING.with(|waiting| {
        let mut waiting = waiting.borrow_mut();
        waiting.push(client);
        waiting.len() == 1
    });
    if is_first == Some(true)
        && let Some(here) = LocalLoop::current()
    {
        // Refused by a loop that has ended, and its clients with it.
        drop(here.handle().execute_after_turn(call_waiting));
    }
}

fn call_waiting() {
    let waiting = WAITING.with(|waiting| mem::take(&mut *waiting.borrow_mut()));
    waiting.into_iter().flatten().for_each(TurnEnd::on_turn_end);
}
