//! The part of the gateway that all loops share.

use std::fmt;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thiserror::Error;
use waterwheel::channel::{AcceptGuard, AcceptPermit, AcceptVerdict, AcceptedConnection, Address};
use waterwheel::executor::{Clock, Nanos};
use waterwheel::handlers::{AcceptRate, AddressLimit, InvalidGuard};

use super::hub::{Hub, HubSink};
use super::limits::GatewayLimits;
use super::requester::Requester;
use crate::access::control::{AccessControl, AccessTime};
use crate::engine::open::EngineOpenError;
use crate::engine::{Engine, EngineSink};
use crate::error_code::{ErrorCode, GatewayError};
use crate::metrics::counters::GatewayCounters;

/// The part of the gateway that all loops share: engine, hub, access, counters, limits.
///
/// Sessions and the HTTP API execute operations on it. Any thread may call its methods; the futures of operations run on
/// loops.
pub struct GatewayCore {
    engine: Arc<dyn Engine>,
    hub: Arc<Hub>,
    access: Arc<AccessControl>,
    counters: Arc<GatewayCounters>,
    limits: GatewayLimits,
    address_clients: AddressLimit,
    address_rate: AcceptRate,
    /// A text that no other gateway has: the ids of clients begin with it.
    instance: u32,
    next_client: AtomicU64,
    clients: AtomicUsize,
    drain: OperationsInProgress,
}

/// The parts that a gateway is made of.
#[derive(Debug)]
pub struct CoreParts {
    /// Authenticates clients.
    pub access: Arc<AccessControl>,
    /// The counters.
    pub counters: Arc<GatewayCounters>,
    /// The limits of clients.
    pub limits: GatewayLimits,
}

/// Why a gateway cannot be made.
#[derive(Debug, Error)]
pub enum CoreError {
    /// The rate of publications per address is not usable.
    #[error("publish_rate_per_address: {0}")]
    Rate(#[from] InvalidGuard),
    /// The engine cannot be opened.
    #[error(transparent)]
    Engine(#[from] EngineOpenError),
}

/// The operations in progress. An operation counts itself, then looks at the flag; the drain sets the flag, then looks at
/// the count; all sequentially consistent, so that one of them sees the other.
#[derive(Debug, Default)]
struct OperationsInProgress {
    is_draining: AtomicBool,
    in_progress: AtomicUsize,
    waiting: Mutex<Vec<Waker>>,
}

/// A client that is counted; dropped when it leaves.
pub(super) struct ClientPlace {
    core: Arc<GatewayCore>,
    _address: Option<AcceptPermit>,
    pub(super) number: u64,
    pub(super) id: Arc<str>,
}

/// An operation in progress.
pub(super) struct OperationGuard<'a>(&'a OperationsInProgress);

impl GatewayCore {
    /// Creates the core, with the engine that `open_engine` returns; it is given the sink that the engine hands on to.
    ///
    /// # Errors
    /// The error of `open_engine`, or a limit of rate that admits nothing.
    pub fn new(
        parts: CoreParts,
        open_engine: impl FnOnce(Arc<dyn EngineSink>) -> Result<Arc<dyn Engine>, EngineOpenError>,
    ) -> Result<Arc<Self>, CoreError> {
        let CoreParts { access, counters, limits } = parts;
        let rate = limits.publish_rate_per_address;
        let address_rate = AcceptRate::builder(rate.per_second, Duration::from_secs(1))
            .burst(rate.burst)
            .build()?;
        let hub = Hub::new(limits, counters.clone());
        let engine = open_engine(Arc::new(HubSink(hub.clone())))?;
        hub.connect(&engine);
        Ok(Arc::new(Self {
            engine,
            hub,
            access,
            counters,
            limits,
            address_clients: AddressLimit::new(limits.clients_per_address),
            address_rate,
            // The standard library's hasher is seeded by the system at random.
            instance: RandomState::new().hash_one(std::process::id()) as u32,
            next_client: AtomicU64::new(1),
            clients: AtomicUsize::new(0),
            drain: OperationsInProgress::default(),
        }))
    }

    /// Returns the engine.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Returns what authenticates clients.
    #[must_use]
    pub fn access(&self) -> &Arc<AccessControl> {
        &self.access
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> &Arc<GatewayCounters> {
        &self.counters
    }

    /// Returns the limits of clients.
    #[must_use]
    pub fn limits(&self) -> &GatewayLimits {
        &self.limits
    }

    /// Returns the number of sessions that are open.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// True once the gateway drains.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.drain.is_draining.load(Ordering::SeqCst)
    }

