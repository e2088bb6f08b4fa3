//! What the connections of one server on one loop share.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::BytesMut;
use http::HeaderMap;
use waterwheel_executor::{LoopLocal, Origin};

use super::counters::LoopCounters;
use super::options::ServerOptions;
use crate::outbound::standing_fields::StandingFields;

/// The service of a loop, and what does not depend on its type.
pub(super) struct LoopServer<S> {
    pub(super) service: Rc<S>,
    /// Names the service in reports.
    pub(super) origin: Origin,
    pub(super) shared: LoopShared,
}

/// Memory that is used again, the date, the counters, the options.
pub(super) struct LoopShared {
    pub(super) options: Arc<ServerOptions>,
    pub(super) counters: Arc<LoopCounters>,
    pub(super) fields: RefCell<StandingFields>,
    /// Header maps of sent responses, for the next requests.
    headers: RefCell<Vec<HeaderMap>>,
    /// Room for the small parts of answers.
    buffer: Cell<BytesMut>,
}

/// The most header maps that are kept: about 100 KiB.
const MAX_KEPT_HEADERS: usize = 64;

/// The largest header map that is kept, by its capacity.
const MAX_KEPT_FIELDS: usize = 24;

/// Room for the fields of a common request, so that a map grows once.
const COMMON_FIELDS: usize = 12;

impl<S> LoopServer<S> {
    pub(super) fn new(
        service: S,
        options: Arc<ServerOptions>,
        counters: Arc<LoopCounters>,
    ) -> Self {
        let fields = RefCell::new(StandingFields::new(options.server_name.as_ref()));
        let shared = LoopShared {
            options,
            counters,
            fields,
            headers: RefCell::default(),
            buffer: Cell::default(),
        };
        let origin = Origin::labelled(std::any::type_name::<S>());
        Self { service: Rc::new(service), origin, shared }
    }
}

impl LoopShared {
    /// Takes an empty header map.
    #[inline]
    pub(super) fn take_headers(&self) -> HeaderMap {
        let kept = self.headers.borrow_mut().pop();
        kept.unwrap_or_else(|| HeaderMap::with_capacity(COMMON_FIELDS))
    }

    /// Keeps the memory of a header map that is no longer needed.
    #[inline]
    pub(super) fn keep_headers(&self, mut headers: HeaderMap) {
        let is_kept = (COMMON_FIELDS..=MAX_KEPT_FIELDS).contains(&headers.capacity())
            && self.headers.borrow().len() < MAX_KEPT_HEADERS;
        if is_kept {
            headers.clear();
            self.headers.borrow_mut().push(headers);
        }
    }

    pub(super) fn take_buffer(&self) -> BytesMut {
        self.buffer.take()
    }

    pub(super) fn keep_buffer(&self, buffer: BytesMut) {
        self.buffer.set(buffer);
    }
}

/// The servers of a loop, by their number.
type Servers = RefCell<HashMap<u64, Rc<dyn Any>>>;

static SERVERS: LoopLocal<Servers> = LoopLocal::new(Servers::default);

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
