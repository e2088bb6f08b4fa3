//! Where a request goes: the scheme, host and port of its URL.

use std::fmt::Write;
use std::sync::Arc;

use http::Uri;
use waterwheel_channel::AddressSpec;

use super::error::ClientError;
use crate::protocol::authority::is_host_and_port;

/// The length of `:65535`.
const MAX_PORT_LEN: usize = 6;

/// The server of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) is_tls: bool,
    pub(super) port: u16,
    /// The host in lower case and the port, with the brackets of an IPv6 address: the target of CONNECT, and the name in
    /// errors.
    pub(super) authority: Arc<str>,
}

impl Destination {
    /// Returns the destination of a URL: of scheme http or https, with a host, and without userinfo.
    pub(super) fn of(uri: &Uri) -> Result<Self, ClientError> {
        let is_tls = match uri.scheme_str() {
            Some(scheme) if scheme.eq_ignore_ascii_case("http") => false,
            Some(scheme) if scheme.eq_ignore_ascii_case("https") => true,
            Some(_) => return Err(invalid(uri, "its scheme is neither http nor https")),
            None => return Err(invalid(uri, "it has no scheme")),
        };
        let default_port = if is_tls { 443 } else { 80 };
        let destination = Self::with_port(uri, is_tls, Some(default_port))?;
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(invalid(uri, "its path has characters that are not percent-encoded"));
        }
        Ok(destination)
    }

    /// Returns the destination of a request with method CONNECT: a host with a port.
    pub(super) fn of_connect(uri: &Uri) -> Result<Self, ClientError> {
        Self::with_port(uri, false, None)
    }

    fn with_port(uri: &Uri, is_tls: bool, default_port: Option<u16>) -> Result<Self, ClientError> {
        let Some(authority) = uri.authority() else { return Err(invalid(uri, "it has no host")) };
        let text = authority.as_str();
        if text.contains('@') {
            return Err(invalid(uri, "user names and passwords in URLs are not supported"));
        }
        let host = authority.host();
        if host.is_empty() || !is_host_and_port(text.as_bytes()) {
            return Err(invalid(uri, "its host is invalid"));
        }
        let port = match authority.port_u16().or(default_port) {
            Some(0) => return Err(invalid(uri, "its port is 0")),
            Some(port) => port,
            None => return Err(invalid(uri, "it has no port")),
        };
        let mut authority = String::with_capacity(host.len() + MAX_PORT_LEN);
        authority.push_str(host);
        authority.make_ascii_lowercase();
        // Writing to a string does not fail.
        let _ = write!(authority, ":{port}");
        Ok(Self { is_tls, port, authority: authority.into() })
    }

    /// Returns the host in lower case; an IPv6 address without its brackets.
    pub(super) fn host(&self) -> &str {
        let host = self.authority.rsplit_once(':').map_or(&*self.authority, |(host, _)| host);
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// Returns the address to connect to.
    pub(super) fn address(&self) -> AddressSpec {
        (self.host(), self.port).into()
    }
}

/// Returns the error for a URL. Without its userinfo, which may be a password.
fn invalid(uri: &Uri, reason: &'static str) -> ClientError {
    let url = match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => format!("of {}", authority.host()),
        _ => uri.to_string(),
    };
    ClientError::InvalidUrl { url, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(url: &'static str) -> Result<Destination, ClientError> {
        Destination::of(&Uri::from_static(url))
    }

    #[test]
    fn h11_the_destination_of_a_url() {
        for (url, authority, is_tls) in [
            ("http://Example.org", "example.org:80", false),
            ("https://example.org/a?b", "example.org:443", true),
            ("HTTP://127.0.0.1:8080/", "127.0.0.1:8080", false),
            ("https://[::1]/", "[::1]:443", true),
        ] {
            let found = destination(url).unwrap();
            assert_eq!((&*found.authority, found.is_tls), (authority, is_tls));
            let host = authority.rsplit_once(':').unwrap().0.trim_matches(['[', ']']);
            assert_eq!(found.host(), host);
        }
        assert_eq!(destination("http://[::1]:81/").unwrap().address().to_string(), "[::1]:81");
    }

    #[test]
    fn h11_urls_that_cannot_be_requested_are_refused() {
        for (url, reason) in [
            ("ftp://a/", "its scheme is neither http nor https"),
            ("/a", "it has no scheme"),
            ("http://u:secret@a/", "user names and passwords in URLs are not supported"),
            ("http://a:0/", "its port is 0"),
            ("http://a/\u{e9}", "its path has characters that are not percent-encoded"),
        ] {
            let error = destination(url).unwrap_err();
            assert!(error.to_string().ends_with(reason), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let no_port = Destination::of_connect(&Uri::from_static("http://a/")).unwrap_err();
        assert!(no_port.to_string().ends_with("it has no port"), "{no_port}");
    }
}
