//! The handlers of a new connection, until its protocol is known.

use std::sync::Arc;
use std::time::Duration;

use waterwheel::channel::{Address, Edit};
use waterwheel::codec::ProxyServer;
use waterwheel::executor::Error;
use waterwheel::handlers::{AtLimit, Detection, Probe, ProtocolDetector, StockProbe};
use waterwheel::http::HttpServer;
use waterwheel::tls::AlpnHandler;

use super::options::PortOptions;
use crate::port::tls::tls_port::TlsPort;
use crate::protocols::lines::LineProtocol;

/// The time that a trusted proxy has for the beginning of its header.
const PROXY_TIMEOUT: Duration = Duration::from_secs(5);

/// Builds the pipeline of each connection.
///
/// ```text
///   proxy detector ──► ProxyServer ──► TLS, ALPN ──► first byte ──► request line ──► HTTP or lines
///   (trusted peers)                   (if configured)   │ silence: lines
/// ```
#[derive(Debug)]
pub struct ConnectionPipeline {
    options: Arc<PortOptions>,
    /// For connections of trusted proxies.
    proxy: ProtocolDetector,
    plain: PlainPipeline,
}

/// The handlers after a PROXY header.
#[derive(Clone, Debug)]
struct PlainPipeline {
    tls: Option<(Arc<TlsPort>, AlpnHandler)>,
    first_byte: ProtocolDetector,
}

/// The protocols of a port.
#[derive(Clone, Debug)]
pub struct PortProtocols {
    /// HTTP, with all routes.
    pub http: Arc<HttpServer>,
    /// Lines of text.
    pub lines: LineProtocol,
}

impl ConnectionPipeline {
    /// Creates the pipelines.
    ///
    /// # Errors
    /// An option is out of range.
    pub fn new(
        options: &Arc<PortOptions>,
        protocols: &PortProtocols,
        tls: Option<&Arc<TlsPort>>,
    ) -> Result<Self, Error> {
        let first_byte = first_byte_detector(options, protocols)?;
        let tls = match tls {
            Some(tls) => Some((tls.clone(), alpn_handler(protocols, &first_byte)?)),
            None => None,
        };
        let plain = PlainPipeline { tls, first_byte };
        let after_header = plain.clone();
        let trusting = options.clone();
        let proxy = ProtocolDetector::builder()
            .protocol("proxy", StockProbe::Proxy, move |edit| {
                let options = trusting.clone();
                let is_trusted = move |peer: Option<&Address>| is_trusted(&options, peer);
                edit.add_last("proxy-header", ProxyServer::new(is_trusted))?;
                after_header.add_handlers(edit)
            })
            .timeout(PROXY_TIMEOUT)
            .build()?;
        Ok(Self { options: options.clone(), proxy, plain })
    }

    /// Adds the first handlers of a connection; called on its loop.
    ///
    /// # Errors
    /// The pipeline has handlers of these names.
    pub fn add_handlers(&self, edit: &mut Edit<'_>) -> Result<(), Error> {
        if !is_trusted(&self.options, edit.channel().peer_address().as_ref()) {
            return self.plain.add_handlers(edit);
        }
        edit.add_last("proxy", self.proxy.clone())?;
        Ok(())
    }
}

impl PlainPipeline {
    fn add_handlers(&self, edit: &mut Edit<'_>) -> Result<(), Error> {
        match &self.tls {
            Some((tls, alpn)) => {
                tls.add_handlers(edit)?;
                // Detection begins after the handshake: its time limits are not those of a slow network.
                edit.add_last("alpn", alpn.clone())?;
            }
            None => _ = edit.add_last("first-byte", self.first_byte.clone())?,
        }
        Ok(())
    }
}

fn is_trusted(options: &PortOptions, peer: Option<&Address>) -> bool {
    peer.and_then(Address::ip).is_some_and(|ip| options.is_trusted_proxy(ip.to_canonical()))
}

/// Returns the handler that waits for the end of the handshake.
fn alpn_handler(
    protocols: &PortProtocols,
    first_byte: &ProtocolDetector,
) -> Result<AlpnHandler, Error> {
    let (http, first_byte) = (protocols.http.clone(), first_byte.clone());
    let alpn = AlpnHandler::builder()
        .on("http/1.1", move |edit| http.initialise(edit))
        .otherwise(move |edit| {
            edit.add_last("first-byte", first_byte.clone())?;
            Ok(())
        })
        .build();
    alpn.map_err(Error::new)
}

/// Returns the detector that waits for the first byte. A client that stays silent is one of lines.
fn first_byte_detector(
    options: &PortOptions,
    protocols: &PortProtocols,
) -> Result<ProtocolDetector, Error> {
    let request_line = request_line_detector(options, protocols)?;
    let lines = protocols.lines.clone();
    let detector = ProtocolDetector::builder()
        .protocol(
            "a first byte",
            |_: &[u8]| Detection::Match,
            move |edit| {
                edit.add_last("request-line", request_line.clone())?;
                Ok(())
            },
        )
        .otherwise(move |edit| lines.add_handlers(edit));
    let detector = match options.silence {
        Some(silence) => detector.timeout(silence).at_timeout(AtLimit::Decide),
        None => detector.timeout(options.detection_timeout),
    };
    Ok(detector.build()?)
}

/// Returns the detector of the protocol by the first line.
fn request_line_detector(
    options: &PortOptions,
    protocols: &PortProtocols,
) -> Result<ProtocolDetector, Error> {
    let (http, refuses, lines) =
        (protocols.http.clone(), protocols.http.clone(), protocols.lines.clone());
    let request = RequestLineProbe { max_bytes: options.head_bytes };
    let detector = ProtocolDetector::builder()
        .protocol("http", request, move |edit| http.initialise(edit))
        // Answered with a status: HTTP/1 refuses the version.
        .protocol("http/2", StockProbe::Http2, move |edit| refuses.initialise(edit))
        .otherwise(move |edit| lines.add_handlers(edit))
        .max_bytes(2 * options.head_bytes)
        .timeout(options.detection_timeout)
        .at_timeout(AtLimit::Close);
    Ok(detector.build()?)
}

/// Recognises requests of HTTP/1. A line that may become a request line, and is too long for one, counts as a request: HTTP
/// answers it with status 414.
#[derive(Debug)]
struct RequestLineProbe {
    max_bytes: usize,
}

impl Probe for RequestLineProbe {
    fn probe(&self, bytes: &[u8], seen: usize) -> Detection {
        match StockProbe::Http1.probe(bytes, seen) {
            Detection::NeedMore if bytes.len() > self.max_bytes => Detection::Match,
            answer => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k13_a_request_line_that_is_too_long_is_still_one_of_http() {
        let probe = RequestLineProbe { max_bytes: 100 };
        let long = format!("GET /{}", "a".repeat(200));
        assert_eq!(probe.probe(&long.as_bytes()[..100], 0), Detection::NeedMore);
        assert_eq!(probe.probe(&long.as_bytes()[..101], 100), Detection::Match);
        assert_eq!(probe.probe(b"USER ann\n", 0), Detection::NoMatch);
        assert_eq!(probe.probe(b"GET / HTTP/1.1\r\n", 0), Detection::Match);
    }
}
