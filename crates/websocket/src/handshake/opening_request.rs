//! The server's side: the check of a request.

use http::header::{
    HOST, ORIGIN, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use waterwheel_http::{BodyFraming, RequestHead};

use super::field_list::{Extension, has_element, parse_extensions, parse_tokens};
use super::handshake_error::HandshakeError;
use super::key::{AcceptProof, is_key};
use crate::deflate::options::DeflateOptions;
use crate::deflate::parameters::{DeflateParameters, EXTENSION_NAME};

/// A request that is a valid opening handshake.
#[derive(Clone, Debug)]
pub(crate) struct OpeningRequest {
    pub(crate) proof: AcceptProof,
    /// The subprotocols that the client offers, the preferred one first.
    pub(crate) subprotocols: Vec<String>,
    /// The parameters of permessage-deflate, if the client offers it in a form that the options allow.
    pub(crate) deflate: Option<DeflateParameters>,
    pub(crate) origin: Option<PageOrigin>,
}

/// The origin of the page that has made a request.
#[derive(Clone, Debug)]
pub(crate) struct PageOrigin {
    /// The value of Origin: `https://example.org`, or `null`.
    pub(crate) text: String,
    /// True if the page comes from the host that the request is for.
    pub(crate) is_same: bool,
}

impl OpeningRequest {
    /// Checks a request against RFC 6455, section 4.2.1.
    pub(crate) fn check(
        head: &RequestHead,
        deflate: Option<&DeflateOptions>,
    ) -> Result<Self, HandshakeError> {
        if head.method() != Method::GET {
            return Err(HandshakeError::Method);
        }
        let headers = head.headers();
        if !head.wants_upgrade() || !has_element(headers, &UPGRADE, "websocket") {
            return Err(HandshakeError::NoUpgrade);
        }
        if only_value(headers, &SEC_WEBSOCKET_VERSION) != Some(b"13") {
            return Err(HandshakeError::Version);
        }
        let key = only_value(headers, &SEC_WEBSOCKET_KEY).filter(|key| is_key(key));
        let key = key.ok_or(HandshakeError::Key)?;
        // Bytes behind the head could be the body or the first frame.
        if !matches!(head.framing(), BodyFraming::None | BodyFraming::Length(0)) {
            return Err(HandshakeError::Body);
        }
        let subprotocols = parse_tokens(headers, &SEC_WEBSOCKET_PROTOCOL)
            .map_err(|_| HandshakeError::Subprotocols)?;
        let extensions = parse_extensions(headers, &SEC_WEBSOCKET_EXTENSIONS)
            .map_err(|_| HandshakeError::Extensions)?;
        let offers = extensions.iter().filter(|offer| offer.name == EXTENSION_NAME);
        let deflate =
            deflate.and_then(|options| options.negotiate(offers.map(Extension::parameters)));
        Ok(Self {
            proof: AcceptProof::of(key),
            subprotocols: subprotocols.into_iter().map(str::to_owned).collect(),
            deflate,
            origin: PageOrigin::of(headers),
        })
    }
}

impl PageOrigin {
    fn of(headers: &HeaderMap) -> Option<Self> {
        let text = String::from_utf8_lossy(headers.get(ORIGIN)?.as_bytes()).into_owned();
        let host = headers.get(HOST).map(HeaderValue::as_bytes);
        // Browsers leave the standard port out of both.
        let authority = text.split_once("://").map(|(_, authority)| authority.as_bytes());
        let is_same = match (authority, host) {
            (Some(authority), Some(host)) => authority.eq_ignore_ascii_case(host),
            _ => false,
        };
        Some(Self { text, is_same })
    }
}

/// Returns the value of a field that stands there once.
fn only_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value.as_bytes()),
        _ => None,
    }
}
