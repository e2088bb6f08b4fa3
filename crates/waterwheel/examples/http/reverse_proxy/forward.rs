//! The service: passes requests on to the upstream, and its responses back.

use std::net::IpAddr;
use std::task::Poll;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, StatusCode, Uri, Version, header};
use waterwheel::channel::Channel;
use waterwheel::executor::Error;
use waterwheel::http::{
    Body, BodyError, Client, ClientError, Incoming, IntoResponse, Request, Response, Service,
    poll_source,
};
use waterwheel::pool::PoolError;

use crate::fields::{add_forwarded, add_via, remove_connection_fields};
use crate::tunnel::switch_protocols;

/// Passes requests on to one upstream.
#[derive(Clone)]
pub(crate) struct ReverseProxy {
    client: Client,
    scheme: Scheme,
    authority: Authority,
    /// The Host of all requests, instead of the client's.
    host: Option<HeaderValue>,
}

impl ReverseProxy {
    pub(crate) fn new(
        client: Client,
        scheme: Scheme,
        authority: Authority,
        host: Option<HeaderValue>,
    ) -> Self {
        Self { client, scheme, authority, host }
    }

    async fn forward(&self, request: Request) -> Result<Response, ClientError> {
        let client = client_address(request.body().channel());
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().cloned();
        let url = self.url(path.unwrap_or(PathAndQuery::from_static("/")))?;
        let upgrade = remove_connection_fields(&mut parts.headers);
        // The upstream is spoken to in HTTP/1.1 alone.
        if let Some(upgrade) = upgrade.filter(|protocol| !protocol.as_bytes().starts_with(b"h2")) {
            parts.headers.insert(header::UPGRADE, upgrade);
        }
        let expects_continue = parts.version != Version::HTTP_10
            && parts.headers.remove(header::EXPECT).is_some_and(|value| value == "100-continue");
        add_via(&mut parts.headers);
        add_forwarded(&mut parts.headers, client);
        if let Some(host) = &self.host {
            parts.headers.insert(header::HOST, host.clone());
        }
        let is_head = parts.method == Method::HEAD;
        let request = self.client.request(parts.method, url).headers(parts.headers);
        let request = request.body(body).expect_continue(expects_continue);
        pass_back(request.send().await?, is_head)
    }

    fn url(&self, path: PathAndQuery) -> Result<Uri, ClientError> {
        let url = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone());
        let invalid = |error: http::Error| error.to_string().into();
        let url = url.path_and_query(path).build();
        url.map_err(|error| ClientError::InvalidRequest { reason: invalid(error) })
    }
}

impl Service for ReverseProxy {
    async fn call(&self, request: Request) -> Response {
        match *request.method() {
            // A reverse proxy is no way to other servers, and TRACE would show fields of the proxy's own.
            Method::CONNECT | Method::TRACE => return refusal(StatusCode::METHOD_NOT_ALLOWED),
            // `OPTIONS *` asks the server itself.
            Method::OPTIONS if request.path() == "*" => return refusal(StatusCode::NO_CONTENT),
            _ => {}
        }
        self.forward(request).await.unwrap_or_else(error_response)
    }
}

fn refusal(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    let allow = HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS");
    response.headers_mut().insert(header::ALLOW, allow);
    response
}

fn client_address(channel: Option<&Channel>) -> Option<IpAddr> {
    Some(channel?.peer_address()?.socket_addr()?.ip())
}

/// Returns the response for the client.
fn pass_back(mut response: Response<Incoming>, is_head: bool) -> Result<Response, ClientError> {
    let upgrade = remove_connection_fields(response.headers_mut());
    add_via(response.headers_mut());
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        if let Some(upgrade) = upgrade {
            response.headers_mut().insert(header::UPGRADE, upgrade);
        }
        return switch_protocols(response);
    }
    let (parts, body) = response.into_parts();
    let body = match is_head && !parts.headers.contains_key(header::CONTENT_LENGTH) {
        // The answer to GET would have a body of unknown length: an empty one would say that it has none.
        true => Body::from_source(poll_source(|_| Poll::Ready(None))),
        false => Body::from(body),
    };
    Ok(Response::from_parts(parts, body))
}

/// Returns what the client gets instead of a response of the upstream. The server reports the error.
fn error_response(error: ClientError) -> Response {
    let status = match &error {
        // The client's own body was refused, or too slow.
        ClientError::RequestBody { cause, .. } => match cause.find::<BodyError>() {
            Some(error) => return (*error).into_response(),
            None => StatusCode::BAD_GATEWAY,
        },
        ClientError::InvalidUrl { .. } | ClientError::InvalidRequest { .. } => {
            StatusCode::BAD_REQUEST
        }
        ClientError::Connect { cause, .. } if is_overload(cause) => StatusCode::SERVICE_UNAVAILABLE,
        ClientError::ConnectTimeout { .. }
        | ClientError::HeadTimeout { .. }
        | ClientError::SendTimeout { .. }
        | ClientError::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    };
    let mut response = (status, format!("{status}: {error}\n")).into_response();
    response.extensions_mut().insert(Error::from(error));
    response
}

/// True if too many requests wait for a connection.
fn is_overload(error: &Error) -> bool {
    use PoolError::{TooManyWaiting, TooManyWaitingInTotal};
    matches!(error.find(), Some(TooManyWaiting { .. } | TooManyWaitingInTotal { .. }))
}
