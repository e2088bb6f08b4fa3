//! Sending a request: a connection, one exchange, and another one if the first connection was stale.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use waterwheel_channel::{ChannelError, LocalLoop, timeout};
use waterwheel_executor::Error;
use waterwheel_pool::{Lease, PoolError};

use super::client::ClientShared;
use super::connection::call::{CallFailure, ReceivedResponse};
use super::connection::handler::{CLIENT, ClientConnection};
use super::connection::link::ConnectionLink;
use super::connection::reading::MAX_INTERIM;
use super::destination::Destination;
use super::error::ClientError;
use super::outgoing_request::OutgoingRequest;
use super::pools::PoolKind;
use super::proxy::Proxy;

/// How often a connection is acquired that has ended by the time it arrives.
const MAX_ACQUIRES: usize = 8;

/// The way to a server.
pub(super) struct ConnectionRoute<'a> {
    pub(super) destination: &'a Destination,
    pub(super) kind: PoolKind,
    pub(super) proxy: Option<&'a Proxy>,
}

impl ConnectionRoute<'_> {
    /// Returns the proxy if it reads the requests.
    fn reading_proxy(&self) -> Option<&Proxy> {
        self.proxy.filter(|_| self.kind == PoolKind::Plain)
    }
}

/// A connection that is ready for a request.
pub(super) struct ReadyConnection {
    pub(super) link: Rc<ConnectionLink>,
    pub(super) lease: Lease,
}

impl ClientShared {
    /// Sends a request and waits for the head of its response.
    pub(super) async fn send_once(
        &self,
        here: &LocalLoop,
        request: &mut OutgoingRequest,
    ) -> Result<ReceivedResponse, ClientError> {
        let mut is_repeated = false;
        loop {
            let destination = request.destination.clone();
            let route = self.route_to(&destination)?;
            let ready = self.connect(here, &route).await?;
            let sent = request.make_sent(&self.options, route.reading_proxy());
            match ready.link.begin(sent, ready.lease).await {
                Ok(response) => return Ok(response),
                Err(CallFailure::Closed { was_idle: true, .. })
                    if !is_repeated && request.may_be_repeated() =>
                {
                    is_repeated = true;
                }
                Err(failure) => return Err(client_error(failure, &destination)),
            }
        }
    }

    fn route_to<'a>(
        &'a self,
        destination: &'a Destination,
    ) -> Result<ConnectionRoute<'a>, ClientError> {
        let proxy = self.options.proxy.as_ref();
        if destination.is_tls && self.tls.is_none() {
            return Err(ClientError::NoTls { authority: destination.authority.clone() });
        }
        let kind = match (destination.is_tls, proxy) {
            (true, Some(_)) => PoolKind::Tunnel(destination.authority.clone()),
            (true, None) => PoolKind::Secure,
            (false, _) => PoolKind::Plain,
        };
        Ok(ConnectionRoute { destination, kind, proxy })
    }

    /// Returns a connection within the limit of time.
    async fn connect(
        &self,
        here: &LocalLoop,
        route: &ConnectionRoute<'_>,
    ) -> Result<ReadyConnection, ClientError> {
        let limit = self.options.connect_timeout;
        let authority = &route.destination.authority;
        let mut acquiring = pin!(self.acquire(here, route));
        // Most connections are there: the pool has an idle one.
        let first = poll_fn(|cx| Poll::Ready(acquiring.as_mut().poll(cx))).await;
        if let Poll::Ready(outcome) = first {
            return outcome;
        }
        match timeout(limit, acquiring).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ClientError::ConnectTimeout { authority: authority.clone(), limit }),
        }
    }

    async fn acquire(
        &self,
        here: &LocalLoop,
        route: &ConnectionRoute<'_>,
    ) -> Result<ReadyConnection, ClientError> {
        let refused =
            |cause| ClientError::Connect { authority: route.destination.authority.clone(), cause };
        let next = route.proxy.map_or(route.destination, |proxy| &proxy.destination);
        let pool = self.pools.pool(here, route.kind.clone()).map_err(refused)?;
        for _ in 0..MAX_ACQUIRES {
            let acquired = pool.acquire_within(next.address(), self.options.connect_timeout).await;
            let mut lease = acquired.map_err(|error| self.connect_error(error, route))?;
            // Until the exchange is complete, a lease that is dropped closes the connection.
            lease.set_reusable(false);
            let link = here.with_pipeline(&lease, |pipeline| {
                pipeline.with_handler(CLIENT, |handler: &mut ClientConnection| handler.link())
            });
            match link.flatten().filter(|link| link.is_free()) {
                Some(link) if link.is_prepared() => return Ok(ReadyConnection { link, lease }),
                Some(link) => {
                    return self.prepare(here, route, ReadyConnection { link, lease }).await;
                }
                // The connection has ended meanwhile.
                None => lease.discard(),
            }
        }
        Err(refused(Error::closed(ChannelError::Closed { cause: None })))
    }

    fn connect_error(&self, error: Error, route: &ConnectionRoute<'_>) -> ClientError {
        let authority = route.destination.authority.clone();
        let has_timed_out = matches!(error.find(), Some(PoolError::TimedOut { .. }))
            || matches!(error.find(), Some(ChannelError::ConnectTimeout { .. }));
        match has_timed_out {
            true => ClientError::ConnectTimeout { authority, limit: self.options.connect_timeout },
            // The pool would say once more where to.
            false => match error.find() {
                Some(PoolError::Connect { cause, .. }) => {
                    ClientError::Connect { authority, cause: cause.clone() }
                }
                _ => ClientError::Connect { authority, cause: error },
            },
        }
    }
}

/// Returns the error of an exchange with a server.
pub(super) fn client_error(failure: CallFailure, with: &Destination) -> ClientError {
    let authority = with.authority.clone();
    match failure {
        CallFailure::Closed { cause, .. } => ClientError::Closed { authority, cause },
        CallFailure::Malformed(error) => ClientError::Malformed { authority, error },
        CallFailure::TooManyInterim => {
            ClientError::TooManyInterim { authority, limit: MAX_INTERIM }
        }
        CallFailure::HeadTimeout(limit) => ClientError::HeadTimeout { authority, limit },
        CallFailure::SendTimeout(limit) => ClientError::SendTimeout { authority, limit },
        CallFailure::Body(cause) => ClientError::RequestBody { authority, cause },
    }
}
