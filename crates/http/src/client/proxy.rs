//! Proxies.

use std::sync::Arc;

use http::{HeaderValue, Uri};

use super::destination::Destination;
use super::error::{ClientError, InvalidClient};

/// A proxy that a client sends its requests to: those for http as whole URLs, those for https through a tunnel
/// (CONNECT), which the proxy cannot read.
///
/// ```
/// use http::HeaderValue;
/// use waterwheel_http::Proxy;
///
/// let proxy = Proxy::http("http://proxy.example:3128")?
///     .authorization(HeaderValue::from_static("Basic dXNlcjpwYXNz"));
/// assert_eq!(proxy.authority(), "proxy.example:3128");
/// # Ok::<(), waterwheel_http::InvalidClient>(())
/// ```
#[derive(Clone, Debug)]
pub struct Proxy {
    pub(super) destination: Destination,
    pub(super) authorization: Option<HeaderValue>,
}

impl Proxy {
    /// Returns the proxy with this URL: `http://host:port`.
    ///
    /// # Errors
    /// The URL is no URL, its scheme is not http, or it has a path.
    pub fn http(url: &str) -> Result<Self, InvalidClient> {
        let invalid = |reason| InvalidClient::Proxy { url: url.to_owned(), reason };
        let uri: Uri = url.parse().map_err(|_| invalid("not a URL"))?;
        let destination = Destination::of(&uri).map_err(|error| match error {
            // The URL may have a password.
            ClientError::InvalidUrl { url, reason } => InvalidClient::Proxy { url, reason },
            _ => invalid("not a URL"),
        })?;
        if destination.is_tls {
            return Err(invalid("proxies are spoken to without TLS: its scheme is http"));
        }
        if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
            return Err(invalid("it has a path"));
        }
        Ok(Self { destination, authorization: None })
    }

    /// Sets the value of Proxy-Authorization. The proxy alone gets it.
    #[must_use]
    pub fn authorization(mut self, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        self.authorization = Some(value);
        self
    }

    /// Returns the host and port.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.destination.authority
    }

    pub(super) fn shared_authority(&self) -> Arc<str> {
        self.destination.authority.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h11_urls_that_are_no_proxy_are_refused() {
        for (url, reason) in [
            ("https://proxy/", "proxies are spoken to without TLS: its scheme is http"),
            ("http://proxy/path", "it has a path"),
            ("proxy:3128", "it has no scheme"),
            ("http://", "not a URL"),
            ("http://me:secret@proxy/", "user names and passwords in URLs are not supported"),
        ] {
            let error = Proxy::http(url).unwrap_err().to_string();
            assert!(error.ends_with(reason) && !error.contains("secret"), "{error}");
        }
    }
}
