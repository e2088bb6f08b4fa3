//! Why a request of a client has no response.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use waterwheel_executor::Error;
use waterwheel_pool::InvalidPool;

use crate::protocol::error::MessageError;

/// The error of a request of a [`Client`](crate::Client). `authority` is the host and port of the URL.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The call was not made in a future on an event loop.
    #[error("no event loop runs on this thread: requests are made in a future on a loop")]
    NoLoop,
    /// The URL cannot be requested.
    #[error("the URL {url} cannot be requested: {reason}")]
    InvalidUrl {
        /// The URL.
        url: String,
        /// The violated rule.
        reason: &'static str,
    },
    /// The request has a URL, a header or a body that cannot be sent.
    #[error("the request is invalid: {reason}")]
    InvalidRequest {
        /// The violated rule.
        reason: Arc<str>,
    },
    /// The URL needs TLS, and the client has no configuration for it.
    #[error("{authority} needs TLS, which the client was built without: see ClientBuilder::tls")]
    NoTls {
        /// The host and port.
        authority: Arc<str>,
    },
    /// No connection could be had: a name without an address, a connect that failed, a pool that is full.
    #[error("cannot connect to {authority}: {cause}")]
    Connect {
        /// The host and port.
        authority: Arc<str>,
        /// The reason.
        #[source]
        cause: Error,
    },
    /// No connection was ready in time.
    #[error("no connection to {authority} was ready within {limit:?}")]
    ConnectTimeout {
        /// The host and port.
        authority: Arc<str>,
        /// The limit of the client.
        limit: Duration,
    },
    /// The TLS handshake failed.
    #[error("no TLS connection to {authority}: {cause}")]
    Tls {
        /// The host and port.
        authority: Arc<str>,
        /// The reason.
        #[source]
        cause: Error,
    },
    /// The proxy refused a tunnel.
    #[error("the proxy {proxy} refused a tunnel to {authority} with status {status}")]
    TunnelRefused {
        /// The host and port of the server.
        authority: Arc<str>,
        /// The host and port of the proxy.
        proxy: Arc<str>,
        /// The status of the answer to CONNECT.
        status: StatusCode,
    },
    /// The response did not begin in time.
    #[error("{authority} sent no response within {limit:?} after the request")]
    HeadTimeout {
        /// The host and port.
        authority: Arc<str>,
        /// The limit of the client.
        limit: Duration,
    },
    /// The server did not read the body of the request.
    #[error("{authority} read nothing of the request for {limit:?}")]
    SendTimeout {
        /// The host and port.
        authority: Arc<str>,
        /// The limit of the client.
        limit: Duration,
    },
    /// The whole request took too long.
    #[error("the request to {authority} was not answered within {limit:?}")]
    Timeout {
        /// The host and port.
        authority: Arc<str>,
        /// The limit of the request.
        limit: Duration,
    },
    /// The connection ended before the head of the response was complete.
    #[error("{authority} closed the connection before the response{}", cause_suffix(.cause.as_ref()))]
    Closed {
        /// The host and port.
        authority: Arc<str>,
        /// Why the connection ended; `None` if the server has closed it in order.
        #[source]
        cause: Option<Error>,
    },
    /// The response is malformed or too large.
    #[error("{authority} sent an invalid response: {error}")]
    Malformed {
        /// The host and port.
        authority: Arc<str>,
        /// The violated rule.
        #[source]
        error: MessageError,
    },
    /// Too many interim responses came before the response.
    #[error("{authority} sent more than {limit} interim responses")]
    TooManyInterim {
        /// The host and port.
        authority: Arc<str>,
        /// The limit.
        limit: u32,
    },
    /// The source of the request's body failed, or was longer or shorter than it said.
    #[error("the body of the request to {authority} could not be sent: {cause}")]
    RequestBody {
        /// The host and port.
        authority: Arc<str>,
        /// The reason.
        #[source]
        cause: Error,
    },
    /// Too many redirects followed one another.
    #[error("more than {limit} redirects, the last one to {url}")]
    TooManyRedirects {
        /// The URL that would have been next.
        url: String,
        /// The limit of the client.
        limit: u32,
    },
    /// A redirect that is not followed.
    #[error("the redirect to {url} is not followed: {reason}")]
    RedirectRefused {
        /// The value of Location.
        url: String,
        /// Why it is not followed.
        reason: &'static str,
    },
    /// The response does not change the protocol of its connection.
    #[error("the response with status {status} does not change the protocol of its connection")]
    NotUpgraded {
        /// The status of the response.
        status: StatusCode,
    },
    /// The handlers of the protocol that follows HTTP could not be added. The connection is closed.
    #[error("the handlers of the next protocol could not be added: {cause}")]
    Upgrade {
        /// The error of the initialiser, or of the pipeline.
        #[source]
        cause: Error,
    },
}

/// Why a client cannot be built.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidClient {
    /// A time limit is zero.
    #[error("`{option}` of a client is zero: no server would meet it")]
    ZeroTime {
        /// The option.
        option: &'static str,
    },
    /// The options of the pool are invalid.
    #[error("the pool of a client: {0}")]
    Pool(#[from] InvalidPool),
    /// The URL of the proxy is invalid.
    #[error("the proxy {url}: {reason}")]
    Proxy {
        /// The URL.
        url: String,
        /// The violated rule.
        reason: &'static str,
    },
}

fn cause_suffix(cause: Option<&Error>) -> String {
    cause.map_or_else(String::new, |cause| format!(": {cause}"))
}

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Closed { .. } => Error::closed(error),
            other => Error::new(other),
        }
    }
}

impl From<InvalidClient> for Error {
    fn from(error: InvalidClient) -> Self {
        Error::new(error)
    }
}
