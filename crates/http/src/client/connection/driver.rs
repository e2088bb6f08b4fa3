//! The driver of a connection: a future on its loop that sends requests, and notices bodies that were dropped.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use waterwheel_channel::Ctx;

use super::call::CallFailure;
use super::exchange::{RequestProgress, ResponseProgress};
use super::link::ConnectionLink;
use super::request_sender::SendStep;
use crate::body::error::BodyError;

/// The waker of the connection's driver.
#[derive(Default)]
pub(super) struct DriverWaker {
    is_spawned: Cell<bool>,
    is_over: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl DriverWaker {
    /// Returns the waker; one that does nothing before the first poll of the driver, which looks at everything.
    fn get(&self) -> Waker {
        self.waker.borrow().clone().unwrap_or_else(|| Waker::noop().clone())
    }

    fn set(&self, waker: &Waker) {
        let is_same = self.waker.borrow().as_ref().is_some_and(|kept| kept.will_wake(waker));
        if !is_same {
            let before = self.waker.replace(Some(waker.clone()));
            drop(before);
        }
    }

    fn end(&self) {
        self.is_over.set(true);
        let waker = self.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The driver of a connection: a future on its loop.
struct LinkDriver(Rc<ConnectionLink>);

impl Future for LinkDriver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let link = &self.0;
        if link.driver.is_over.get() {
            return Poll::Ready(());
        }
        link.driver.set(cx.waker());
        match link.run(|link, ctx| link.on_woken(ctx)) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    }
}

impl ConnectionLink {
    pub(super) fn spawn_driver(self: &Rc<Self>, ctx: &Ctx<'_>) {
        if !self.driver.is_spawned.replace(true) {
            // The driver ends with the connection.
            drop(ctx.event_loop().spawn_local(LinkDriver(self.clone())));
        }
    }

    pub(super) fn driver_waker(&self) -> Waker {
        self.driver.get()
    }

    /// Looks at everything that may have woken the driver.
    fn on_woken(self: &Rc<Self>, ctx: &Ctx<'_>) {
        let state = self.state.borrow();
        let Some(exchange) = &state.exchange else { return };
        let pipe = exchange.pipe.clone();
        drop(state);
        if let Some(pipe) = pipe {
            pipe.wake_on_abandon(&self.driver_waker());
            if pipe.is_abandoned() {
                self.on_body_dropped(ctx);
            }
        }
        self.drive(ctx);
        ctx.flush();
    }

    /// Sends as much of the request as there is room for.
    pub(super) fn drive(self: &Rc<Self>, ctx: &Ctx<'_>) {
        let mut state = self.state.borrow_mut();
        let Some(exchange) = &mut state.exchange else { return };
        if exchange.request != RequestProgress::Sending {
            return;
        }
        // Taken out while the source is polled, which is the caller's code.
        let (sender, outcome) = (exchange.sender.take(), exchange.outcome.clone());
        drop(state);
        let Some(mut sender) = sender else { return self.finish_request(ctx) };
        let step = sender.advance(ctx, &self.driver_waker());
        let mut state = self.state.borrow_mut();
        let exchange = state.exchange.as_mut().filter(|it| {
            Rc::ptr_eq(&it.outcome, &outcome) && it.request == RequestProgress::Sending
        });
        match (step, exchange) {
            (SendStep::Waiting, Some(exchange)) => exchange.sender = Some(sender),
            (SendStep::Done, Some(_)) => {
                drop((state, sender));
                self.finish_request(ctx);
            }
            (SendStep::Failed(error), Some(_)) => {
                drop((state, sender));
                self.fail(ctx, CallFailure::Body(error), BodyError::Aborted);
            }
            // The exchange has ended meanwhile.
            (_, None) => drop((state, sender)),
        }
    }

    fn finish_request(self: &Rc<Self>, ctx: &Ctx<'_>) {
        let mut state = self.state.borrow_mut();
        let Some(exchange) = &mut state.exchange else { return };
        exchange.request = RequestProgress::Sent(ctx.now());
        if exchange.response == ResponseProgress::Head {
            exchange.timers.head = self.schedule_head(ctx, exchange.limits.head);
        }
        drop(state);
        self.settle(ctx);
    }

    pub(super) fn end_driver(&self) {
        self.driver.end();
    }
}
