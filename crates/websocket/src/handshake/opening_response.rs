//! The client's side: the check of a response.

use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use http::{HeaderMap, HeaderValue};

use super::field_list::{has_element, parse_extensions, parse_tokens};
use super::key::AcceptProof;
use crate::deflate::negotiation::{DeflateNegotiationError, shorten};
use crate::deflate::options::DeflateOptions;
use crate::deflate::parameters::{DeflateParameters, EXTENSION_NAME};

/// A response with status 101 that does not open a WebSocket as it was asked for.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseViolation {
    /// Upgrade or Connection does not say that WebSocket follows.
    #[error("Upgrade: websocket or Connection: Upgrade is missing")]
    NoUpgrade,
    /// The proof that the server has read the key is missing, or is that of another key.
    #[error("Sec-WebSocket-Accept does not belong to the key of the request")]
    Accept,
    /// The server has chosen a subprotocol that was not offered, or several.
    #[error("the server has chosen the subprotocol {chosen:?}, which was not offered")]
    Subprotocol {
        /// The value of the response; of a long one the beginning.
        chosen: String,
    },
    /// The list of extensions is malformed.
    #[error("Sec-WebSocket-Extensions is malformed")]
    Extensions,
    /// The server has chosen an extension that was not offered, or one twice.
    #[error("the server has chosen the extension {name:?}, which was not offered")]
    Extension {
        /// The name of the extension; of a long one the beginning.
        name: String,
    },
    /// The parameters of permessage-deflate do not answer the offer.
    #[error("permessage-deflate: {0}")]
    Deflate(#[from] DeflateNegotiationError),
}

/// The offer of a client.
#[derive(Clone, Debug)]
pub(crate) struct OpeningOffer<'a> {
    pub(crate) key: &'a str,
    pub(crate) subprotocols: &'a [String],
    pub(crate) deflate: Option<&'a DeflateOptions>,
}

/// The choices of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpeningChoice {
    pub(crate) subprotocol: Option<String>,
    pub(crate) deflate: Option<DeflateParameters>,
}

impl OpeningOffer<'_> {
    /// Checks a response with status 101 against RFC 6455, section 4.1.
    pub(crate) fn check_response(
        &self,
        headers: &HeaderMap,
    ) -> Result<OpeningChoice, ResponseViolation> {
        if !has_element(headers, &UPGRADE, "websocket")
            || !has_element(headers, &CONNECTION, "upgrade")
        {
            return Err(ResponseViolation::NoUpgrade);
        }
        let proof = AcceptProof::of(self.key.as_bytes());
        let mut proofs = headers.get_all(SEC_WEBSOCKET_ACCEPT).iter();
        let is_proven = proofs.next().is_some_and(|value| value.as_bytes() == proof.as_bytes());
        if !is_proven || proofs.next().is_some() {
            return Err(ResponseViolation::Accept);
        }
        Ok(OpeningChoice {
            subprotocol: self.check_subprotocol(headers)?,
            deflate: self.check_extensions(headers)?,
        })
    }

    fn check_subprotocol(&self, headers: &HeaderMap) -> Result<Option<String>, ResponseViolation> {
        let chosen = parse_tokens(headers, &SEC_WEBSOCKET_PROTOCOL);
        match chosen.as_deref() {
            Ok([]) if !headers.contains_key(SEC_WEBSOCKET_PROTOCOL) => Ok(None),
            Ok([one]) if self.subprotocols.iter().any(|offered| offered == one) => {
                Ok(Some((*one).to_owned()))
            }
            _ => {
                let value = headers.get(SEC_WEBSOCKET_PROTOCOL).map(HeaderValue::as_bytes);
                let chosen = shorten(&String::from_utf8_lossy(value.unwrap_or_default()));
                Err(ResponseViolation::Subprotocol { chosen })
            }
        }
    }

    fn check_extensions(
        &self,
        headers: &HeaderMap,
    ) -> Result<Option<DeflateParameters>, ResponseViolation> {
        let extensions = parse_extensions(headers, &SEC_WEBSOCKET_EXTENSIONS)
            .map_err(|_| ResponseViolation::Extensions)?;
        let mut deflate = None;
        for extension in &extensions {
            match self.deflate {
                Some(options) if extension.name == EXTENSION_NAME && deflate.is_none() => {
                    deflate = Some(options.check_response(&extension.parameters())?);
                }
                _ => {
                    let name = shorten(extension.name);
                    return Err(ResponseViolation::Extension { name });
                }
            }
        }
        Ok(deflate)
    }
}
