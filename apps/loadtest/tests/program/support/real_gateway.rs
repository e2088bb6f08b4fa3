//! A gateway in this process.

use std::net::SocketAddr;
use std::time::Duration;

use waterwheel::channel::Drained;
use waterwheel_gateway::config::settings::{GatewaySettings, LogLevel};
use waterwheel_gateway::gateway::Gateway;
use waterwheel_gateway::log::gateway_log::GatewayLog;

/// A running gateway, on loopback.
pub(crate) struct RealGateway {
    gateway: Gateway,
    address: SocketAddr,
}

impl RealGateway {
    /// Starts a gateway with two loops on any port.
    pub(crate) fn start(change: impl FnOnce(&mut GatewaySettings)) -> Self {
        let mut settings = GatewaySettings {
            port: 0,
            loops: Some(2),
            drain: Duration::from_secs(10),
            ..GatewaySettings::default()
        };
        settings.log.level = LogLevel::Error;
        change(&mut settings);
        let socket = Gateway::bind(&settings).expect("any port will do");
        let gateway = Gateway::start(&settings, vec![socket], &GatewayLog::new(settings.log));
        let gateway = gateway.expect("the settings are valid");
        let address = gateway.address().expect("it listens");
        Self { gateway, address }
    }

    /// Returns the URL for WebSocket.
    pub(crate) fn url(&self) -> String {
        format!("ws://{}/ws", self.address)
    }

    /// Returns the port.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Ends the gateway, and with it all connections.
    pub(crate) fn end(self) {
        assert_eq!(self.gateway.drain().expect("the loops live"), Drained::Complete);
    }
}
