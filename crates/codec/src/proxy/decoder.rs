//! Decodes PROXY headers from a byte stream.

use std::mem;

use bytes::{Buf, Bytes};
use waterwheel_channel::{Decoder, Quoted};
use waterwheel_executor::Error;

use super::error::ProxyError;
use super::header::ProxyHeader;
use super::{binary_header, text_header};

/// Default maximum length of a header; more than known proxies send.
const DEFAULT_MAX_HEADER: usize = 4 * 1024;

/// Decodes PROXY headers of both versions. [`ProxyServer`](crate::ProxyServer) is the handler for servers.
///
/// ```
/// use waterwheel_codec::{ProxyDecoder, ProxyHeader};
/// use waterwheel_testkit::decoder_verifier::DecoderVerifier;
///
/// let header = ProxyHeader::tcp("[2001:db8::7]:51000".parse()?, "[2001:db8::1]:443".parse()?);
/// DecoderVerifier::new(ProxyDecoder::new)
///     .gives("PROXY TCP6 2001:db8::7 2001:db8::1 51000 443\r\n", [header])
///     .fails("GET / HTTP/1.1\r\n", "PROXY: the connection begins with 'G' instead of a PROXY header")
///     .verify();
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ProxyDecoder {
    limit: usize,
}

impl ProxyDecoder {
    /// Creates a decoder for headers of up to 4 KiB.
    #[must_use]
    pub fn new() -> Self {
        Self { limit: DEFAULT_MAX_HEADER }
    }

    /// Sets the maximum length of a version 2 header. Version 1 headers have at most 107 bytes. Default: 4 KiB.
    #[must_use]
    pub fn max_header(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Removes a complete header from the front of `buf`.
    ///
    /// # Errors
    /// The bytes at the front are invalid. Nothing is consumed.
    pub fn next_header(&self, buf: &mut Bytes) -> Result<Option<ProxyHeader>, ProxyError> {
        let begins = if buf.first() == text_header::PREFIX.first() {
            text_header::PREFIX
        } else {
            binary_header::SIGNATURE
        };
        if let Some(wrong) = buf.iter().zip(begins).position(|(found, expected)| found != expected)
        {
            return Err(ProxyError::NoHeader { found: Quoted::new(&buf[..=wrong]) });
        }
        if buf.len() < begins.len() {
            return Ok(None);
        }
        let found = if begins == text_header::PREFIX {
            text_header::decode(buf)?
        } else {
            binary_header::decode(buf, self.limit)?
        };
        Ok(found.map(|(header, length)| {
            buf.advance(length);
            header
        }))
    }
}

impl Default for ProxyDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder for ProxyDecoder {
    type Out = ProxyHeader;

    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<ProxyHeader>, Error> {
        self.next_header(buf).map_err(Error::new)
    }

    fn max_unread(&self) -> usize {
        self.limit.max(text_header::MAX_LINE)
    }

    /// Fails if the stream ends in the middle of a header.
    fn decode_last(&mut self, buf: &mut Bytes) -> Result<Option<ProxyHeader>, Error> {
        match self.decode(buf)? {
            None if !buf.is_empty() => {
                let unread = mem::take(buf).len();
                Err(Error::new(ProxyError::CutOff { unread }))
            }
            header => Ok(header),
        }
    }
}
