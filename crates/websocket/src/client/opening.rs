//! The opening handshake of a client, sent and checked.

use http::header::{
    SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use waterwheel_channel::Edit;
use waterwheel_executor::Error;
use waterwheel_http::{Incoming, Response, upgrade_connection};

use super::connect_error::ConnectError;
use super::connector::WebSocketRequest;
use crate::connection::agreement::Agreement;
use crate::handshake::field_list::parse_tokens;
use crate::handshake::key::new_key;
use crate::handshake::opening_response::OpeningOffer;
use crate::protocol::frame_head::WebSocketRole;

/// A connection whose server has agreed to WebSocket. Dropped, it closes the connection.
pub(super) struct Opening {
    response: Response<Incoming>,
    agreement: Agreement,
}

impl Opening {
    /// Sends a request, and checks the response.
    pub(super) async fn send(request: WebSocketRequest) -> Result<Self, ConnectError> {
        let url = http_url(&request.url)?;
        let WebSocketRequest { client, options, headers, subprotocols, timeout, .. } = request;
        let mut headers = headers?;
        let key = new_key();
        put(&mut headers, UPGRADE, "websocket")?;
        put(&mut headers, SEC_WEBSOCKET_VERSION, "13")?;
        put(&mut headers, SEC_WEBSOCKET_KEY, &key)?;
        if !subprotocols.is_empty() {
            put(&mut headers, SEC_WEBSOCKET_PROTOCOL, &subprotocols.join(", "))?;
        }
        if parse_tokens(&headers, &SEC_WEBSOCKET_PROTOCOL).as_deref() != Ok(&as_strs(&subprotocols))
        {
            let reason = format!("the subprotocols {subprotocols:?} are not different tokens");
            return Err(ConnectError::InvalidRequest { reason });
        }
        let deflate = options.values().deflate.as_ref();
        if let Some(deflate) = deflate {
            let mut offer = String::new();
            deflate.put_offer(&mut offer);
            put(&mut headers, SEC_WEBSOCKET_EXTENSIONS, &offer)?;
        }
        let mut sent = client.request(Method::GET, url).headers(headers);
        if let Some(limit) = timeout {
            sent = sent.timeout(limit);
        }
        let mut response = sent.send().await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let headers = Box::new(std::mem::take(response.headers_mut()));
            return Err(ConnectError::Refused { status: response.status(), headers });
        }
        let offer = OpeningOffer { key: &key, subprotocols: &subprotocols, deflate };
        let choice = offer.check_response(response.headers())?;
        let agreement = Agreement {
            role: WebSocketRole::Client,
            options,
            subprotocol: choice.subprotocol,
            deflate: choice.deflate,
        };
        Ok(Self { response, agreement })
    }

    /// Replaces the handlers of HTTP by those that `install` adds.
    pub(super) fn upgrade<T>(
        self,
        install: impl FnOnce(&mut Edit<'_>, Agreement) -> Result<T, Error>,
    ) -> Result<T, ConnectError> {
        let Self { response, agreement } = self;
        Ok(upgrade_connection(response, |edit| install(edit, agreement))?)
    }
}

fn as_strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) -> Result<(), ConnectError> {
    let value = HeaderValue::from_str(value)
        .map_err(|error| ConnectError::InvalidRequest { reason: format!("{name}: {error}") })?;
    headers.insert(name, value);
    Ok(())
}

/// Returns the URL of the request that opens a WebSocket.
fn http_url(url: &str) -> Result<String, ConnectError> {
    let refused = |reason| ConnectError::InvalidUrl { url: without_secrets(url), reason };
    if url.contains('#') {
        return Err(refused("a WebSocket has no fragment"));
    }
    let (scheme, rest) = url.split_once("://").ok_or_else(|| refused("the scheme is missing"))?;
    match scheme.to_ascii_lowercase().as_str() {
        "ws" => Ok(format!("http://{rest}")),
        "wss" => Ok(format!("https://{rest}")),
        _ => Err(refused("the scheme is neither ws nor wss")),
    }
}

/// Returns a URL without its user name, password, query and fragment.
fn without_secrets(url: &str) -> String {
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = shown.split_once("://").unwrap_or(("", shown));
    let authority_len = rest.find('/').unwrap_or(rest.len());
    let host_start = rest[..authority_len].rfind('@').map_or(0, |at| at + 1);
    let mark = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{mark}{}", &rest[host_start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w01_a_url_of_a_websocket_is_requested_by_http() {
        assert_eq!(http_url("ws://a:80/b?c").unwrap(), "http://a:80/b?c");
        assert_eq!(http_url("WSS://a").unwrap(), "https://a");
        let error = |url| http_url(url).unwrap_err().to_string();
        assert_eq!(
            error("http://a/b?token=secret"),
            "the URL \"http://a/b\" cannot be opened: the scheme is neither ws nor wss"
        );
        for url in ["http://user:secret@a/b", "HTTP://user:p@secret@a/b?c", "user:secret@a/b"] {
            let shown = error(url);
            assert!(!shown.contains("secret") && shown.contains("a/b\" cannot"), "{shown}");
        }
        assert!(error("ws://a/b#c").ends_with("a WebSocket has no fragment"));
        assert!(error("a/b").ends_with("the scheme is missing"));
    }
}
