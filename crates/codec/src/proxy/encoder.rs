//! Encodes PROXY headers.

use bytes::BytesMut;
use waterwheel_channel::{Encoder, HandlerResult};
use waterwheel_executor::Error;

use super::header::ProxyHeader;

/// Encodes a [`ProxyHeader`], which a proxy writes first, in `on_active`. Other messages are passed on, so the encoder may
/// stay in the pipeline.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_channel::Encode;
/// use waterwheel_codec::{ProxyEncoder, ProxyHeader};
/// use waterwheel_testkit::embedded::Embedded;
///
/// let mut channel = Embedded::builder().stream().build(|edit| {
///     edit.add_last("proxy", Encode::new(ProxyEncoder::V1))?;
///     Ok(())
/// })?;
/// let (client, server) = ("192.0.2.7:51000".parse()?, "192.0.2.1:80".parse()?);
/// channel.write_outbound(ProxyHeader::tcp(client, server)).join()?;
/// channel.write_outbound(Bytes::from_static(b"GET / HTTP/1.1\r\n")).join()?;
/// let sent: Vec<Bytes> = std::iter::from_fn(|| channel.read_outbound()).collect();
/// assert_eq!(sent, ["PROXY TCP4 192.0.2.7 192.0.2.1 51000 80\r\n", "GET / HTTP/1.1\r\n"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyEncoder {
    /// Version 1, a line of text.
    V1,
    /// Version 2, binary.
    V2,
}

impl Encoder for ProxyEncoder {
    type In = ProxyHeader;

    fn encode(&mut self, header: ProxyHeader, dst: &mut BytesMut) -> HandlerResult {
        let encoded = match self {
            Self::V1 => header.encode_v1(dst),
            Self::V2 => header.encode_v2(dst),
        };
        encoded.map_err(Error::new)
    }
}
