//! Building a request.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use super::client::Client;
use super::error::ClientError;
use super::outgoing_request::RequestOptions;
use crate::body::incoming::Incoming;
use crate::body::outgoing::Body;
use crate::service::service::Response;

/// A request that is being built. Created by [`Client::request`]. Not `Send`: a body is sent by the loop that made it.
#[must_use = "a request does nothing until it is sent"]
#[derive(Debug)]
pub struct RequestBuilder {
    client: Client,
    method: Method,
    uri: Result<Uri, http::Error>,
    headers: Result<HeaderMap, http::Error>,
    body: Body,
    options: RequestOptions,
}

impl RequestBuilder {
    pub(super) fn new(client: Client, method: Method, uri: Result<Uri, http::Error>) -> Self {
        let (headers, options) = (Ok(HeaderMap::new()), RequestOptions::default());
        Self { client, method, uri, headers, body: Body::empty(), options }
    }

    /// Adds a header. An invalid one is an error of [`send`](Self::send).
    pub fn header<N, V>(mut self, name: N, value: V) -> Self
    where
        N: TryInto<HeaderName>,
        N::Error: Into<http::Error>,
        V: TryInto<HeaderValue>,
        V::Error: Into<http::Error>,
    {
        self.headers = self.headers.and_then(|mut headers| {
            let name = name.try_into().map_err(Into::into)?;
            let value = value.try_into().map_err(Into::into)?;
            headers.try_append(name, value)?;
            Ok(headers)
        });
        self
    }

    /// Replaces the headers.
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers = Ok(headers);
        self
    }

    /// Sets the body: bytes, a text, a part of a file, or a stream ([`Body::from_source`]).
    pub fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets the longest time of the whole request, instead of
    /// [that of the client](crate::ClientBuilder::timeout).
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.options.timeout = Some(limit);
        self
    }

    /// Asks the server whether it wants the body (`Expect: 100-continue`): the body is sent when the server says so, or
    /// after a second. For bodies that would be sent in vain.
    pub fn expect_continue(mut self, expects: bool) -> Self {
        self.options.expects_continue = expects;
        self
    }

    /// Sends the request.
    ///
    /// # Errors
    /// [`ClientError`]. A response with a status of 400 and above is no error.
    pub async fn send(self) -> Result<Response<Incoming>, ClientError> {
        let Self { client, method, uri, headers, body, options } = self;
        let mut request = http::Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri.map_err(invalid)?;
        *request.headers_mut() = headers.map_err(invalid)?;
        client.send_with(request, options).await
    }
}

fn invalid(error: impl Into<http::Error>) -> ClientError {
    ClientError::InvalidRequest { reason: Arc::from(error.into().to_string()) }
}
