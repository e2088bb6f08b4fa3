//! The guard against pages that reach an open gateway under a name of their own (DNS rebinding).
//!
//! A browser lets a page talk to the host that the page comes from. The owner of a domain can let its name lead to 127.0.0.1
//! once the page is loaded: then the page and the gateway have one origin, and the gateway does what the page wants. The field
//! `Host` still has the name. With TLS there is no such page: the certificate is not for the name of the stranger.

use std::net::IpAddr;
use std::sync::Arc;

use waterwheel::http::{Request, Response, Service};

use super::options::PortOptions;
use crate::error_code::{ErrorCode, GatewayError};
use crate::protocols::http::refusal;
use crate::session::core::GatewayCore;

/// A service that refuses requests for names of others, where clients without a credential may do everything.
#[derive(Debug)]
pub struct HostGuard<S> {
    service: S,
    core: Arc<GatewayCore>,
    options: Arc<PortOptions>,
    has_tls: bool,
}

impl<S> HostGuard<S> {
    /// Puts the guard before a service.
    #[must_use]
    pub fn new(
        service: S,
        core: &Arc<GatewayCore>,
        options: &Arc<PortOptions>,
        has_tls: bool,
    ) -> Self {
        Self { service, core: core.clone(), options: options.clone(), has_tls }
    }

    fn check(&self, request: &Request) -> Result<(), GatewayError> {
        let Some(host) = host_of(request) else { return Ok(()) };
        // Load balancers ask under any name, and are told nothing.
        let is_harmless = matches!(request.path(), "/healthz" | "/readyz");
        if self.has_tls || is_harmless || is_own_name(host) || self.options.is_allowed_host(host) {
            return Ok(());
        }
        let is_open =
            self.core.access().anonymous().is_ok_and(|client| client.permissions.is_admin);
        match is_open {
            false => Ok(()),
            true => Err(GatewayError::new(
                ErrorCode::NotPermitted,
                "this gateway is open to this machine alone, and the request is for another host: configure keys, or list the \
                 host in hosts.allowed",
            )),
        }
    }
}

impl<S: Service> Service for HostGuard<S> {
    async fn call(&self, request: Request) -> Response {
        match self.check(&request) {
            Ok(()) => self.service.call(request).await,
            Err(error) => refusal(&self.core, &error),
        }
    }
}

/// Returns the host that a request is for, without its port.
fn host_of(request: &Request) -> Option<&str> {
    let host = str::from_utf8(request.header("host")?).ok()?;
    let end = match host.rfind(']') {
        Some(bracket) => bracket + 1,
        None => host.find(':').unwrap_or(host.len()),
    };
    Some(&host[..end])
}

/// True for names that no stranger can have: addresses, localhost, names without a domain.
fn is_own_name(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host);
    let literal = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    let is_local = |name: &str| name.rsplit('.').next().is_some_and(|top| top == "localhost");
    !name.contains('.') || literal.parse::<IpAddr>().is_ok() || is_local(&name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use waterwheel::http::Incoming;

    use super::*;

    #[test]
    fn g03_names_of_strangers_are_those_with_a_domain() {
        for own in [
            "127.0.0.1",
            "192.0.2.1",
            "[::1]",
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "gateway",
            "",
        ] {
            assert!(is_own_name(own), "{own}");
        }
        for other in [
            "example.org",
            "127.0.0.1.example.org",
            "localhost.example.org",
            "1.2.3",
            "example.org.",
        ] {
            assert!(!is_own_name(other), "{other}");
        }
    }

    #[test]
    fn g03_the_port_is_no_part_of_the_host() {
        let of = |host: &str| {
            let request = http::Request::get("/").header("host", host).body(Incoming::empty());
            host_of(&Request::from(request.unwrap())).map(str::to_owned)
        };
        assert_eq!(of("example.org:7000").unwrap(), "example.org");
        assert_eq!(of("example.org").unwrap(), "example.org");
        assert_eq!(of("[::1]:7000").unwrap(), "[::1]");
        assert_eq!(of("[::1]").unwrap(), "[::1]");
        assert_eq!(host_of(&Request::new(Incoming::empty())), None);
    }
}