    /// Returns the client of a request: the identity that its credential proves, or that of clients without one.
    ///
    /// # Errors
    /// `token_required`, `token_invalid`, `token_expired`, or `rate_exceeded` for an address that sent too many invalid ones.
    pub fn authenticate(
        &self,
        credential: Option<&str>,
        peer: Option<IpAddr>,
    ) -> Result<Requester, GatewayError> {
        let identity = match credential {
            Some(credential) => self.access.authenticate(credential, peer, access_time())?,
            None => self.access.anonymous()?,
        };
        Ok(Requester { identity, name: None, peer })
    }

    /// Drains the gateway: refuses new clients and commands, waits until the operations in progress have ended, then closes
    /// all clients, after everything that was published before.
    pub async fn drain(&self) {
        self.drain.is_draining.store(true, Ordering::SeqCst);
        poll_fn(|context| {
            // Added before the count is read: whoever ends the last operation afterwards finds it.
            let mut waiting = self.drain.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push(context.waker().clone());
            match self.drain.in_progress.load(Ordering::SeqCst) {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        })
        .await;
        self.hub.close_all(&closing());
    }

    pub(super) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Begins an operation.
    pub(super) fn begin_operation(&self) -> Result<OperationGuard<'_>, GatewayError> {
        self.drain.in_progress.fetch_add(1, Ordering::SeqCst);
        let guard = OperationGuard(&self.drain);
        match self.is_draining() {
            false => Ok(guard),
            true => Err(closing()),
        }
    }

    /// Counts a new client.
    pub(super) fn admit(
        self: &Arc<Self>,
        peer: Option<IpAddr>,
    ) -> Result<ClientPlace, GatewayError> {
        let too_many = |message| GatewayError::new(ErrorCode::TooManyClients, message);
        if self.is_draining() {
            return Err(closing());
        }
        let address = match limited_address(peer)
            .map(|peer| self.address_clients.check(&connection_of(peer)))
        {
            None | Some(AcceptVerdict::Admit) => None,
            Some(AcceptVerdict::AdmitWith(permit)) => Some(permit),
            Some(AcceptVerdict::Refuse(_)) => {
                return Err(too_many("the limit of connections of this address is reached"));
            }
        };
        let number = self.next_client.fetch_add(1, Ordering::Relaxed);
        let id = format!("c{:08x}-{number}", self.instance).into();
        // Dropped, and so counted down, if there are too many.
        let place = ClientPlace { core: self.clone(), _address: address, number, id };
        match self.clients.fetch_add(1, Ordering::Relaxed) < self.limits.clients {
            true => Ok(place),
            false => Err(too_many("the limit of clients of this gateway is reached")),
        }
    }

    /// Takes a publication from the rate of an address.
    pub(super) fn may_publish_from(&self, address: IpAddr) -> bool {
        !matches!(self.address_rate.check(&connection_of(address)), AcceptVerdict::Refuse(_))
    }
}

impl fmt::Debug for GatewayCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayCore")
            .field("engine", &self.engine)
            .field("clients", &self.clients())
            .field("is_draining", &self.is_draining())
            .finish_non_exhaustive()
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        self.core.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for OperationGuard<'_> {
    fn drop(&mut self) {
        let is_last = self.0.in_progress.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_last && self.0.is_draining.load(Ordering::SeqCst) {
            let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let waiting = std::mem::take(&mut *waiting);
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

/// Returns the error of a gateway that drains.
pub(crate) fn closing() -> GatewayError {
    GatewayError::new(ErrorCode::Closing, "this gateway is shutting down; connect again")
}

/// Returns the time of an attempt to authenticate.
pub(super) fn access_time() -> AccessTime {
    AccessTime { monotonic: Clock::default().now(), unix: unix_time().as_secs() }
}

/// Returns the time since 1970.
#[expect(clippy::disallowed_methods, reason = "tokens and publications have the time of day")]
pub(super) fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the address by which a client is limited; `None` for clients of this machine.
pub(super) fn limited_address(peer: Option<IpAddr>) -> Option<IpAddr> {
    peer.map(|peer| peer.to_canonical()).filter(|peer| !peer.is_loopback())
}

fn connection_of(peer: IpAddr) -> AcceptedConnection {
    let now: Nanos = access_time().monotonic;
    AcceptedConnection::new(Some(Address::Ip(SocketAddr::new(peer, 0))), None, now)
}
