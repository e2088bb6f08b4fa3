//! Redirects (RFC 9110, section 15.4).

use http::{Method, Response, StatusCode, Uri, header};
use waterwheel_channel::LocalLoop;

use super::client::ClientShared;
use super::connection::call::ReceivedResponse;
use super::destination::Destination;
use super::error::ClientError;
use super::outgoing_request::{OutgoingBody, OutgoingRequest};
use super::url_reference::resolve_reference;
use crate::body::incoming::Incoming;

impl ClientShared {
    /// Sends a request, and follows as many redirects as the client allows.
    pub(super) async fn follow_redirects(
        &self,
        here: &LocalLoop,
        mut request: OutgoingRequest,
    ) -> Result<Response<Incoming>, ClientError> {
        let mut followed = 0;
        loop {
            let received = self.send_once(here, &mut request).await?;
            // A redirect of CONNECT would open a tunnel to a server that the caller has not named.
            let may_follow = self.options.redirects > 0 && request.method != Method::CONNECT;
            let location = location_of(&received).filter(|_| may_follow);
            let Some(location) = location else { return Ok(into_response(received)) };
            if followed == self.options.redirects {
                return Err(ClientError::TooManyRedirects { url: location, limit: followed });
            }
            followed += 1;
            request = self.redirect(request, received.head.status, &location)?;
            // A short rest is read, so that the connection can be used again.
            drop(received);
        }
    }

    /// Returns the request that follows a redirect.
    fn redirect(
        &self,
        mut request: OutgoingRequest,
        status: StatusCode,
        location: &str,
    ) -> Result<OutgoingRequest, ClientError> {
        let refused = |reason| ClientError::RedirectRefused { url: location.to_owned(), reason };
        let uri: Uri = resolve_reference(&request.uri, location)
            .and_then(|url| url.parse().ok())
            .ok_or_else(|| refused("its Location is no URL"))?;
        let to = Destination::of(&uri)?;
        if request.destination.is_tls && !to.is_tls && !self.options.may_downgrade {
            return Err(refused("it leads from https to http"));
        }
        if becomes_get(status, &request.method) {
            request.method = Method::GET;
            request.body = OutgoingBody::Empty;
            for name in [
                header::CONTENT_TYPE,
                header::CONTENT_LENGTH,
                header::CONTENT_ENCODING,
                header::CONTENT_LANGUAGE,
                header::CONTENT_LOCATION,
                header::TRANSFER_ENCODING,
            ] {
                request.headers.remove(name);
            }
        } else if !request.body.is_repeatable() {
            return Err(refused("the body of the request is a stream, which was sent already"));
        }
        if to != request.destination {
            for name in
                [header::AUTHORIZATION, header::COOKIE, header::HOST, header::PROXY_AUTHORIZATION]
            {
                request.headers.remove(name);
            }
        }
        request.uri = uri;
        request.destination = to;
        Ok(request)
    }
}

/// Returns the Location of a response that is a redirect. Bytes that no URL has are encoded, as browsers do.
fn location_of(received: &ReceivedResponse) -> Option<String> {
    let is_redirect = matches!(received.head.status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = received.head.headers.get(header::LOCATION).filter(|_| is_redirect)?;
    let mut text = String::with_capacity(location.len());
    for byte in location.as_bytes() {
        match byte {
            b'!'..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    Some(text)
}

/// True if the method of the next request is GET: for 303, and for POST as browsers do.
fn becomes_get(status: StatusCode, method: &Method) -> bool {
    match status {
        StatusCode::SEE_OTHER => *method != Method::HEAD,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => *method == Method::POST,
        _ => false,
    }
}

fn into_response(received: ReceivedResponse) -> Response<Incoming> {
    let ReceivedResponse { head, body, .. } = received;
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.version_mut() = head.version;
    *response.headers_mut() = head.headers;
    response
}
