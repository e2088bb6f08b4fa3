//! The future that polls what a connection waits for.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use waterwheel_channel::{Ctx, LocalCtx};

use super::connection::HttpConnection;

/// Polls the calls and bodies of a connection when one of them was woken. Spawned when something is pending for the
/// first time, and kept until the handler is gone.
pub(super) struct ConnectionDriver {
    connection: Rc<dyn HttpConnection>,
    local: LocalCtx,
}

impl ConnectionDriver {
    /// Starts the driver on the loop of the channel, which polls it in the same turn.
    pub(super) fn spawn(connection: Rc<dyn HttpConnection>, ctx: &Ctx<'_>) {
        let driver = ConnectionDriver { connection, local: ctx.to_local() };
        // The driver ends by itself, and the result of a future that runs on is not needed.
        drop(ctx.event_loop().spawn_local(driver));
    }
}

impl Future for ConnectionDriver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.connection.is_over() {
            return Poll::Ready(());
        }
        let (connection, waker) = (self.connection.clone(), cx.waker().clone());
        // A call of the handler: it is taken out meanwhile, and a panic of other handlers closes the channel.
        match self.local.run(move |ctx| connection.run_woken(ctx, &waker)) {
            Ok(()) => Poll::Pending,
            Err(_gone) => Poll::Ready(()),
        }
    }
}
