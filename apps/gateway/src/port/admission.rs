//! Accept guards: which connections the port takes.

use std::net::IpAddr;
use std::sync::Arc;

use waterwheel::channel::{
    AcceptGuard, AcceptVerdict, AcceptedConnection, ConnectionLimit, GuardChain,
};
use waterwheel::handlers::AddressLimit;

use super::options::PortOptions;

/// The limits of connections of a port.
#[derive(Clone, Debug)]
pub struct PortAdmission {
    /// The limit of all connections.
    pub all: ConnectionLimit,
    /// The limit of each address.
    pub guards: GuardChain,
}

impl PortAdmission {
    /// Creates the limits of these options.
    #[must_use]
    pub fn new(options: &Arc<PortOptions>) -> Self {
        let limit = AddressLimit::new(options.connections_per_address);
        let options_of_guard = options.clone();
        let guard = move |connection: &AcceptedConnection| match connection.peer_ip() {
            Some(peer) if is_exempt(&options_of_guard, peer) => AcceptVerdict::Admit,
            _ => limit.check(connection),
        };
        Self {
            all: ConnectionLimit::new(options.connections).turn_away(),
            guards: GuardChain::new().add("per address", guard),
        }
    }
}

/// True for addresses that stand for many clients, or for programs of this machine.
fn is_exempt(options: &PortOptions, peer: IpAddr) -> bool {
    peer.is_loopback() || options.is_trusted_proxy(peer)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use waterwheel::channel::Address;
    use waterwheel::executor::Nanos;

    use super::*;

    #[test]
    fn g03_connections_of_an_address_are_limited_but_for_loopback_and_trusted_proxies() {
        let options = PortOptions {
            connections_per_address: 2,
            trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()],
            ..PortOptions::default()
        };
        let limit = AddressLimit::new(options.connections_per_address);
        let check = |peer: &str| {
            let peer: IpAddr = peer.parse().unwrap();
            let address = Address::Ip(SocketAddr::new(peer, 1));
            let connection = AcceptedConnection::new(Some(address), None, Nanos::default());
            match is_exempt(&options, peer) {
                true => AcceptVerdict::Admit,
                false => limit.check(&connection),
            }
        };
        for exempt in ["127.0.0.1", "::1", "10.1.2.3"] {
            for _ in 0..5 {
                assert!(matches!(check(exempt), AcceptVerdict::Admit), "{exempt}");
            }
        }
        let _held = [check("192.0.2.1"), check("192.0.2.1")];
        assert!(matches!(check("192.0.2.1"), AcceptVerdict::Refuse(_)));
        assert!(matches!(check("192.0.2.2"), AcceptVerdict::AdmitWith(_)));
    }
}
