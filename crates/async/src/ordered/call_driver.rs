//! The future that polls the woken calls of a connection.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use waterwheel_channel::{Ctx, LocalCtx};

use super::call_queue::OrderedCalls;

/// Polls the calls whose wakers were called. Spawned when a call of the connection is pending for the first time, and
/// kept until the handler is gone.
pub(super) struct CallDriver {
    calls: Rc<dyn OrderedCalls>,
    local: LocalCtx,
}

impl CallDriver {
    /// Starts the driver on the loop of the channel, which polls it in the same turn.
    pub(super) fn spawn(calls: Rc<dyn OrderedCalls>, ctx: &Ctx<'_>) {
        let driver = CallDriver { calls, local: ctx.to_local() };
        // The driver ends by itself, and the result of a future that runs on is not needed.
        drop(ctx.event_loop().spawn_local(driver));
    }
}

impl Future for CallDriver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.calls.is_over() {
            return Poll::Ready(());
        }
        let (calls, driver) = (self.calls.clone(), cx.waker().clone());
        // A call of the handler: it is taken out meanwhile, and a panic of other handlers closes the channel.
        match self.local.run(move |ctx| calls.run_woken(ctx, &driver)) {
            Ok(()) => Poll::Pending,
            Err(_gone) => Poll::Ready(()),
        }
    }
}
