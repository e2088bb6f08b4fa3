//! The requests without a response, which both slots of a client's codec share.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use http::Method;

/// The phases of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ClientPhase {
    /// Requests can be written.
    #[default]
    Open,
    /// A request said that it is the last one: its response is still to come.
    LastRequest,
    /// Nothing more is written or decoded.
    Over,
    /// Another protocol follows: what is read is kept for it.
    Upgraded,
}

/// The requests in flight. Nothing is borrowed while a handler is called.
#[derive(Debug, Default)]
pub(super) struct ClientExchanges {
    /// The methods of the requests without a response, in order.
    methods: RefCell<VecDeque<Method>>,
    phase: Cell<ClientPhase>,
}

impl ClientExchanges {
    pub(super) fn phase(&self) -> ClientPhase {
        self.phase.get()
    }

    pub(super) fn set_phase(&self, phase: ClientPhase) {
        self.phase.set(phase);
    }

    /// Notes a request.
    pub(super) fn begin(&self, method: Method, is_last: bool) {
        self.methods.borrow_mut().push_back(method);
        if is_last {
            self.phase.set(ClientPhase::LastRequest);
        }
    }

    /// Returns the method of the request whose response comes next.
    pub(super) fn front(&self) -> Option<Method> {
        self.methods.borrow().front().cloned()
    }

    /// Notes that the head of a response has come; returns the method of its request.
    pub(super) fn end(&self) -> Option<Method> {
        self.methods.borrow_mut().pop_front()
    }

    /// Returns the number of requests without a response.
    pub(super) fn count(&self) -> usize {
        self.methods.borrow().len()
    }
}
