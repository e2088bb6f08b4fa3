//! Connections to ask a guard about.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use waterwheel_channel::{
    AcceptGuard, AcceptPermit, AcceptVerdict, AcceptedConnection, Address, Network,
};
use waterwheel_executor::Nanos;

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn network(text: &str) -> Network {
    text.parse().unwrap()
}

/// Returns the `n`th address of 10.0.0.0/8.
pub(crate) fn nth(n: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 | n).into()
}

pub(crate) fn connection_at(peer: IpAddr, at: Duration) -> AcceptedConnection {
    let peer = SocketAddr::new(peer, 5000);
    AcceptedConnection::new(Some(peer.into()), None, Nanos::default().plus(at))
}

pub(crate) fn connection(peer: IpAddr) -> AcceptedConnection {
    connection_at(peer, Duration::ZERO)
}

/// Connections of peers that have no IP address.
pub(crate) fn without_ip() -> [AcceptedConnection; 3] {
    let unnamed = Address::Unix(waterwheel_channel::UnixAddress::Unnamed);
    [None, Some(unnamed), Some(Address::local("somebody"))]
        .map(|peer| AcceptedConnection::new(peer, None, Nanos::default()))
}

/// Asks a guard. Returns the permit if it admits, or the reason if it refuses.
pub(crate) fn check(
    guard: &impl AcceptGuard,
    connection: &AcceptedConnection,
) -> Result<Option<AcceptPermit>, &'static str> {
    match guard.check(connection) {
        AcceptVerdict::Admit => Ok(None),
        AcceptVerdict::AdmitWith(permit) => Ok(Some(permit)),
        AcceptVerdict::Refuse(reason) => Err(reason),
    }
}

pub(crate) fn is_admitted(guard: &impl AcceptGuard, connection: &AcceptedConnection) -> bool {
    check(guard, connection).is_ok()
}
