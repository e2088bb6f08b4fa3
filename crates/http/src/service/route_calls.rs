//! The calls of a service whose type is erased.
//!
//! A call needs memory for its future. A `Box<dyn Future>` would be allocated for each call; instead, each route keeps
//! the memory of finished calls and places the next futures in it. A future is polled outside of any borrow: it may call
//! the same route.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use waterwheel_channel::{Slab, Token};

use super::request::Request;
use super::service::{Response, Service};

/// The number of finished calls whose memory a route keeps. More calls than these at the same time allocate.
pub(super) const MAX_IDLE_CALLS: usize = 64;

/// A service of any type.
pub(super) struct ErasedService(Box<dyn ServiceCalls>);

impl ErasedService {
    pub(super) fn new(service: impl Service) -> Self {
        let service = Rc::new(service);
        Self(Box::new(CallSlots::new(move |request| {
            let service = Rc::clone(&service);
            async move { service.call(request).await }
        })))
    }

    pub(super) fn call(&self, request: Request) -> RouteCall<'_> {
        RouteCall { token: self.0.start(request), calls: &*self.0 }
    }
}

/// The future of a call.
pub(super) struct RouteCall<'a> {
    calls: &'a dyn ServiceCalls,
    token: Token,
}

impl Future for RouteCall<'_> {
    type Output = Response;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        self.calls.poll(self.token, cx)
    }
}

impl Drop for RouteCall<'_> {
    fn drop(&mut self) {
        self.calls.end(self.token);
    }
}

/// The calls of one service.
trait ServiceCalls {
    fn start(&self, request: Request) -> Token;

    fn poll(&self, call: Token, cx: &mut Context<'_>) -> Poll<Response>;

    fn end(&self, call: Token);
}

/// The calls of a service whose futures are `F`.
struct CallSlots<S, F> {
    start: S,
    slots: RefCell<Slots<F>>,
}

struct Slots<F> {
    /// The futures; `None` while one is polled.
    running: Slab<Option<RouteCallSlot<F>>>,
    idle: Vec<RouteCallSlot<F>>,
}

/// The memory of a future.
type RouteCallSlot<F> = Pin<Box<Option<F>>>;

impl<S, F> CallSlots<S, F> {
    const fn new(start: S) -> Self {
        let slots = Slots { running: Slab::new(), idle: Vec::new() };
        Self { start, slots: RefCell::new(slots) }
    }
}

impl<S, F> ServiceCalls for CallSlots<S, F>
where
    S: Fn(Request) -> F,
    F: Future<Output = Response>,
{
    fn start(&self, request: Request) -> Token {
        let future = (self.start)(request);
        let idle = self.slots.borrow_mut().idle.pop();
        let mut slot = idle.unwrap_or_else(|| Box::pin(None));
        slot.set(Some(future));
        self.slots.borrow_mut().running.insert(Some(slot))
    }

    fn poll(&self, call: Token, cx: &mut Context<'_>) -> Poll<Response> {
        let mut slot = self
            .slots
            .borrow_mut()
            .running
            .get_mut(call)
            .and_then(Option::take)
            .expect("a call is polled until it ends, and not by itself");
        let future = slot.as_mut().as_pin_mut().expect("a running call has a future");
        let polled = future.poll(cx);
        if let Some(place) = self.slots.borrow_mut().running.get_mut(call) {
            *place = Some(slot);
        }
        polled
    }

    fn end(&self, call: Token) {
        let slot = self.slots.borrow_mut().running.remove(call).flatten();
        // None if the future panicked.
        let Some(mut slot) = slot else { return };
        slot.set(None);
        let mut slots = self.slots.borrow_mut();
        if slots.idle.len() < MAX_IDLE_CALLS {
            slots.idle.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::pin;
    use std::task::Waker;

    use super::*;
    use crate::body::incoming::Incoming;

    fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Counts its drops.
    struct DropCount(Rc<Cell<usize>>);

    impl Drop for DropCount {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn h07_a_dropped_call_drops_its_future_at_once() {
        let drops = Rc::new(Cell::new(0));
        let counted = drops.clone();
        let service = ErasedService::new(move |_: Request| {
            let held = DropCount(counted.clone());
            async move {
                std::future::pending::<()>().await;
                drop(held);
            }
        });
        let calls: Vec<_> =
            (0..3).map(|_| Box::pin(service.call(Request::new(Incoming::empty())))).collect();
        for mut call in calls {
            let before = drops.get();
            assert!(poll(call.as_mut()).is_pending());
            drop(call);
            assert_eq!(drops.get(), before + 1);
        }
    }

    #[test]
    fn h07_a_call_whose_future_panics_leaves_the_route_usable() {
        let service = ErasedService::new(|request: Request| async move {
            assert_ne!(request.uri().path(), "/panic", "as asked");
            "well"
        });
        let request = |path: &'static str| {
            http::Request::builder().uri(path).body(Incoming::empty()).unwrap().into()
        };
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _ = poll(pin!(service.call(request("/panic"))));
        }));
        assert!(panicked.is_err());
        assert!(poll(pin!(service.call(request("/")))).is_ready());
    }

    #[test]
    fn h07_a_route_keeps_the_memory_of_a_bounded_number_of_calls() {
        let service = Rc::new(CallSlots::new(|_: Request| async { Response::default() }));
        let calls: Vec<_> = (0..2 * MAX_IDLE_CALLS)
            .map(|_| service.start(Request::new(Incoming::empty())))
            .collect();
        for call in calls {
            service.end(call);
        }
        assert_eq!(service.slots.borrow().idle.len(), MAX_IDLE_CALLS);
    }

    #[test]
    fn h07_a_service_may_call_its_own_route() {
        let cell: Rc<Cell<Option<Rc<ErasedService>>>> = Rc::default();
        let own = cell.clone();
        let service = Rc::new(ErasedService::new(move |request: Request| {
            let inner = own.take();
            async move {
                match inner {
                    Some(inner) => inner.call(request).await,
                    None => poll_fn(|_| Poll::Ready(Response::default())).await,
                }
            }
        }));
        cell.set(Some(service.clone()));
        assert!(poll(pin!(service.call(Request::new(Incoming::empty())))).is_ready());
    }
}
