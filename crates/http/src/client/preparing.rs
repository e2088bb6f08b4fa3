//! New connections: the tunnel through a proxy, and TLS.

use waterwheel_channel::LocalLoop;
use waterwheel_executor::Error;
use waterwheel_tls::rustls::pki_types::ServerName;
use waterwheel_tls::{ClientTls, TlsHandler, TlsOptions};

use super::client::ClientShared;
use super::connection::call::ReceivedResponse;
use super::destination::Destination;
use super::error::ClientError;
use super::outgoing_request::OutgoingRequest;
use super::pools::PoolKind;
use super::proxy::Proxy;
use super::sending::{ConnectionRoute, ReadyConnection, client_error};

/// The name of the handler of TLS.
const TLS: &str = "tls";

/// Why a connection with TLS is not used.
#[derive(Clone, Debug, thiserror::Error)]
enum TlsRefusal {
    #[error("the host is not a name or an address that a certificate can have")]
    ServerName,
    #[error("the server chose the protocol `{protocol}` instead of http/1.1")]
    Protocol { protocol: String },
    #[error("the proxy sent data of its own into the tunnel, or closed it")]
    Tunnel,
    #[error("the connection was closed before the handshake")]
    Closed,
}

impl ClientShared {
    /// Makes a new connection ready for its first request.
    pub(super) async fn prepare(
        &self,
        here: &LocalLoop,
        route: &ConnectionRoute<'_>,
        mut ready: ReadyConnection,
    ) -> Result<ReadyConnection, ClientError> {
        let Some(tls) = self.tls.as_ref().filter(|_| route.kind != PoolKind::Plain) else {
            ready.link.set_prepared(false);
            return Ok(ready);
        };
        if let (PoolKind::Tunnel(_), Some(proxy)) = (&route.kind, route.proxy) {
            ready = self.open_tunnel(route.destination, proxy, ready).await?;
        }
        let started = self.start_tls(here, route.destination, tls, &ready).await;
        started.map_err(|cause| ClientError::Tls {
            authority: route.destination.authority.clone(),
            cause,
        })?;
        ready.link.set_prepared(true);
        Ok(ready)
    }

    async fn open_tunnel(
        &self,
        to: &Destination,
        proxy: &Proxy,
        ready: ReadyConnection,
    ) -> Result<ReadyConnection, ClientError> {
        let ReadyConnection { link, lease } = ready;
        let request = OutgoingRequest::tunnel(to, proxy, &self.options);
        let answer = link.begin(request, lease).await;
        let ReceivedResponse { head, body, is_upgraded } =
            answer.map_err(|failure| client_error(failure, &proxy.destination))?;
        let (authority, proxy) = (to.authority.clone(), proxy.shared_authority());
        if !is_upgraded {
            return Err(ClientError::TunnelRefused { authority, proxy, status: head.status });
        }
        let entered = link.enter_tunnel();
        // Dropped late: the end of HTTP closes a connection that is not taken over.
        drop(body);
        match entered {
            Some(lease) => Ok(ReadyConnection { link, lease }),
            None => Err(ClientError::Tls { authority, cause: Error::new(TlsRefusal::Tunnel) }),
        }
    }

    async fn start_tls(
        &self,
        here: &LocalLoop,
        to: &Destination,
        tls: &ClientTls,
        ready: &ReadyConnection,
    ) -> Result<(), Error> {
        let name = ServerName::try_from(to.host().to_owned())
            .map_err(|_| Error::new(TlsRefusal::ServerName))?;
        let options =
            TlsOptions::builder().handshake_timeout(self.options.connect_timeout).build()?;
        let (promise, handshake) = here.handle().new_promise();
        let handler =
            TlsHandler::client(tls.clone(), name).with_options(options).complete_handshake(promise);
        // First, so that the pool sees what is decrypted.
        let added = ready.link.run_now(|ctx| ctx.pipeline().add_first(TLS, handler));
        match added {
            Some(added) => added.map(drop).map_err(Error::new)?,
            None => return Err(Error::new(TlsRefusal::Closed)),
        }
        match handshake.await?.alpn {
            Some(protocol) if protocol != b"http/1.1" => {
                let protocol = protocol.escape_ascii().to_string();
                Err(Error::new(TlsRefusal::Protocol { protocol }))
            }
            _ => Ok(()),
        }
    }
}
