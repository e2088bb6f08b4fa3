//! The state that the connections of one server on one loop share.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::BytesMut;
use waterwheel_executor::{LoopLocal, Origin};

use super::counters::HttpLoopCounters;
use super::options::ServerOptions;
use crate::outbound::standing_fields::StandingFields;

/// The service of a loop, and what does not depend on its type.
pub(super) struct LoopServer<S> {
    pub(super) service: Rc<S>,
    pub(super) shared: LoopShared,
}

/// A buffer that is used again, the date, the counters, the options.
pub(super) struct LoopShared {
    /// Names the service in reports.
    pub(super) origin: Origin,
    pub(super) options: Arc<ServerOptions>,
    pub(super) counters: Arc<HttpLoopCounters>,
    pub(super) fields: RefCell<StandingFields>,
    /// The memory of calls, of the type of the service's futures.
    pub(super) calls: OnceCell<Rc<dyn Any>>,
    /// Room for the small parts of answers.
    buffer: Cell<BytesMut>,
}

impl<S> LoopServer<S> {
    pub(super) fn new(
        service: S,
        options: Arc<ServerOptions>,
        counters: Arc<HttpLoopCounters>,
    ) -> Self {
        let fields = RefCell::new(StandingFields::new(options.server_name.as_ref()));
        let shared = LoopShared {
            origin: Origin::labelled(std::any::type_name::<S>()),
            options,
            counters,
            fields,
            calls: OnceCell::new(),
            buffer: Cell::default(),
        };
        Self { service: Rc::new(service), shared }
    }
}

impl LoopShared {
    pub(super) fn take_buffer(&self) -> BytesMut {
        self.buffer.take()
    }

    pub(super) fn keep_buffer(&self, buffer: BytesMut) {
        self.buffer.set(buffer);
    }
}

/// The servers of a loop, by their number.
type LoopServers = RefCell<HashMap<u64, Rc<dyn Any>>>;

static SERVERS: LoopLocal<LoopServers> = LoopLocal::new(LoopServers::default);

/// Returns the state of a server on the loop of this thread, made at its first connection there. It lives as long as the
/// loop, so that a service keeps what it holds while it has no connections.
pub(super) fn loop_server<S: 'static>(
    server: u64,
    make: impl Fn() -> LoopServer<S>,
) -> Rc<LoopServer<S>> {
    let found = SERVERS.with(|servers| servers.borrow().get(&server).cloned()).flatten();
    if let Some(known) = found.and_then(|known| known.downcast().ok()) {
        return known;
    }
    // Calls code of the user's, outside of the borrow.
    let made = Rc::new(make());
    SERVERS.with(|servers| servers.borrow_mut().insert(server, made.clone()));
    made
}
